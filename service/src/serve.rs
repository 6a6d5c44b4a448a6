//! `serve`: runs the doors and the workers of a role until a signal.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use api::SendingMode;
use cluster::Cluster;
use deliverer::inspect::lost_keys::{self, KeyCoverage};
use deliverer::upkeep;
use inviter::Inviter;
use projector::pauses;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use vault::WrappingKey;

use crate::databases::{Databases, SERVICE_DATABASES};
use crate::door_pair::{DoorPair, reload_on_sighup};
use crate::doors::{BoundDoors, DoorAddresses, ServedDoors};
use crate::installation::Installation;
use crate::role::ProcessRole;
use crate::service_manager;
use crate::storage::StorageSettings;
use crate::telemetry::ProcessMetrics;
use crate::wiring::{System, SystemSetup};
use crate::workers::spawn_workers;

/// The longest wait after a signal for calls and attempts under way.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

/// The wait between two looks at the private cluster.
const CLUSTER_INTERVAL: Duration = Duration::from_secs(2);

/// The settings of a process that serves.
pub struct ServeSettings {
    /// The version of this build, for the log.
    pub version: &'static str,
    /// The part of the service that the process runs.
    pub role: ProcessRole,
    /// The location of the data.
    pub storage: StorageSettings,
    /// The settings of its parts.
    pub setup: SystemSetup,
    /// The addresses of its doors.
    pub addresses: DoorAddresses,
    /// The settings of its doors.
    pub doors: DoorPair,
}

/// Runs the service until a signal, and then finishes the work under way.
///
/// # Errors
///
/// If an address cannot be bound, a database refuses this login, or a worker ends by itself.
pub async fn run(settings: ServeSettings) -> anyhow::Result<()> {
    let ServeSettings { version, role, storage, setup, addresses, doors: settings } = settings;
    let metrics = Arc::new(ProcessMetrics::install_recorder()?);
    let doors = BoundDoors::bind(&addresses).await?;
    let databases = Databases::open(&storage, SERVICE_DATABASES, Installation::MayBegin).await?;
    tracing::info!(
        version,
        role = role.name(),
        main = %databases.main.places(),
        keyring = %databases.keyring.places(),
        "starting"
    );
    let wrapping = storage.wrapping_key(Installation::MayBegin)?;
    let mut signal = pin!(register_signals()?);
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&metrics).run_upkeep(stop.clone()));
    tasks.spawn(service_manager::keep_watchdog(stop.clone()));
    let doors = serve_doors(doors, settings, &metrics, &stop, &mut tasks);
    service_manager::tell_status("waiting for the databases");
    let started = tokio::select! {
        started = start_system(databases, wrapping, setup, role) => Ok(started?),
        signal = &mut signal => Err(signal),
    };
    let mut system = match started {
        Ok(system) => system,
        Err(signal) => {
            drain_tasks(signal, &mut tasks, &stop, ready(())).await;
            return Ok(());
        }
    };
    follow_primaries(&mut system, &stop, &mut tasks);
    if let Some(cluster) = system.cluster.clone() {
        let ended = stop.clone();
        tasks.spawn(async move {
            ended.run_until_cancelled(keep_running(cluster)).await;
        });
    }
    warn_of_pauses(&system).await?;
    spawn_workers(&system, role, &stop, &mut tasks);
    metrics.watch_system(&system);
    look_at_provider(&system, &stop, &mut tasks);
    doors.route_to(&system.service);
    service_manager::tell_ready(&format!("works as {}", role.name()));
    tracing::info!("ready");
    let (is_drained, ended) =
        run_until_signal(signal, &mut tasks, &stop, &system.service.inviter).await;
    // Unfinished work still holds connections, so only the end of the process closes them.
    if is_drained {
        system.stop().await?;
    }
    ended
}

/// Waits for the databases, then assembles the service on them.
async fn start_system(
    mut databases: Databases,
    wrapping: WrappingKey,
    setup: SystemSetup,
    role: ProcessRole,
) -> anyhow::Result<System> {
    databases.wait_for_primaries().await?;
    let system = System::start(databases, wrapping, setup).await?;
    if role.sends_deliveries() {
        let again = upkeep::redo_erasures(&system.deliverer).await;
        let again = again.context("carrying out recorded erasures")?;
        if again > 0 {
            tracing::warn!(again, "a database is from a backup: erasures were carried out again");
        }
    }
    // A projector may read neither vault nor keyring.
    if role != ProcessRole::Projector {
        warn_of_lost_keys(&system).await?;
    }
    Ok(system)
}

/// Says so if the keyring lost its end. Other responses are served meanwhile.
async fn warn_of_lost_keys(system: &System) -> anyhow::Result<()> {
    let found = lost_keys::check_newest(system.main_pool(), &system.service.keyring).await;
    let KeyCoverage { looked, lost } = found.context("looking for the newest data keys")?;
    if lost > 0 {
        tracing::error!(
            looked,
            lost,
            "the keyring has lost keys of the newest responses: nobody can read or send them; stop \
             the service, and restore the newest copy of the keyring"
        );
    }
    Ok(())
}

/// Serves the doors, which answer 503 until they are opened.
fn serve_doors(
    doors: BoundDoors,
    settings: DoorPair,
    metrics: &Arc<ProcessMetrics>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> ServedDoors {
    doors.log_addresses();
    let certificates = settings.certificates();
    if !certificates.is_empty() {
        tasks.spawn(reload_on_sighup(certificates, stop.clone()));
    }
    doors.serve(settings, Arc::clone(metrics), stop, tasks)
}

/// Leads the pools of each database to its new primary after a failover.
fn follow_primaries(system: &mut System, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
    let nudge = system.service.store.nudge().clone();
    for primary in system.primaries.drain(..) {
        let followed = primary.follow(nudge.clone());
        let ended = stop.clone();
        tasks.spawn(async move {
            ended.run_until_cancelled(followed).await;
        });
    }
}

/// Starts the server of the private cluster again when it has ended by itself. A full disk ends it,
/// and nobody else starts it.
async fn keep_running(cluster: Arc<Mutex<Cluster>>) {
    let mut is_told = false;
    loop {
        tokio::time::sleep(CLUSTER_INTERVAL).await;
        let mut cluster = cluster.lock().await;
        if cluster.is_answering() {
            is_told = false;
            continue;
        }
        if let Err(error) = cluster.start_again().await
            && !is_told
        {
            tracing::error!("the private PostgreSQL cluster does not start again: {error}");
            is_told = true;
        }
    }
}

/// Reads the description of the provider, so that an operator learns of a fault before a user does.
fn look_at_provider(system: &System, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
    let Some(provider) = system.service.settings.provider.clone() else { return };
    let ended = stop.clone();
    tasks.spawn(async move {
        match ended.run_until_cancelled(provider.require_description()).await {
            Some(Ok(())) => tracing::info!(host = provider.host(), "users sign in by a provider"),
            Some(Err(error)) => tracing::warn!(
                host = provider.host(),
                %error,
                "users cannot sign in by the provider now; tokens sign in, and it is asked again"
            ),
            None => return,
        }
        ended.cancelled().await;
    });
}

/// Waits for a signal, then for the work under way. Returns whether that work ended. A task that
/// ends before the signal is a defect.
async fn run_until_signal(
    signal: impl Future<Output = &'static str>,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
    inviter: &Inviter,
) -> (bool, anyhow::Result<()>) {
    let (why, ended) = tokio::select! {
        signal = signal => (signal, Ok(())),
        _ = tasks.join_next() => ("a worker ended", Err(anyhow!("a worker ended before the signal"))),
    };
    (drain_tasks(why, tasks, stop, inviter.drain_invites()).await, ended)
}

/// Stops every task, and waits for it and then for the work that the tasks left behind. Returns
/// whether all ended in time.
async fn drain_tasks(
    why: &str,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
    left_behind: impl Future<Output = ()>,
) -> bool {
    service_manager::tell_stopping("finishing what is under way");
    tracing::info!("{why}: finishing what is under way");
    stop.cancel();
    let drained = async {
        while tasks.join_next().await.is_some() {}
        left_behind.await;
    };
    let is_drained = tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_ok();
    if !is_drained {
        tracing::warn!("gave up waiting; leases will end by themselves");
    }
    is_drained
}

/// Registers the signals now. The future returns the first one.
fn register_signals() -> anyhow::Result<impl Future<Output = &'static str>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => "SIGINT",
            _ = terminate.recv() => "SIGTERM",
        }
    })
}

/// Warns of pauses, so that no operator learns of them from receivers.
async fn warn_of_pauses(system: &System) -> anyhow::Result<()> {
    if system.service.settings.sending == SendingMode::Held {
        tracing::warn!(
            "PAUSED: this process claims and sends nothing until it is started without --paused"
        );
    }
    // A pause's scope and reason may contain names, so the log has only ids. `deliveries paused`
    // shows the rest.
    let pauses = pauses::list(system.main_pool()).await?;
    if !pauses.is_empty() {
        let ids: Vec<_> = pauses.iter().map(|pause| pause.pause_id.to_string()).collect();
        tracing::warn!(count = ids.len(), ids = ids.join(" "), "deliveries are paused");
    }
    Ok(())
}
