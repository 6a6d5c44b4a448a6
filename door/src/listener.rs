//! The listener of a door: a TCP address, or a Unix socket.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingUnixStream;
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// Connections that wait to be accepted. One more would wait a second, for its caller to ask again.
/// The system's own limit is often the same.
const BACKLOG: u32 = 4_096;

/// The mode of a Unix socket: for its owner and group.
const SOCKET_MODE: u32 = 0o660;

/// The address of every caller of a Unix socket: this machine.
const UNIX_PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Debug)]
pub(crate) enum DoorListener {
    Tcp(TcpListener),
    Unix(UnixSocketFile),
}

/// A bound Unix socket. Its file goes with it.
#[derive(Debug)]
pub(crate) struct UnixSocketFile {
    listener: UnixListener,
    path: PathBuf,
}

/// A new connection.
pub(crate) enum AcceptedStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl DoorListener {
    pub(crate) fn bind_tcp(addr: SocketAddr) -> io::Result<Self> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        Ok(Self::Tcp(socket.listen(BACKLOG)?))
    }

    pub(crate) fn bind_unix(path: &Path) -> io::Result<Self> {
        remove_left_behind(path)?;
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
        Ok(Self::Unix(UnixSocketFile { listener, path: path.to_owned() }))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The next connection, and the address of its caller.
    pub(crate) async fn accept(&self) -> io::Result<(AcceptedStream, IpAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%peer, %error, "answers may wait for acknowledgements");
                }
                Ok((AcceptedStream::Tcp(stream), peer.ip()))
            }
            Self::Unix(UnixSocketFile { listener, .. }) => {
                let (stream, _) = listener.accept().await?;
                Ok((AcceptedStream::Unix(stream), UNIX_PEER))
            }
        }
    }
}

impl Drop for UnixSocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the socket of a process that has ended. Any other file stays, and so does a socket that
/// a process listens on: binding then fails.
fn remove_left_behind(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if found.file_type().is_socket() && BlockingUnixStream::connect(path).is_err_and(refused) {
        fs::remove_file(path)?;
    }
    Ok(())
}
