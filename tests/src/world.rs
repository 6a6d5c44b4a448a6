//! A world: the service on databases of its own, with a clock the test moves and workers it steps.

use std::time::Duration;

use api::Service;
use api::commands::tokens::{HolderRole, TOKEN_PREFIX};
use axum::Router;
use axum::body::{Body, HttpBody as _, to_bytes};
use axum::http::Request;
use axum::http::header::CONTENT_LENGTH;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deliverer::DelivererContext;
use deliverer::send::SpreadWorker;
use deliverer::send::deliver_once;
use deliverer::upkeep::CancelWorker;
use deliverer::upkeep::ClosedFirmWorker;
use deliverer::upkeep::EndedLeaseWorker;
use deliverer::upkeep::EraseWorker;
use deliverer::upkeep::ExpireWorker;
use deliverer::upkeep::PurgeWorker;
use deliverer::upkeep::ReplayWorker;
use deliverer::{DelivererSettings, SendLimits};
use domain::subscription::AllowedTargets;
use eventstore::worker::{NextStep, Worker};
use eventstore::{Clock, Store, connect};
use inviter::TakeOver;
use mailer::Mailer;
use notifier::{NoticeWorker, Notifier};
use projector::audit::AuditLog;
use projector::deliveries::DeliveryProjection;
use projector::episodes::EpisodeTimer;
use projector::follow::Follower;
use projector::partials::PartialTimer;
use projector::seals::SealWorker;
use projector::tokens::NewToken;
use serde_json::Value;
use service::history_drops::HistoryDropWorker;
use service::{System, SystemSetup};
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use tempfile::TempDir;
use tokio::sync::{Mutex, OnceCell};
use tower::ServiceExt;
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

use crate::answer::Answer;
use crate::database::{Connections, TestDatabase};
use crate::pools::WorldPools;
use crate::routed::{RoutedDoor, proxy_network, routed_cell};
use crate::sending::Sending;

/// When worlds begin.
const NOON: &str = "2026-11-01T12:00:00.000Z";

/// Where its public door would be.
pub const BASE_URL: &str = "https://forms.test/api/v1";

/// The service, stepped by hand.
pub struct World {
    /// The databases it runs on.
    pub database: TestDatabase,
    /// Its parts.
    pub system: System,
    /// Its clock: stands until moved.
    pub clock: Clock,
    /// Where its mails go while no server takes them.
    pub mails: TempDir,
    public: Router,
    internal: Router,
    token: String,
    projector: Store,
    pool: PgPool,
    keys: PgPool,
    /// The process that claims in appends, if one does.
    sending: Option<Mutex<Sending>>,
    /// The public door behind HAProxy, if this run puts it there; begun by the first call.
    routed: Option<OnceCell<RoutedDoor>>,
}

/// Which transaction claims the first attempt of a delivery. A story ends alike either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstClaim {
    /// The transaction that records the occurrence, where it can.
    InAppend,
    /// A claim of its own.
    FromOutbox,
}

impl World {
    /// A new, empty world at noon of 2026-11-01, where loopback targets are open.
    pub async fn new() -> Self {
        Self::on(TestDatabase::new().await).await
    }

    /// A new world whose deliveries are claimed like this.
    pub async fn claiming(first: FirstClaim) -> Self {
        let mut world = Self::new().await;
        if first == FirstClaim::InAppend {
            let sending = Sending::with(world.deliverer().clone());
            sending.claims_in_appends(&world);
            world.sending = Some(Mutex::new(sending));
        }
        world
    }

    /// A world on these databases.
    pub async fn on(database: TestDatabase) -> Self {
        let clock = Clock::standing_at(NOON.parse().unwrap());
        Self::at(database, clock).await
    }

    /// A world on these databases in the present, beside services that run.
    pub async fn real_time(database: TestDatabase) -> Self {
        let clock = Clock::of_database(&connect(database.main.clone(), 1)).await.unwrap();
        Self::at(database, clock).await
    }

    /// A world on these databases with this clock.
    pub async fn at(database: TestDatabase, clock: Clock) -> Self {
        Self::with(database, clock, |setup| setup).await
    }

    /// A world on these databases with this clock, set up otherwise.
    pub async fn with(
        database: TestDatabase,
        clock: Clock,
        change: impl FnOnce(SystemSetup) -> SystemSetup,
    ) -> Self {
        let mails = tempfile::tempdir().unwrap();
        let setup = change(usual(&mails));
        Self::put_together((database, Connections::usual()), clock, (setup, mails)).await
    }

    /// A world on these databases whose parts work on these connections.
    pub async fn connected(database: TestDatabase, connections: Connections) -> Self {
        let clock = Clock::standing_at(NOON.parse().unwrap());
        let mails = tempfile::tempdir().unwrap();
        let setup = usual(&mails);
        Self::put_together((database, connections), clock, (setup, mails)).await
    }

    async fn put_together(
        (database, connections): (TestDatabase, Connections),
        clock: Clock,
        (setup, mails): (SystemSetup, TempDir),
    ) -> Self {
        let _ = rustls_once();
        let WorldPools { parts, projector, superuser: pool } =
            WorldPools::new(&database, connections);
        let system = System::assemble(parts, clock.clone(), setup).await.unwrap();
        let service = &system.service;
        let token = unrecorded_token(service, &pool).await;
        let public = api::public::router(service.clone()).merge(console::portal(service.clone()));
        let internal = api::internal::router(service.clone());
        let internal = internal.merge(console::router(service.clone()));
        let keys = connect(database.keyring.clone(), 1);
        Self {
            database,
            clock,
            public,
            internal,
            token,
            system,
            mails,
            projector,
            pool,
            keys,
            sending: None,
            routed: routed_cell().map(|_| OnceCell::new()),
        }
    }

    /// The service of the doors.
    #[must_use]
    pub const fn service(&self) -> &Service {
        &self.system.service
    }

    /// The context of the deliverer.
    #[must_use]
    pub const fn deliverer(&self) -> &DelivererContext {
        &self.system.deliverer
    }

    /// The main database, as a superuser meets it.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// The keyring's database, as a superuser meets it. Kept open: on a busy machine a new
    /// connection for each look now and then takes longer than a connection is waited for.
    #[must_use]
    pub const fn keys(&self) -> &PgPool {
        &self.keys
    }

    /// The log, as projectors meet it.
    #[must_use]
    pub const fn projector(&self) -> &Store {
        &self.projector
    }

    /// A new id.
    #[must_use]
    pub fn id(&self) -> Uuid {
        SystemEntropy.new_id()
    }

    /// Its token for the internal door.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Calls the public door with a key; `null` sends no body.
    pub async fn call(&self, key: &str, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header("x-api-key", key)
            .body(body)
            .unwrap();
        self.public(request).await
    }

    /// Sends any request to the public door.
    pub async fn public(&self, request: Request<Body>) -> Answer {
        let Some(routed) = &self.routed else { return answer(&self.public, request).await };
        let start = || RoutedDoor::new(self.service(), self.public.clone(), self.internal.clone());
        let (status, headers, bytes) = routed.get_or_init(start).await.answer(request).await;
        Answer::new(status, headers, bytes)
    }

    /// Sends any request to the internal door, with the world's token unless it has its own.
    pub async fn internal(&self, mut request: Request<Body>) -> Answer {
        let token = format!("Bearer {}", self.token).parse().unwrap();
        request.headers_mut().entry("authorization").or_insert(token);
        answer(&self.internal, request).await
    }

    /// Its public door, for a socket.
    pub fn public_door(&self) -> Router {
        self.public.clone()
    }

    /// Its internal door, for a socket.
    pub fn internal_door(&self) -> Router {
        self.internal.clone()
    }

    /// Spreads the occurrences that had too many deliveries for their transactions.
    pub async fn spread(&self) {
        drain(SpreadWorker::new(self.deliverer().clone())).await;
    }

    /// Limits with so many permits, all of them free.
    #[must_use]
    pub fn limits(&self, permits: usize) -> SendLimits {
        SendLimits::alone(DelivererSettings { permits, ..self.deliverer().settings })
    }

    /// Takes back claims that were not recorded in time.
    pub async fn end_leases(&self) {
        drain(EndedLeaseWorker::new(self.deliverer().clone())).await;
    }

    /// Records the partial submissions that are due.
    pub async fn time_out(&self) {
        let store = self.projector.clone();
        drain(PartialTimer::new(store, self.clock.clone())).await;
    }

    /// Drops bodies and answers that were kept long enough.
    pub async fn purge(&self) {
        drain(PurgeWorker::new(self.deliverer().clone())).await;
    }

    /// Drops the rows of closed firms, once their grace time is over.
    pub async fn drop_closed_firms(&self) {
        drain(ClosedFirmWorker::new(self.deliverer().clone())).await;
    }

    /// Carries out the ordered erasures.
    pub async fn erase(&self) {
        drain(EraseWorker::new(self.deliverer().clone(), self.system.fence.clone())).await;
    }

    /// Records which responses expire that were last reported so many days ago.
    pub async fn expire_after(&self, days: u32) {
        let mut deliverer = self.deliverer().clone();
        deliverer.settings.retention.responses_days = Some(days);
        drain(ExpireWorker::new(deliverer)).await;
    }

    /// Steps the erase worker until it waits, for news or for older transactions.
    pub async fn begin_to_erase(&self) {
        let mut worker = EraseWorker::new(self.deliverer().clone(), self.system.fence.clone());
        while worker.step().await.map_err(|error| error.to_string()).unwrap() == NextStep::Busy {}
    }

    /// Cancels the remaining deliveries of removed subscriptions.
    pub async fn cancel(&self) {
        drain(CancelWorker::new(self.deliverer().clone())).await;
    }

    /// Queues the deliveries that replays may queue now.
    pub async fn replay(&self) {
        let mut worker = ReplayWorker::new(self.deliverer().clone());
        while worker.step().await.map_err(|error| error.to_string()).unwrap() == NextStep::Busy {}
    }

    /// Finishes invites that nobody finished in time.
    pub async fn take_over(&self) {
        let mut worker = TakeOver::new(self.service().inviter.clone());
        while worker.step().await.map_err(|error| error.to_string()).unwrap() == NextStep::Busy {}
    }

    /// Raises notices by the clock, queues them for the operator and mails them.
    pub async fn notify(&self) {
        drain(EpisodeTimer::new(self.projector.clone(), self.clock.clone())).await;
        // Notices are mailed by a process with doors, whose login is another than the deliverer's.
        let store = self.service().store.clone();
        let notifier = Notifier { store, ..self.system.notifier.clone() };
        drain(NoticeWorker::new(notifier)).await;
    }

    /// Brings the read models up to date.
    pub async fn project(&self) {
        let store = self.projector.clone();
        drain(Follower::new(store.clone(), self.system.fence.clone(), DeliveryProjection)).await;
        drain(Follower::new(store, self.system.fence.clone(), AuditLog)).await;
    }

    /// Drops the months of history whose end is as old as this.
    pub async fn drop_old_history(&self, keep_for: Duration) {
        let pool = self.projector.pool().clone();
        let clock = self.clock.clone();
        drain(HistoryDropWorker::new(pool, clock, keep_for)).await;
    }

    /// Seals the blocks of the log that are whole.
    pub async fn seal(&self) {
        let store = self.projector.clone();
        drain(SealWorker::new(store, self.system.fence.clone())).await;
    }

    /// Spreads, takes back claims that were cut off, sends all due deliveries, cancels, and brings
    /// the read models up to date.
    pub async fn deliver(&self) -> usize {
        let mut sent = self.settle().await;
        self.spread().await;
        self.end_leases().await;
        loop {
            let now = deliver_once(self.deliverer()).await.unwrap();
            sent += now;
            if now == 0 {
                break;
            }
        }
        self.cancel().await;
        self.project().await;
        sent
    }

    /// Waits for the attempts that appends have claimed, and records them; returns their number.
    pub async fn settle(&self) -> usize {
        match &self.sending {
            Some(sending) => sending.lock().await.settle().await,
            None => 0,
        }
    }

    /// Moves the clock.
    pub fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

/// A token of the product without an event, so that a story begins with an empty log.
async fn unrecorded_token(service: &Service, pool: &PgPool) -> String {
    let token = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(SystemEntropy.new_secret()));
    let new = NewToken {
        token_id: SystemEntropy.new_id(),
        name: "tests",
        role: HolderRole::Product.name(),
        sha256: Sha256::digest(token.as_bytes()).into(),
        created_at: service.clock.now().get(),
        expires_at: None,
        firm_ids: None,
    };
    projector::tokens::insert(&mut pool.acquire().await.unwrap(), &new).await.unwrap();
    token
}

/// The setup of a world whose mails go there.
fn usual(mails: &TempDir) -> SystemSetup {
    let allowed = AllowedTargets::new(vec!["127.0.0.0/8".parse().unwrap()]).with_http();
    let mailer = Mailer::into_folder(mails.path());
    let quiet = SystemSetup::for_commands(BASE_URL).unwrap();
    let Some(cell) = routed_cell() else { return SystemSetup { allowed, mailer, ..quiet } };
    let trusted_proxies = vec![proxy_network().parse().unwrap()];
    SystemSetup { allowed, mailer, trusted_proxies, cell: Some(cell), ..quiet }
}

/// Steps a worker until it has nothing more to do. Appends that are not settled yet (other tests
/// write to the same cluster) are waited for.
pub(crate) async fn drain<W: Worker>(mut worker: W) {
    let rests = [NextStep::IDLE, NextStep::HELD_UP];
    while !rests.contains(&worker.step().await.map_err(|error| error.to_string()).unwrap()) {}
}

async fn answer(router: &Router, mut request: Request<Body>) -> Answer {
    // As every client says it.
    if let Some(bytes) = request.body().size_hint().exact().filter(|bytes| *bytes > 0) {
        request.headers_mut().entry(CONTENT_LENGTH).or_insert(bytes.into());
    }
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    Answer::new(parts.status, parts.headers, bytes)
}

/// The TLS provider of the process; the first test installs it.
fn rustls_once() -> bool {
    service::install_tls().is_ok()
}
