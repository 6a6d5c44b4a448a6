//! HAProxy with the configuration that `firmforms cells haproxy` prints.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::under_test::program;

/// Where Debian puts it.
pub const HAPROXY: &str = "/usr/sbin/haproxy";

/// Below the ports that systems choose by themselves.
const PORTS: [u16; 2] = [20_080, 20_081];

/// From one try to connect to the next.
const AGAIN: Duration = Duration::from_millis(2);

/// Proxies of this process. Each listens on an address of its own.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A running HAProxy, until it is dropped.
pub struct HaProxy {
    _process: Child,
    _folder: TempDir,
    /// Where it takes public calls.
    pub public: SocketAddr,
    /// Where it takes internal calls.
    pub internal: SocketAddr,
}

impl HaProxy {
    /// Starts HAProxy in front of these cells, which are entries of the file of cells. `None` if
    /// HAProxy is not installed.
    pub async fn before(cells: &str) -> Option<Self> {
        if !Path::new(HAPROXY).exists() {
            println!("SKIPPED: no HAProxy on this machine");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let [public, internal] = PORTS.map(|port| SocketAddr::new(own_address(), port));
        let plan = format!("public = \"{public}\"\ninternal = \"{internal}\"\n{cells}");
        let file = folder.path().join("haproxy.cfg");
        fs::write(&file, printed_configuration(folder.path(), &plan).await.unwrap()).unwrap();
        let process = Command::new(HAPROXY)
            .args(["-db", "-f"])
            .arg(&file)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let listens = async {
            while TcpStream::connect(public).await.is_err() {
                sleep(AGAIN).await;
            }
        };
        timeout(Duration::from_secs(60), listens).await.unwrap();
        Some(Self { _process: process, _folder: folder, public, internal })
    }
}

/// The configuration for this file of cells, or the refusal.
pub async fn printed_configuration(folder: &Path, plan: &str) -> Result<String, String> {
    let file = folder.join("cells.toml");
    fs::write(&file, plan).unwrap();
    let mut command = Command::new(program());
    let printed = command.env_clear().args(["cells", "haproxy"]).arg(&file).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if printed.status.success() { Ok(text(printed.stdout)) } else { Err(text(printed.stderr)) }
}

/// A loopback address for this proxy only. Two proxies could bind one address, and would share its
/// calls.
fn own_address() -> IpAddr {
    // An odd number ends in neither 0 nor 254.
    let number = (2 * STARTED.fetch_add(1, Ordering::Relaxed) + 1).to_be_bytes();
    let process = std::process::id().to_be_bytes()[3];
    Ipv4Addr::new(127, 64 | (process >> 1), number[2], number[3]).into()
}
