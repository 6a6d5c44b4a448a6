//! `serve`: the doors and the workers, until a signal.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use deliverer::cancel::Cancel;
use deliverer::engine::deliver;
use deliverer::fan_out::FanOut;
use deliverer::{Settings, TimeScale};
use domain::address::AllowedTargets;
use eventstore::relay;
use eventstore::worker::run as run_worker;
use inviter::TakeOver;
use mailer::{Mailer, Sender, SmtpSettings};
use projector::deliveries::Deliveries;
use projector::follow::Follower;
use projector::housekeeping::Housekeeping;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::SENDER;
use crate::doors;
use crate::wiring::{Databases, Place, Role, SERVICE, Serve, Setup, System};

/// How long what is under way may take after a signal.
const DRAIN: Duration = Duration::from_secs(25);

pub(crate) async fn run(place: &Place, serve: &Serve) -> anyhow::Result<()> {
    let setup = setup(place, serve)?;
    warn_of_development(serve);
    let doors = match serve.role {
        Role::All | Role::Api => Some(doors::open(serve.addr, serve.internal_addr).await?),
        Role::Projector | Role::Deliverer => None,
    };
    let databases = Databases::open(place, SERVICE).await?;
    let system = System::start(databases, place.wrapping_key()?, setup).await?;
    let stop = CancellationToken::new();
    let mut tasks = start_workers(&system, serve.role, &stop);
    if let Some(doors) = doors {
        tracing::info!(public = %doors.public_addr, internal = %doors.internal_addr, "listening");
        doors.serve(&system.service, &stop, &mut tasks);
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
        let housekeeping = Housekeeping::new(pool.clone(), system.service.clock.clone());
        tasks.spawn(run_worker(housekeeping, store.nudge().subscribe(), stop.clone()));
    }
    if matches!(role, Role::All | Role::Deliverer) {
        let courier = &system.courier;
        let fan_out = FanOut::new(courier.clone(), system.fence.clone());
        tasks.spawn(run_worker(fan_out, store.nudge().subscribe(), stop.clone()));
        let cancel = Cancel::new(courier.clone());
        tasks.spawn(run_worker(cancel, store.nudge().subscribe(), stop.clone()));
        let take_over = TakeOver::new(system.service.inviter.clone());
        tasks.spawn(run_worker(take_over, store.nudge().subscribe(), stop.clone()));
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

fn setup(place: &Place, serve: &Serve) -> anyhow::Result<Setup> {
    let scale = TimeScale::new(serve.time_scale).context("--time-scale: from 1 to 10000")?;
    let allowed = AllowedTargets::new(serve.allow_targets.clone(), serve.allow_http_targets);
    if !scale.is_real() && serve.allow_targets.is_empty() {
        bail!("--time-scale needs --allow-targets: it is for tests and drills only");
    }
    let scheme = if serve.tls_cert.is_some() { "https" } else { "http" };
    let base = serve.base_url.clone().unwrap_or_else(|| format!("{scheme}://{}", serve.addr));
    let roots = Roots::read(serve.extra_roots.as_deref())?;
    Ok(Setup {
        allowed,
        base_url: format!("{}/api/v1", base.trim_end_matches('/')),
        settings: Settings { permits: serve.permits.max(1), scale, ..Settings::default() },
        mailer: mailer(place, serve, &roots)?,
        sender: sender(serve)?,
        extra_roots: roots.certificates,
        trusted_proxies: serve.trusted_proxies.clone(),
    })
}

/// Roots to trust beside the platform's, as they were written and as they are read.
#[derive(Default)]
struct Roots {
    pem: Option<Vec<u8>>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Roots {
    fn read(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let named = || format!("--extra-roots {}", path.display());
        let pem = std::fs::read(path).with_context(named)?;
        let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.with_context(named)?;
        if certificates.is_empty() {
            bail!("{}: no certificates in PEM", named());
        }
        Ok(Self { pem: Some(pem), certificates })
    }
}

fn mailer(place: &Place, serve: &Serve, roots: &Roots) -> anyhow::Result<Mailer> {
    let Some(url) = &serve.smtp_url else {
        let folder = place.mails();
        tracing::warn!(folder = %folder.display(), "no mail server: mails are written as files");
        return Ok(Mailer::files(folder));
    };
    let settings = SmtpSettings { extra_roots: roots.pem.clone(), ..SmtpSettings::default() };
    Mailer::smtp(url, &settings).context("--smtp-url")
}

fn sender(serve: &Serve) -> anyhow::Result<Sender> {
    match &serve.mail_from {
        Some(sender) => Ok(sender.clone()),
        None => SENDER.parse().context("the sender of mails"),
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
