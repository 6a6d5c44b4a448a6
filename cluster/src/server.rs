//! Joins the running server, or starts one under its guard. See the crate's documentation.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::mkdtemp;
use tokio::process::{Child, Command};

use crate::error::{AtPath, ClusterError};
use crate::lifeline::{self, LifelineHold, LifelineState};
use crate::place::{ClusterFiles, DirectoryLifetime, POLL_INTERVAL, PORT, SOCKET_NAME};
use crate::postmaster::{self, Postmaster};
use crate::programs::{self, PostgresPrograms};
use crate::{ClusterConfig, Durability};

/// The longest wait for a former server to end. It first writes everything to the disk.
const SHUTDOWN_WAIT_MAX: Duration = Duration::from_secs(60);

/// The longest path of a socket on Linux.
const SOCKET_PATH_BYTES_MAX: usize = 107;

const GUARD_SCRIPT: &str = include_str!("lifeline.sh");

/// A running server, and our hold on it.
pub(crate) struct RunningServer {
    pub(crate) hold: LifelineHold,
    /// The guard, if this process started the server.
    pub(crate) guard: Option<Child>,
    pub(crate) socket_folder: PathBuf,
}

/// Joins the running server, waits for a server that is stopping, or starts one. Only under the
/// cluster's lock.
pub(crate) async fn join_or_start(
    place: &ClusterFiles,
    config: &ClusterConfig,
) -> Result<RunningServer, ClusterError> {
    for _ in 0..SHUTDOWN_WAIT_MAX.as_millis() / POLL_INTERVAL.as_millis() {
        let unwatched = match lifeline::take_hold(&place.lifeline())? {
            LifelineState::Held(hold) => {
                if let Some(postmaster) = Postmaster::answering(place) {
                    return Ok(RunningServer {
                        hold,
                        guard: None,
                        socket_folder: postmaster.socket_folder,
                    });
                }
                false
            }
            LifelineState::Absent => false,
            LifelineState::Unwatched => true,
        };
        if let Some(log) = place.free_log()? {
            return start(place, config, log).await;
        }
        if unwatched {
            postmaster::stop_orphan(place);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Err(ClusterError::Stuck(place.data_dir.clone()))
}

/// Starts the server and waits until it is ready. Makes missing data first.
async fn start(
    place: &ClusterFiles,
    config: &ClusterConfig,
    log: File,
) -> Result<RunningServer, ClusterError> {
    let programs = programs::find_for(&place.account, &place.data(), config.pg_bin.as_deref())?;
    postmaster::remove_stale_locks(place)?;
    let password = place.password()?;
    if !place.data().exists() {
        place.hand_over(&password)?;
    }
    let sockets = socket_folder(place)?;
    let (hold, watched) = lifeline::make(&place.lifeline(), &place.account)?;
    let mut said = File::open(place.log()).at(&place.log())?;
    said.seek(SeekFrom::End(0)).at(&place.log())?;
    let mut command = guard_command(place, &programs, &sockets);
    command
        .env("INITDB_SYNC", sync_option(config.durability))
        .args(setting_arguments(config, &sockets));
    command.stdin(watched).stdout(log.try_clone().at(&place.log())?).stderr(log);
    let mut guard = Command::from(command).spawn().at(Path::new("/bin/sh"))?;
    while Postmaster::answering(place).is_none() {
        if guard.try_wait().at(Path::new("/bin/sh"))?.is_some() {
            return Err(ClusterError::DidNotStart { said: last_lines(said), log: place.log() });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    tracing::info!(data_dir = %place.data_dir.display(), "started the private PostgreSQL cluster");
    Ok(RunningServer { hold, guard: Some(guard), socket_folder: sockets })
}

/// The command of the guard. The guard has a process group of its own, so that Ctrl-C reaches only
/// this process.
fn guard_command(
    place: &ClusterFiles,
    programs: &PostgresPrograms,
    sockets: &Path,
) -> std::process::Command {
    let mut command = place.account.command("/bin/sh");
    let kept = place.lifetime == DirectoryLifetime::Kept;
    let own_sockets = sockets == place.folder();
    command.env("LC_ALL", "C").env("TZ", "UTC");
    command.env("FOLDER", place.folder());
    command.env("INITDB", programs.folder.join("initdb"));
    command.env("POSTGRES", programs.folder.join("postgres"));
    command.env("STOP", if kept { "INT" } else { "QUIT" });
    command.env("SOCKETS", if own_sockets { Path::new("") } else { sockets });
    command.env("TEMPORARY", if kept { Path::new("") } else { &place.data_dir });
    command.args(["-c", GUARD_SCRIPT, "firmforms-postgres"]).process_group(0);
    command
}

fn sync_option(durability: Durability) -> &'static str {
    match durability {
        Durability::Durable => "",
        Durability::ForTests => "--no-sync",
    }
}

/// The server's settings as arguments. The caller's settings come last and win.
fn setting_arguments(config: &ClusterConfig, sockets: &Path) -> Vec<String> {
    let quoted = sockets.to_string_lossy().replace('"', "\"\"");
    let mut settings = vec![
        "listen_addresses=".to_owned(),
        format!("port={PORT}"),
        format!("unix_socket_directories=\"{quoted}\""),
        "unix_socket_permissions=0700".to_owned(),
    ];
    if config.durability == Durability::ForTests {
        let careless = ["fsync=off", "synchronous_commit=off", "full_page_writes=off"];
        settings.extend(careless.map(str::to_owned));
    }
    settings.extend(config.settings.iter().map(|(name, value)| format!("{name}={value}")));
    settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect()
}

/// The folder of the socket: the account's folder, or a short one if the path would be too long.
/// The guard removes the short one.
fn socket_folder(place: &ClusterFiles) -> Result<PathBuf, ClusterError> {
    let folder = place.folder();
    let socket = folder.join(SOCKET_NAME);
    if socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok(folder);
    }
    let template = Path::new("/tmp/firmforms-XXXXXX");
    let short = mkdtemp(template).at(template)?;
    place.account.give_folder(&short)?;
    Ok(short)
}

/// The last lines of the server's or `initdb`'s output, as one line.
fn last_lines(mut log: File) -> String {
    let mut text = Vec::new();
    let _ = log.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(4)..].join(" | ")
}
