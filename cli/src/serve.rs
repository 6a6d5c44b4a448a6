//! `serve`: runs the doors and the workers of a role until a signal.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use api::SendingMode;
use auditor::{AuditVerifier, Checkpointer};
use cluster::Cluster;
use deliverer::inspect::lost_keys::{self, KeyCoverage};
use deliverer::send::SpreadWorker;
use deliverer::send::deliver;
use deliverer::upkeep::CancelWorker;
use deliverer::upkeep::ClosedFirmWorker;
use deliverer::upkeep::EndedLeaseWorker;
use deliverer::upkeep::PurgeWorker;
use deliverer::upkeep::ReplayWorker;
use deliverer::upkeep::{self, EraseWorker};
use deliverer::{Dispatcher, SenderMembership};
use eventstore::log_tail::LogTailCheck;
use eventstore::worker::run_on;
use eventstore::{crash, relay};
use inviter::{Inviter, TakeOver};
use notifier::{NoticeWorker, Notifier};
use projector::audit::AuditLog;
use projector::deliveries::DeliveryProjection;
use projector::episodes::EpisodeTimer;
use projector::follow::Follower;
use projector::housekeeping::HousekeepingWorker;
use projector::partials::PartialTimer;
use projector::pauses;
use projector::seals::SealWorker;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use vault::WrappingKey;

use crate::args::version;
use crate::descriptors;
use crate::door_setup::{DoorPair, reload, warn_of_clear_text};
use crate::doors::{BoundDoors, ServedDoors};
use crate::service_manager;
use crate::setup::setup;
use crate::telemetry::ProcessMetrics;
use crate::wiring::{
    Databases, Installation, ProcessRole, SERVICE_DATABASES, ServeArgs, StorageArgs, System,
    SystemSetup, claim_in_appends,
};

/// The longest wait after a signal for calls and attempts under way.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

/// The wait between two looks at the private cluster.
const CLUSTER_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) async fn run(storage: &StorageArgs, serve: &ServeArgs) -> anyhow::Result<()> {
    let setup = setup(storage, serve)?;
    let shares = descriptors::shares(descriptors::raise_limit(), serve);
    let settings = DoorPair::of(serve, shares, &setup.base_url)?;
    warn_of_development(serve);
    warn_of_clear_text(serve);
    let metrics = Arc::new(ProcessMetrics::begin()?);
    let doors = BoundDoors::of(serve).await?;
    let databases = Databases::open(storage, SERVICE_DATABASES, Installation::MayBegin).await?;
    tracing::info!(
        version = version(),
        role = serve.role.name(),
        main = %databases.main.places(),
        keyring = %databases.keyring.places(),
        "starting"
    );
    let wrapping = storage.wrapping_key(Installation::MayBegin)?;
    let mut signal = pin!(signalled()?);
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&metrics).keep(stop.clone()));
    tasks.spawn(service_manager::keep_watchdog(stop.clone()));
    let doors = listen(doors, settings, &metrics, &stop, &mut tasks);
    service_manager::tell("waiting for the databases");
    let started = tokio::select! {
        started = start(databases, wrapping, setup, serve.role) => Ok(started?),
        signal = &mut signal => Err(signal),
    };
    let mut system = match started {
        Ok(system) => system,
        Err(signal) => {
            drain(signal, &mut tasks, &stop, ready(())).await;
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
    spawn_workers(&system, serve.role, &stop, &mut tasks);
    metrics.watch(&system);
    look_at_provider(&system, &stop, &mut tasks);
    doors.open(&system.service);
    service_manager::tell_ready(&format!("works as {}", serve.role.name()));
    tracing::info!("ready");
    let (is_drained, ended) = wait(signal, &mut tasks, &stop, &system.service.inviter).await;
    // Unfinished work still holds connections, so only the end of the process closes them.
    if is_drained {
        system.stop().await?;
    }
    ended
}

/// Waits for the databases, then assembles the service on them.
async fn start(
    mut databases: Databases,
    wrapping: WrappingKey,
    setup: SystemSetup,
    role: ProcessRole,
) -> anyhow::Result<System> {
    databases.wait().await?;
    let system = System::start(databases, wrapping, setup).await?;
    if matches!(role, ProcessRole::All | ProcessRole::Deliverer) {
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
    let found = lost_keys::newest(system.pool(), &system.service.keyring).await;
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
fn listen(
    doors: BoundDoors,
    settings: DoorPair,
    metrics: &Arc<ProcessMetrics>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> ServedDoors {
    doors.log_addresses();
    let certificates = settings.certificates();
    if !certificates.is_empty() {
        tasks.spawn(reload(certificates, stop.clone()));
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

/// Starts the workers of a role.
#[must_use]
pub fn start_workers(system: &System, role: ProcessRole, stop: &CancellationToken) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    spawn_workers(system, role, stop, &mut tasks);
    tasks
}

fn spawn_workers(
    system: &System,
    role: ProcessRole,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) {
    let store = &system.deliverer.store;
    let pool = store.pool();
    let background = {
        let clock = system.service.clock.clone();
        let health = system.service.health.clone();
        let pool = pool.clone();
        let nudge = store.nudge().clone();
        async move { tokio::join!(clock.keep_measured(health), relay(pool, nudge)) }
    };
    let ended = stop.clone();
    tasks.spawn(async move {
        tokio::select! { () = ended.cancelled() => {}, _ = background => {} }
    });
    tasks.spawn(run_on(LogTailCheck::new(store.clone()), store.nudge(), stop.clone()));
    if matches!(role, ProcessRole::All | ProcessRole::Projector) {
        spawn_projector(system, stop, tasks);
    }
    // Invites are reserved by the doors. A process without doors has no mail server.
    let sends = system.service.sending == SendingMode::On;
    if sends && matches!(role, ProcessRole::All | ProcessRole::Api) {
        let inviter = Inviter { store: store.clone(), ..system.service.inviter.clone() };
        tasks.spawn(run_on(TakeOver::new(inviter), store.nudge(), stop.clone()));
        let notifier = Notifier { store: store.clone(), ..system.notifier.clone() };
        tasks.spawn(run_on(NoticeWorker::new(notifier), store.nudge(), stop.clone()));
    }
    if matches!(role, ProcessRole::All | ProcessRole::Deliverer) {
        let deliverer = &system.deliverer;
        let mut spread = SpreadWorker::new(deliverer.clone());
        if sends {
            let dispatch = spawn_sender(system, role, stop, tasks);
            spread = spread.that_leases(dispatch);
        }
        tasks.spawn(run_on(spread, store.nudge(), stop.clone()));
        let ended = EndedLeaseWorker::new(deliverer.clone());
        tasks.spawn(run_on(ended, store.nudge(), stop.clone()));
        let purge = PurgeWorker::new(deliverer.clone());
        tasks.spawn(run_on(purge, store.nudge(), stop.clone()));
        let erase = EraseWorker::new(deliverer.clone(), system.fence.clone());
        tasks.spawn(run_on(erase, store.nudge(), stop.clone()));
        let closed_firms = ClosedFirmWorker::new(deliverer.clone());
        tasks.spawn(run_on(closed_firms, store.nudge(), stop.clone()));
        let cancel = CancelWorker::new(deliverer.clone());
        tasks.spawn(run_on(cancel, store.nudge(), stop.clone()));
    }
}

/// Starts the workers of the projector.
fn spawn_projector(system: &System, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
    let store = &system.deliverer.store;
    let pool = store.pool();
    let follower = Follower::new(store.clone(), system.fence.clone(), DeliveryProjection)
        .holding_unfinished(system.service.clock.clone());
    tasks.spawn(run_on(follower, store.nudge(), stop.clone()));
    let follower = Follower::new(store.clone(), system.fence.clone(), AuditLog);
    tasks.spawn(run_on(follower, store.nudge(), stop.clone()));
    let seals = SealWorker::new(store.clone(), system.fence.clone());
    tasks.spawn(run_on(seals, store.nudge(), stop.clone()));
    if let Some(notary) = &system.notary {
        let clock = system.service.clock.clone();
        let entropy = system.service.entropy.clone();
        let hourly = Checkpointer::new(notary.clone(), pool.clone(), clock, entropy);
        tasks.spawn(run_on(hourly, store.nudge(), stop.clone()));
    }
    if let (Some(notary), Some(interval)) = (&system.notary, system.verification_interval) {
        let clock = system.service.clock.clone();
        let daily = AuditVerifier::new(notary.clone(), pool.clone(), clock, interval);
        tasks.spawn(run_on(daily, store.nudge(), stop.clone()));
    }
    let partials = PartialTimer::new(store.clone(), system.service.clock.clone());
    tasks.spawn(run_on(partials, store.nudge(), stop.clone()));
    let episodes = EpisodeTimer::new(store.clone(), system.service.clock.clone());
    tasks.spawn(run_on(episodes, store.nudge(), stop.clone()));
    let housekeeping = HousekeepingWorker::new(pool.clone(), system.service.clock.clone());
    tasks.spawn(run_on(housekeeping, store.nudge(), stop.clone()));
}

/// Starts the sender. In a process that also has doors, appends claim for it.
fn spawn_sender(
    system: &System,
    role: ProcessRole,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> Arc<Dispatcher> {
    let deliverer = &system.deliverer;
    let store = &deliverer.store;
    let replay = ReplayWorker::new(deliverer.clone());
    tasks.spawn(run_on(replay, store.nudge(), stop.clone()));
    let settings = deliverer.settings;
    let wait = settings.scale.wait(settings.join_wait);
    let membership = SenderMembership::new(store.pool().clone(), wait);
    let (dispatch, answers) =
        Dispatcher::new(deliverer.clone(), membership.senders(), stop.clone());
    if role == ProcessRole::All {
        claim_in_appends(&system.service, &dispatch);
    }
    let nudge = store.nudge().clone();
    let sending = Arc::clone(&dispatch);
    tasks.spawn(async move {
        // The process stays a sender until its claimed attempts are recorded.
        tokio::select! {
            () = membership.keep(|| nudge.wake_for_deliveries()) => {}
            () = deliver(sending, answers, &nudge) => {}
        }
    });
    dispatch
}

/// Reads the description of the provider, so that an operator learns of a fault before a user does.
fn look_at_provider(system: &System, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
    let Some(provider) = system.service.provider.clone() else { return };
    let ended = stop.clone();
    tasks.spawn(async move {
        match ended.run_until_cancelled(provider.look()).await {
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
async fn wait(
    signal: impl Future<Output = &'static str>,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
    inviter: &Inviter,
) -> (bool, anyhow::Result<()>) {
    let (why, ended) = tokio::select! {
        signal = signal => (signal, Ok(())),
        _ = tasks.join_next() => ("a worker ended", Err(anyhow!("a worker ended before the signal"))),
    };
    (drain(why, tasks, stop, inviter.drain()).await, ended)
}

/// Stops every task, and waits for it and then for the work that the tasks left behind. Returns
/// whether all ended in time.
async fn drain(
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
fn signalled() -> anyhow::Result<impl Future<Output = &'static str>> {
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
    if system.service.sending == SendingMode::Held {
        tracing::warn!(
            "PAUSED: this process claims and sends nothing until it is started without --paused"
        );
    }
    // A pause's scope and reason may contain names, so the log has only ids. `deliveries paused`
    // shows the rest.
    let pauses = pauses::list(system.pool()).await?;
    if !pauses.is_empty() {
        let ids: Vec<_> = pauses.iter().map(|pause| pause.pause_id.to_string()).collect();
        tracing::warn!(count = ids.len(), ids = ids.join(" "), "deliveries are paused");
    }
    Ok(())
}

fn warn_of_development(serve: &ServeArgs) {
    if crash::COMPILED_IN {
        tracing::warn!("CRASH POINTS ARE COMPILED IN: this build is for tests only");
    }
    if !serve.targets.allow_targets.is_empty() || serve.targets.allow_http_targets {
        tracing::warn!(
            networks = ?serve.targets.allow_targets,
            http = serve.targets.allow_http_targets,
            "PRIVATE TARGETS ARE OPEN: for development and tests only"
        );
    }
    if serve.time_scale > 1.0 {
        tracing::warn!(scale = serve.time_scale, "WAITS ARE SHORTENED: for tests and drills only");
    }
}

#[cfg(test)]
mod tests {
    use eventstore::worker::{WakeOn, Worker};

    use super::*;

    const fn declared<W: Worker>() -> (&'static str, WakeOn) {
        (W::NAME, W::WAKES)
    }

    #[test]
    fn each_worker_declares_the_news_that_wakes_it() {
        let workers = [
            declared::<Follower<DeliveryProjection>>(),
            declared::<Follower<AuditLog>>(),
            declared::<SealWorker>(),
            declared::<Checkpointer>(),
            declared::<AuditVerifier>(),
            declared::<PartialTimer>(),
            declared::<HousekeepingWorker>(),
            declared::<TakeOver>(),
            declared::<SpreadWorker>(),
            declared::<ReplayWorker>(),
            declared::<EraseWorker>(),
            declared::<CancelWorker>(),
            declared::<ClosedFirmWorker>(),
            declared::<EndedLeaseWorker>(),
            declared::<PurgeWorker>(),
        ];
        let expected = [
            ("deliveries", WakeOn::AnyEvent),
            ("audit_log", WakeOn::OtherEvents),
            ("seals", WakeOn::Timer),
            ("checkpoints", WakeOn::Timer),
            ("verification", WakeOn::Timer),
            ("partials", WakeOn::Timer),
            ("housekeeping", WakeOn::Timer),
            ("invites", WakeOn::Timer),
            ("spread", WakeOn::Deliveries),
            ("replay", WakeOn::OtherEvents),
            ("erase", WakeOn::OtherEvents),
            ("cancel", WakeOn::OtherEvents),
            ("closed_firms", WakeOn::Timer),
            ("ended_leases", WakeOn::Timer),
            ("purge", WakeOn::Timer),
        ];
        assert_eq!(workers, expected);
    }
}
