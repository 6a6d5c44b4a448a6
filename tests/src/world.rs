//! A world: the service on databases of its own, with a clock the test moves and workers it steps.

use std::time::Duration;

use api::Service;
use api::commands::keys;
use api::commands::tokens::{HolderRole, TOKEN_PREFIX};
use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deliverer::DelivererContext;
use deliverer::send::SpreadWorker;
use deliverer::send::deliver_once;
use deliverer::upkeep::CancelWorker;
use deliverer::upkeep::ClosedFirmWorker;
use deliverer::upkeep::EndedLeaseWorker;
use deliverer::upkeep::EraseWorker;
use deliverer::upkeep::PurgeWorker;
use deliverer::upkeep::ReplayWorker;
use deliverer::{DelivererSettings, SendLimits};
use domain::delivery::Attempt;
use domain::subscription::AllowedTargets;
use domain::values::AsOf;
use eventstore::worker::{NextStep, Worker};
use eventstore::{Clock, Store, connect};
use inviter::TakeOver;
use mailer::Mailer;
use notifier::{NoticeWorker, Notifier};
use projector::as_of::{had_happened, stream_attempts};
use projector::audit::AuditLog;
use projector::deliveries::DeliveryProjection;
use projector::episodes::EpisodeTimer;
use projector::follow::Follower;
use projector::partials::PartialTimer;
use projector::seals::SealWorker;
use projector::tokens::NewToken;
use serde_json::{Value, json};
use service::{System, SystemSetup};
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use tempfile::TempDir;
use tokio::sync::{Mutex, OnceCell};
use tower::ServiceExt;
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

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

/// A firm with an owner, a published form and a key.
#[derive(Debug, Clone)]
pub struct Firm {
    /// The firm.
    pub id: Uuid,
    /// Its owner.
    pub owner: Uuid,
    /// Its form.
    pub form: Uuid,
    /// The id of its key.
    pub key_id: Uuid,
    /// The key.
    pub key: String,
}

/// The answer of a door.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it was sent.
    pub bytes: Bytes,
    /// The body as JSON; null when there is none.
    pub body: Value,
}

impl Answer {
    fn new(status: StatusCode, headers: HeaderMap, bytes: Bytes) -> Self {
        // Null too for a page.
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Self { status, headers, bytes, body }
    }

    /// The status and the error's code; an empty one when there is none.
    #[must_use]
    pub fn code(&self) -> (u16, &str) {
        let code = self.body["code"].as_str().unwrap_or_default();
        (self.status.as_u16(), code)
    }

    /// The headers, without those that differ from call to call.
    #[must_use]
    pub fn lasting_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        for name in ["x-request-id", "ratelimit"] {
            assert!(headers.remove(name).is_some(), "{name}");
        }
        headers
    }

    /// The body's text.
    #[must_use]
    pub fn text(&self) -> &str {
        str::from_utf8(&self.bytes).unwrap()
    }
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

    /// A firm with an owner, a published form and a key.
    pub async fn firm(&self) -> Firm {
        let (id, owner, form) = (self.id(), self.id(), self.id());
        let answer = self
            .report(&[
                activity(
                    id,
                    "firm.opened",
                    json!({"name": "Harrow Lane", "plan": {"leads_in_full": true}}),
                ),
                activity(id, "member.joined", json!({"member_id": owner, "role": "owner"})),
                activity(id, "form.created", form_data(form)),
            ])
            .await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        let key = keys::create(self.service(), id, owner, "Zapier").await.unwrap();
        Firm { id, owner, form, key_id: key.id, key: key.key.as_str().to_owned() }
    }

    /// Its token for the internal door.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Reports activity by the internal door.
    pub async fn report(&self, events: &[Value]) -> Answer {
        self.report_by(&self.token, events).await
    }

    /// Reports activity by the internal door, as the holder of this token.
    pub async fn report_by(&self, token: &str, events: &[Value]) -> Answer {
        let request = Request::post("/internal/v1/activity")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/cloudevents-batch+json")
            .body(Body::from(serde_json::to_vec(events).unwrap()))
            .unwrap();
        answer(&self.internal, request).await
    }

    /// Reports a submitted response; returns its id.
    pub async fn submit(&self, firm: &Firm) -> Uuid {
        let response_id = self.id();
        let answer = self.report(&[submitted(firm, response_id)]).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        response_id
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

    /// Reads from the public door with the firm's key.
    pub async fn get(&self, firm: &Firm, path: &str) -> Answer {
        self.call(&firm.key, "GET", path, Value::Null).await
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

    /// Subscribes a target to `form_submitted`; returns the subscription's id.
    pub async fn subscribe(&self, firm: &Firm, target_url: &str) -> Uuid {
        let body = json!({"target_url": target_url, "trigger": "form_submitted"});
        let answer = self.call(&firm.key, "POST", "/hooks", body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body["id"].as_str().unwrap().parse().unwrap()
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

    /// Deletes the leased rows of the outbox.
    pub async fn drop_in_flight(&self) {
        let statement = "delete from outbox where leased_at is not null";
        sqlx::query(statement).execute(self.pool()).await.unwrap();
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

    /// The state of a delivery, and the outcomes of its tries.
    pub async fn history(&self, delivery_id: Uuid) -> (String, Vec<String>) {
        let state: String =
            sqlx::query_scalar("select state from deliveries where delivery_id = $1")
                .bind(delivery_id)
                .fetch_one(self.pool())
                .await
                .unwrap();
        let tries = self.attempts(delivery_id).await.into_iter();
        (state, tries.map(|attempt| attempt.outcome.name().to_owned()).collect())
    }

    /// The tries of a delivery, as they are shown.
    pub async fn attempts(&self, delivery_id: Uuid) -> Vec<Attempt> {
        let mut connection = self.pool().acquire().await.unwrap();
        let stream = had_happened(&mut connection, "Delivery", &[delivery_id], AsOf::NOW).await;
        stream.unwrap().first().map(|stream| stream_attempts(stream)).unwrap_or_default()
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

/// A CloudEvent at noon, with an id of its own.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "called with json!")]
pub fn activity(firm_id: Uuid, kind: &str, data: Value) -> Value {
    json!({
        "specversion": "1.0", "id": SystemEntropy.new_id(), "source": "urn:tests", "type": kind,
        "time": "2026-11-01T12:00:00.000Z", "firmid": firm_id, "data": data,
    })
}

/// A response submitted to the firm's form.
#[must_use]
pub fn submitted(firm: &Firm, response_id: Uuid) -> Value {
    activity(firm.id, "response.submitted", response_data(response_id, firm.form))
}

/// This event, so many seconds later.
#[must_use]
pub fn later(mut event: Value, seconds: u32) -> Value {
    event["time"] = json!(format!("2026-11-01T12:00:{seconds:02}.000Z"));
    event
}

fn form_data(form_id: Uuid) -> Value {
    json!({
        "form_id": form_id, "title": "New client enquiry", "slug": "enquiry",
        "url": "https://forms.test/f/enquiry", "status": "published",
        "hidden_fields": [{"key": "partner", "label": "Partner"}],
        "created_at": "2026-10-01T09:30:00.000Z",
    })
}

fn response_data(response_id: Uuid, form_id: Uuid) -> Value {
    json!({
        "response_id": response_id, "form_id": form_id,
        "submitted_at": "2026-11-01T11:59:58.250Z",
        "device": "mobile", "lang": "fr", "ending": "default",
        "respondent": {"name": "Zoé Lefèvre", "first_name": "Zoé", "last_name": "Lefèvre",
                       "email": "zoe@example.com", "phone": "", "company": ""},
        "answers": [{"id": "q1", "question": "Pourquoi ?", "type": "long_text",
                     "answer": "Parce que… 🎉 \"oui\""}],
        "variables": {"score": 7}, "hidden": {"utm_source": "news"},
    })
}

/// The TLS provider of the process; the first test installs it.
fn rustls_once() -> bool {
    service::install_tls().is_ok()
}
