//! Joins the running server, or starts one under its guard. See the crate's documentation.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::mkdtemp;
use tokio::process::{Child, Command};

use crate::config::{ClusterConfig, Durability};
use crate::error::{AtPath, ClusterError};
use crate::files::{ClusterFiles, DirectoryLifetime, POLL_INTERVAL, PORT, SOCKET_NAME};
use crate::lifeline::{self, LifelineHold, LifelineState};
use crate::postmaster::{self, Postmaster};
use crate::programs::{self, PostgresPrograms};

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

/// Joins the running server, waits for a server that is stopping, or starts one. The caller holds
/// the cluster's lock.
pub(crate) async fn join_or_start(
    files: &ClusterFiles,
    config: &ClusterConfig,
) -> Result<RunningServer, ClusterError> {
    for _ in 0..SHUTDOWN_WAIT_MAX.as_millis() / POLL_INTERVAL.as_millis() {
        let unwatched = match lifeline::take_hold(&files.lifeline_path())? {
            LifelineState::Held(hold) => {
                if let Some(postmaster) = Postmaster::find_answering(files) {
                    return Ok(RunningServer {
                        hold,
                        guard: None,
                        socket_folder: postmaster.socket_folder,
                    });
                }
                // The server does not answer. This hold is dropped, and the loop goes on.
                false
            }
            LifelineState::Absent => false,
            LifelineState::Unwatched => true,
        };
        // The log's lock is free only when no process of a former server is alive.
        if let Some(log) = files.free_log()? {
            return start_server(files, config, log).await;
        }
        if unwatched {
            postmaster::stop_orphan(files);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Err(ClusterError::Stuck(files.data_dir.clone()))
}

/// Starts the server and waits until it is ready. Makes missing data first.
async fn start_server(
    files: &ClusterFiles,
    config: &ClusterConfig,
    log: File,
) -> Result<RunningServer, ClusterError> {
    let programs =
        programs::find_for(&files.account, &files.data_folder(), config.pg_bin.as_deref())?;
    postmaster::remove_stale_locks(files)?;
    let password = files.ensure_password()?;
    if !files.data_folder().exists() {
        files.hand_over(&password)?;
    }
    let sockets = socket_folder(files)?;
    let (hold, watched) = lifeline::make(&files.lifeline_path(), &files.account)?;
    let mut said = File::open(files.log_path()).at_path(&files.log_path())?;
    said.seek(SeekFrom::End(0)).at_path(&files.log_path())?;
    let mut command = guard_command(files, &programs, &sockets);
    command
        .env("INITDB_SYNC", sync_option(config.durability))
        .args(setting_arguments(config, &sockets));
    command.stdin(watched).stdout(log.try_clone().at_path(&files.log_path())?).stderr(log);
    let mut guard = Command::from(command).spawn().at_path(Path::new("/bin/sh"))?;
    while Postmaster::find_answering(files).is_none() {
        if guard.try_wait().at_path(Path::new("/bin/sh"))?.is_some() {
            return Err(ClusterError::DidNotStart {
                said: last_lines(said),
                log: files.log_path(),
            });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    tracing::info!(data_dir = %files.data_dir.display(), "started the private PostgreSQL cluster");
    Ok(RunningServer { hold, guard: Some(guard), socket_folder: sockets })
}

/// The command of the guard. The guard has a process group of its own, so that Ctrl-C reaches only
/// this process.
fn guard_command(
    files: &ClusterFiles,
    programs: &PostgresPrograms,
    sockets: &Path,
) -> std::process::Command {
    let mut command = files.account.command("/bin/sh");
    let kept = files.lifetime == DirectoryLifetime::Kept;
    let own_sockets = sockets == files.folder();
    command.env("LC_ALL", "C").env("TZ", "UTC");
    command.env("FOLDER", files.folder());
    command.env("INITDB", programs.folder.join("initdb"));
    command.env("POSTGRES", programs.folder.join("postgres"));
    command.env("STOP", if kept { "INT" } else { "QUIT" });
    command.env("SOCKETS", if own_sockets { Path::new("") } else { sockets });
    command.env("TEMPORARY", if kept { Path::new("") } else { &files.data_dir });
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
fn socket_folder(files: &ClusterFiles) -> Result<PathBuf, ClusterError> {
    let folder = files.folder();
    let socket = folder.join(SOCKET_NAME);
    if socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok(folder);
    }
    let template = Path::new("/tmp/firmforms-XXXXXX");
    let short = mkdtemp(template).at_path(template)?;
    files.account.give_folder(&short)?;
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
