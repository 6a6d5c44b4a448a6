//! `serve`: the doors and the workers, until a signal.

use std::time::Duration;

use anyhow::{Context, bail};
use deliverer::cancel::Cancel;
use deliverer::engine::deliver;
use deliverer::erase::{self, Erase};
use deliverer::fan_out::FanOut;
use deliverer::purge::Purge;
use door::Tls;
use eventstore::worker::run as run_worker;
use eventstore::{Nudge, relay};
use inviter::{Inviter, TakeOver};
use projector::deliveries::Deliveries;
use projector::follow::Follower;
use projector::housekeeping::Housekeeping;
use projector::partials::Partials;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::doors;
use crate::setup::{setup, tls};
use crate::wiring::{Databases, Place, Role, SERVICE, Serve, System};

/// How long what is under way may take after a signal.
const DRAIN: Duration = Duration::from_secs(25);

pub(crate) async fn run(place: &Place, serve: &Serve) -> anyhow::Result<()> {
    let setup = setup(place, serve)?;
    let tls = tls(serve)?;
    warn_of_development(serve);
    let doors = match serve.role {
        Role::All | Role::Api => Some(doors::open(serve.addr, serve.internal_addr).await?),
        Role::Projector | Role::Deliverer => None,
    };
    let databases = Databases::open(place, SERVICE).await?;
    let system = System::start(databases, place.wrapping_key()?, setup).await?;
    if matches!(serve.role, Role::All | Role::Deliverer) {
        erase::again(&system.courier).await.context("what was erased")?;
    }
    let stop = CancellationToken::new();
    let mut tasks = start_workers(&system, serve.role, &stop);
    if let Some(doors) = doors {
        tracing::info!(public = %doors.public_addr, internal = %doors.internal_addr, "listening");
        if let Some(tls) = tls.clone() {
            tasks.spawn(reload(tls, stop.clone()));
        }
        doors.serve(&system.service, tls, (&stop, &mut tasks));
    }
    tracing::info!("ready");
    let ended = wait(&mut tasks, &stop).await;
    system.stop().await?;
    ended
}

/// Starts the workers of a role.
#[must_use]
pub fn start_workers(system: &System, role: Role, stop: &CancellationToken) -> JoinSet<()> {
    let (store, pool) = (&system.courier.store, system.courier.store.pool());
    let mut tasks = JoinSet::new();
    let background = {
        let (clock, pool) = (system.service.clock.clone(), pool.clone());
        let nudge = store.nudge().clone();
        async move { tokio::join!(clock.keep_measured(pool.clone()), relay(pool, nudge)) }
    };
    let ended = stop.clone();
    tasks.spawn(async move {
        tokio::select! { () = ended.cancelled() => {}, _ = background => {} }
    });
    if matches!(role, Role::All | Role::Projector) {
        let follower = Follower::new(store.clone(), system.fence.clone(), Deliveries);
        tasks.spawn(run_worker(follower, store.nudge().subscribe(), stop.clone()));
        let partials = Partials::new(store.clone(), system.service.clock.clone());
        tasks.spawn(run_worker(partials, Nudge::default().subscribe(), stop.clone()));
        let housekeeping = Housekeeping::new(pool.clone(), system.service.clock.clone());
        tasks.spawn(run_worker(housekeeping, store.nudge().subscribe(), stop.clone()));
    }
    // Where invites are reserved: a process without doors is told of no mail server.
    if matches!(role, Role::All | Role::Api) {
        let inviter = Inviter { store: store.clone(), ..system.service.inviter.clone() };
        let by_time_alone = Nudge::default().subscribe();
        tasks.spawn(run_worker(TakeOver::new(inviter), by_time_alone, stop.clone()));
    }
    if matches!(role, Role::All | Role::Deliverer) {
        let courier = &system.courier;
        let fan_out = FanOut::new(courier.clone(), system.fence.clone());
        tasks.spawn(run_worker(fan_out, store.nudge().subscribe(), stop.clone()));
        let purge = Purge::new(courier.clone());
        tasks.spawn(run_worker(purge, Nudge::default().subscribe(), stop.clone()));
        let erase = Erase::new(courier.clone(), system.fence.clone());
        tasks.spawn(run_worker(erase, store.nudge().subscribe(), stop.clone()));
        let cancel = Cancel::new(courier.clone());
        tasks.spawn(run_worker(cancel, store.nudge().subscribe(), stop.clone()));
        let (courier, nudge, stop) = (courier.clone(), store.nudge().clone(), stop.clone());
        tasks.spawn(async move { deliver(courier, &nudge, stop).await });
    }
    tasks
}

/// Waits for a signal, then for what is under way. A task that ends before is a defect: all end.
async fn wait(tasks: &mut JoinSet<()>, stop: &CancellationToken) -> anyhow::Result<()> {
    let early = tokio::select! {
        signal = signalled() => { tracing::info!("{}: finishing what is under way", signal?); None }
        ended = tasks.join_next() => Some(ended),
    };
    stop.cancel();
    let drained = tokio::time::timeout(DRAIN, async { while tasks.join_next().await.is_some() {} });
    if drained.await.is_err() {
        tracing::warn!("gave up waiting; leases will end by themselves");
    }
    match early {
        None => Ok(()),
        Some(_) => bail!("a worker ended before the signal"),
    }
}

async fn signalled() -> anyhow::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.context("SIGINT").map(|()| "SIGINT"),
        _ = terminate.recv() => Ok("SIGTERM"),
    }
}

/// Reads the certificate again at each SIGHUP; one that cannot be read leaves the old one.
async fn reload(tls: Tls, stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut hangup) = signal(SignalKind::hangup()) else {
        tracing::error!("SIGHUP cannot be heard: a new certificate needs a restart");
        return stop.cancelled().await;
    };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = hangup.recv() => match tls.reload() {
                Ok(()) => tracing::info!("a new certificate"),
                Err(error) => tracing::error!(%error, "the old certificate stays"),
            },
        }
    }
}

fn warn_of_development(serve: &Serve) {
    if !serve.allow_targets.is_empty() || serve.allow_http_targets {
        tracing::warn!(
            networks = ?serve.allow_targets,
            http = serve.allow_http_targets,
            "PRIVATE TARGETS ARE OPEN: for development and tests only"
        );
    }
    if serve.time_scale > 1.0 {
        tracing::warn!(scale = serve.time_scale, "WAITS ARE SHORTENED: for tests and drills only");
    }
}
