//! Wiring: assembles databases, log, doors and workers. The tests start here too.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use api::intake::RefusedReports;
use api::portal::PortalRates;
use api::public::KeyBatchers;
use api::sign_in::SignInRates;
use api::{
    AppendClaimer, AuditAccess, CallBatchers, ClaimedInAppend, HostBacklog, NewSubmission,
    QueueView, SampleAnswer, SampleSender, SendingMode, Service, SignedSample, TargetDns,
};
use auditor::Notary;
use chrono::TimeDelta;
use cluster::Cluster;
use deliverer::inspect::host_backlog;
use deliverer::outgoing::{OutgoingClient, OutgoingConfig};
use deliverer::send::{SampleExchange, SampleRequest, send_sample};
use deliverer::{
    DelivererContext, DelivererSettings, Dispatcher, LeasedInAppend, NoticeTarget, TimeScale,
};
use domain::access::Cell;
use domain::subscription::{AllowedTargets, Target};
use eventstore::checkup::{self, SchemaStanding};
use eventstore::{
    AppendError, Clock, Fence, PrimaryFollower, RecordedEvent, Store, announce, connect, migrate,
};
use futures::future::BoxFuture;
use inviter::{InviteWait, Inviter};
use ipnet::IpNet;
use mailer::{Mailer, SenderAddress};
use notifier::{NoticePlaces, Notifier};
use oidc::Provider;
use rustls::pki_types::CertificateDer;
use sqlx::PgConnection;
use sqlx::migrate::{MigrateError, Migrator};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;
use vault::{
    Entropy, IdentityKey, KEYRING_MIGRATIONS, Keyring, SystemEntropy, WrappingKey, cell,
    installation,
};

use crate::args::DEFAULT_MAIL_FROM;
pub use crate::args::{ProcessRole, ServeArgs, StorageArgs};
pub use crate::databases::Databases;
pub(crate) use crate::databases::{DatabaseNames, Installation, SERVICE_DATABASES};
use crate::databases::{KEYRING, MAIN};
use crate::operator;

/// Connections to the main database for callers.
const CALLER_CONNECTIONS: u32 = 10;

/// Connections to the main database for the product, which reports all day.
const INTAKE_CONNECTIONS: u32 = 6;

/// Connections to the main database that see one firm at a time, for callers with a key.
const READER_CONNECTIONS: u32 = 12;

/// Connections to the main database for workers. Callers never take them.
const WORKER_CONNECTIONS: u32 = 10;

/// Connections to the main database for health and the clock. Neither waits for other pools.
const HEALTH_CONNECTIONS: u32 = 2;

/// The age at which an unfinished response becomes a partial one (contract, section Triggers).
const PARTIAL_AFTER: Duration = Duration::from_secs(3_600);

/// The door's URL in a command without doors.
pub(crate) const UNUSED_BASE_URL: &str = "http://127.0.0.1:8080/api/v1";

/// Connections to the keyring.
const KEYRING_CONNECTIONS: u32 = 8;

/// All parts of a process.
pub struct System {
    /// The context of the doors.
    pub service: Service,
    /// The context of the deliverer.
    pub deliverer: DelivererContext,
    /// The context of notices.
    pub notifier: Notifier,
    /// The fence of the log.
    pub fence: Fence,
    /// The notary of checkpoints, in a process that makes them.
    pub notary: Option<Notary>,
    /// The time between two verifications of the log; `None` for none.
    pub verification_interval: Option<Duration>,
    /// The followers of the two databases' primaries, until `serve` runs them.
    pub(crate) primaries: Vec<PrimaryFollower>,
    /// The private cluster, if the databases are in one.
    pub(crate) cluster: Option<Arc<Mutex<Cluster>>>,
}

/// The settings of a system beside its databases.
pub struct SystemSetup {
    /// Private targets opened for development.
    pub allowed: AllowedTargets,
    /// Where integrators reach the public door, ending in `/api/v1`.
    pub base_url: String,
    /// The deliverer's settings.
    pub settings: DelivererSettings,
    /// Roots to trust beside the platform's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Proxies whose X-Forwarded-For is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The mailer of invites.
    pub mailer: Mailer,
    /// The sender's address of mail.
    pub sender: SenderAddress,
    /// The waits of a call that sends an invite.
    pub patience: InviteWait,
    /// The notary of checkpoints, in a process that makes them.
    pub notary: Option<Notary>,
    /// The time between two verifications of the log; `None` for none.
    pub verification_interval: Option<Duration>,
    /// Whether this process sends.
    pub sending: SendingMode,
    /// The batchers of concurrent calls.
    pub desks: CallBatchers,
    /// The operator's URL for notices.
    pub notices: Option<NoticeTarget>,
    /// The published addresses that deliveries leave from; any if there are none.
    pub egress: Vec<IpAddr>,
    /// Those that this process uses.
    pub egress_bind: Vec<IpAddr>,
    /// The integrations screen of the product.
    pub integrations_url: Option<String>,
    /// The cell that this installation is to be; the one that it is already, without one.
    pub cell: Option<Cell>,
    /// The provider by which users sign in at the console.
    pub provider: Option<Arc<Provider>>,
}

impl SystemSetup {
    /// The setup of a command without doors and without sending.
    ///
    /// # Errors
    ///
    /// None in practice: the built-in sender address is valid.
    pub fn quiet(base_url: &str) -> anyhow::Result<Self> {
        Ok(Self {
            allowed: AllowedTargets::default(),
            base_url: base_url.to_owned(),
            settings: DelivererSettings::default(),
            extra_roots: Vec::new(),
            trusted_proxies: Vec::new(),
            mailer: Mailer::off(),
            sender: DEFAULT_MAIL_FROM.parse().context("the sender of mails")?,
            patience: InviteWait::default(),
            notary: None,
            verification_interval: None,
            sending: SendingMode::On,
            desks: CallBatchers::default(),
            notices: None,
            egress: Vec::new(),
            egress_bind: Vec::new(),
            integrations_url: None,
            cell: None,
            provider: None,
        })
    }
}

/// Planner settings for statements of workers and of intake: planned once, row by row over an
/// index. A new plan each time took a ninth of PostgreSQL's time. A kept plan must not be one for
/// empty queues. Statistics of empty tables favour a full read, even of an index, so these settings
/// make full reads dearest. A table without an index is still read in full. No setting prevents a
/// join from doing so; a join with a list therefore repeats the list's ids for the index.
/// Compilation (JIT) never pays here.
pub const WORKER_PLAN_SETTINGS: [(&str, &str); 6] = [
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

/// Planner settings for callers' statements: plans are kept, so they are made as for full tables. A
/// row-by-row count over an index looks dear to the planner, and JIT would compile it for 50 ms.
pub const CALLER_PLAN_SETTINGS: [(&str, &str); 3] =
    [("jit", "off"), ("enable_seqscan", "off"), ("enable_bitmapscan", "off")];

impl System {
    /// Connects, brings the databases to this version's schema, and assembles the system.
    ///
    /// # Errors
    ///
    /// If a database does not answer or cannot be migrated.
    pub async fn start(
        databases: Databases,
        wrapping: WrappingKey,
        setup: SystemSetup,
    ) -> anyhow::Result<Self> {
        Self::start_on(databases, wrapping, setup, Installation::MayBegin).await
    }

    pub(crate) async fn start_on(
        databases: Databases,
        wrapping: WrappingKey,
        setup: SystemSetup,
        installation: Installation,
    ) -> anyhow::Result<Self> {
        let mut main = PrimaryFollower::of(databases.main, MAIN);
        let pool = main.pool(&CALLER_PLAN_SETTINGS, CALLER_CONNECTIONS);
        let readers = main.guarded_pool(&CALLER_PLAN_SETTINGS, READER_CONNECTIONS);
        let intake = main.pool(&WORKER_PLAN_SETTINGS, INTAKE_CONNECTIONS);
        let workers = main.pool(&WORKER_PLAN_SETTINGS, WORKER_CONNECTIONS);
        let health = main.pool(&[], HEALTH_CONNECTIONS);
        let life = main.life().clone();
        let mut keys = PrimaryFollower::of(databases.keyring, KEYRING);
        let keyring_pool = keys.pool(&WORKER_PLAN_SETTINGS, KEYRING_CONNECTIONS);
        let keyring_health = keys.pool(&[], 1);
        let keyring = Keyring::new(keyring_pool.clone(), wrapping).watched_by(keys.life().clone());
        if installation == Installation::MustExist {
            require_schema(&pool, &keyring_pool).await?;
        }
        bring_up(&pool, &keyring_pool).await?;
        keyring.check_wrapping_key(&SystemEntropy).await?;
        let keyring = keyring.beside(life.clone());
        let clock = Clock::of_database(&health).await.context("the main database")?;
        let mut system =
            Self::assemble(store(pool).watched_by(life), keyring, clock, setup).await?;
        system.service.intake = system.service.store.with_pool(intake);
        system.service.readers = readers;
        system.service.health = health;
        system.service.keyring_health = keyring_health;
        system.deliverer.store = system.service.store.with_pool(workers);
        system.fence = Fence::of(&system.deliverer.store);
        let cluster = databases.cluster.map(|cluster| Arc::new(Mutex::new(cluster)));
        Ok(Self { cluster, primaries: vec![main, keys], ..system })
    }

    /// Assembles the system on databases that are ready.
    ///
    /// # Errors
    ///
    /// If the keyring does not answer or is another database's, or the outgoing client cannot be
    /// made.
    pub async fn assemble(
        store: Store,
        keyring: Keyring,
        clock: Clock,
        setup: SystemSetup,
    ) -> anyhow::Result<Self> {
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let identity = checked_identity(&store, &keyring, &*entropy).await?;
        let cell = cell::note(store.pool(), setup.cell).await?;
        let places = notice_places(&setup);
        let inviter = Inviter {
            store: store.clone(),
            keyring: keyring.clone(),
            identity,
            clock: clock.clone(),
            entropy: Arc::clone(&entropy),
            mailer: setup.mailer.clone(),
            sender: setup.sender.clone(),
            public_url: setup.base_url.strip_suffix("/api/v1").unwrap_or(&setup.base_url).into(),
            cell,
            wait: setup.patience,
            under_way: TaskTracker::new(),
        };
        let deliverer = deliverer(&inviter, &setup)?;
        let notifier = notifier(&inviter, setup.settings.scale, places);
        let service = Service {
            readers: store.pool().clone(),
            key_batchers: KeyBatchers::default(),
            health: store.pool().clone(),
            keyring_health: keyring.pool().clone(),
            intake: store.clone(),
            queue: Arc::new(OutboxView(store.pool().clone())),
            samples: Arc::new(Samples(deliverer.outgoing.clone(), clock.clone())),
            words: &explain::EventSentences,
            store,
            keyring,
            clock,
            entropy,
            inviter,
            allowed: Arc::new(setup.allowed),
            operator: None,
            target_dns: Arc::new(DnsNames(deliverer.outgoing.clone())),
            audit: AuditAccess::of(setup.notary.clone()),
            trusted_proxies: setup.trusted_proxies.into(),
            provider: setup.provider,
            partial_after: TimeDelta::from_std(setup.settings.scale.wait(PARTIAL_AFTER))?,
            wrong_keys: Arc::default(),
            portal_rates: PortalRates::default(),
            sign_in_rates: SignInRates::default(),
            refused_reports: RefusedReports::default(),
            token_rates: SignInRates::default(),
            batchers: setup.desks,
            base_url: setup.base_url.into(),
            egress: setup.egress.into(),
            cell,
            sending: setup.sending,
            append_claims: Arc::default(),
        };
        Ok(Self {
            fence: Fence::of(&deliverer.store),
            service,
            deliverer,
            notifier,
            notary: setup.notary,
            verification_interval: setup.verification_interval,
            primaries: Vec::new(),
            cluster: None,
        })
    }

    /// The main database.
    #[must_use]
    pub const fn pool(&self) -> &sqlx::PgPool {
        self.service.store.pool()
    }

    /// Closes the databases. The last user of a private cluster stops it.
    ///
    /// # Errors
    ///
    /// If the private cluster does not end.
    pub async fn stop(self) -> anyhow::Result<()> {
        announce(self.pool()).await;
        self.service.store.connections().close().await;
        self.service.intake.connections().close().await;
        self.service.readers.close().await;
        self.service.health.close().await;
        self.service.keyring_health.close().await;
        self.deliverer.store.connections().close().await;
        self.service.keyring.close().await;
        if let Some(cluster) = self.cluster.and_then(Arc::into_inner) {
            cluster.into_inner().stop().await?;
        }
        Ok(())
    }
}

/// The key of identities, once both databases are known to be of one installation.
async fn checked_identity(
    store: &Store,
    keyring: &Keyring,
    entropy: &dyn Entropy,
) -> anyhow::Result<IdentityKey> {
    installation::check(store.pool(), keyring).await?;
    let identity = keyring.identity(entropy).await.context("the keyring")?;
    identity.check(store.pool()).await.context("the keyring")?;
    installation::note(store.pool(), keyring, entropy.id()).await?;
    Ok(identity)
}

fn outgoing_client(setup: &SystemSetup) -> anyhow::Result<OutgoingClient> {
    Ok(OutgoingClient::new(OutgoingConfig {
        extra_roots: setup.extra_roots.clone(),
        bind: setup.egress_bind.clone(),
        ..OutgoingConfig::new(setup.allowed.clone())
    })?)
}

/// The context of deliveries, with the store, the keyring and the clock of invites.
fn deliverer(inviter: &Inviter, setup: &SystemSetup) -> anyhow::Result<DelivererContext> {
    Ok(DelivererContext {
        store: inviter.store.clone(),
        keyring: inviter.keyring.clone(),
        clock: inviter.clock.clone(),
        entropy: Arc::clone(&inviter.entropy),
        outgoing: outgoing_client(setup)?,
        targets: Arc::default(),
        settings: setup.settings,
        notices: setup.notices.clone().map(Arc::new),
    })
}

fn notice_places(setup: &SystemSetup) -> NoticePlaces {
    NoticePlaces {
        source: setup.base_url.clone(),
        operator: setup.notices.as_ref().map(|target| target.url.to_string()),
        screen: setup.integrations_url.clone(),
    }
}

/// The context of notices, with the mail server of invites.
fn notifier(inviter: &Inviter, scale: TimeScale, places: NoticePlaces) -> Notifier {
    Notifier {
        store: inviter.store.clone(),
        keyring: inviter.keyring.clone(),
        identity: inviter.identity.clone(),
        clock: inviter.clock.clone(),
        mailer: inviter.mailer.clone(),
        sender: inviter.sender.clone(),
        scale,
        places,
    }
}

/// Brings both databases to this version's schema.
pub(crate) async fn migrate_both(databases: &Databases) -> anyhow::Result<()> {
    let main = connect(databases.main.options().clone(), 1);
    let keyring = connect(databases.keyring.options().clone(), 1);
    bring_up(&main, &keyring).await?;
    main.close().await;
    keyring.close().await;
    Ok(())
}

async fn bring_up(main: &sqlx::PgPool, keyring: &sqlx::PgPool) -> anyhow::Result<()> {
    migrate(main).await.map_err(|error| not_brought_up("the main database", error))?;
    eventstore::bring_up(keyring, &KEYRING_MIGRATIONS)
        .await
        .map_err(|error| not_brought_up("the keyring", error))
}

/// Requires both databases at this build's schema, or at a newer one. Only `serve`, `demo` and
/// `migrate` change a schema: a newer program on a laptop must not.
pub(crate) async fn require_schema(
    main: &sqlx::PgPool,
    keyring: &sqlx::PgPool,
) -> anyhow::Result<()> {
    let schemas = schema_standings(main, keyring).await?;
    for (name, SchemaStanding { found, needed, missing }) in schemas {
        if missing > 0 {
            bail!(
                "the schema of {name} is {found}, and this program needs {needed}: run `firmforms \
                 migrate`"
            );
        }
    }
    Ok(())
}

/// The newest migration of each database that this build knows.
pub(crate) fn known_schemas() -> (i64, i64) {
    let newest = |migrator: &Migrator| migrator.iter().map(|one| one.version).max();
    let main = newest(eventstore::main_migrations()).unwrap_or_default();
    (main, newest(&KEYRING_MIGRATIONS).unwrap_or_default())
}

/// The schemas of both databases beside those of this build.
pub(crate) async fn schema_standings(
    main: &sqlx::PgPool,
    keyring: &sqlx::PgPool,
) -> Result<[(&'static str, SchemaStanding); 2], sqlx::Error> {
    Ok([
        (MAIN, checkup::main_schema(main).await?),
        (KEYRING, checkup::schema(keyring, &KEYRING_MIGRATIONS).await?),
    ])
}

/// Explains to the operator why a database is not at this build's schema.
fn not_brought_up(database: &'static str, error: MigrateError) -> anyhow::Error {
    match &error {
        MigrateError::Execute(why) if is_denied(why) => anyhow!(
            "{database}: {why}: this login may not change the schema (run `firmforms migrate` as \
             one who may), or is in none of the service's groups"
        ),
        MigrateError::VersionMismatch(_) => anyhow!(
            "{database} was made by a build from before the first release; this build cannot read \
             it: start with an empty database"
        ),
        _ => anyhow::Error::from(error).context(database),
    }
}

/// Whether the error is SQLSTATE 42501, insufficient privilege.
pub(crate) fn is_denied(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("42501"))
}

/// The log with every `WithAppend`, in the order of locks (architecture, section 2).
#[must_use]
pub fn store(pool: sqlx::PgPool) -> Store {
    let mut with_append = projector::guards();
    with_append.push(Box::new(deliverer::LaneWriter));
    with_append.extend(projector::tables());
    Store::new(pool, with_append).queueing_in(Arc::new(deliverer::AppendQueuer))
}

/// The claim in the append, for the sender of this process.
struct AppendClaims(deliverer::AppendLeaser);

impl AppendClaimer for AppendClaims {
    fn queue<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        occurrences: &'a [RecordedEvent],
        submissions: &'a [NewSubmission<'a>],
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedInAppend>, AppendError>> {
        Box::pin(async move {
            let submissions: Vec<_> = submissions
                .iter()
                .map(|NewSubmission { response, key, form }| deliverer::SubmissionParts {
                    response,
                    key,
                    form,
                })
                .collect();
            let leased = self.0.queue(connection, occurrences, &submissions).await?;
            Ok(Box::new(AppendLease(leased)) as Box<dyn ClaimedInAppend>)
        })
    }
}

/// The deliveries leased in one append.
struct AppendLease(LeasedInAppend);

impl ClaimedInAppend for AppendLease {
    fn waits(&self) -> bool {
        self.0.waits()
    }

    fn send(self: Box<Self>) {
        self.0.send();
    }
}

/// Makes the doors of this process claim for its sender in their appends.
pub fn claim_in_appends(service: &Service, dispatch: &Arc<Dispatcher>) {
    let claims = AppendClaims(deliverer::AppendLeaser::new(dispatch));
    // A process has one sender, so a second call changes nothing.
    let _ = service.append_claims.set(Box::new(claims));
}

/// Name lookups by the client that would deliver.
struct DnsNames(OutgoingClient);

impl TargetDns for DnsNames {
    fn prove_private<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, bool> {
        Box::pin(self.0.is_proven_private(target))
    }
}

/// Samples by the client that would deliver.
struct Samples(OutgoingClient, Clock);

impl SampleSender for Samples {
    fn send(&self, sample: SignedSample) -> BoxFuture<'_, SampleAnswer> {
        let SignedSample { sample_id, hook_id, trigger, target, body, secret } = sample;
        let body = body.into();
        let request = SampleRequest { sample_id, hook_id, trigger, target, body, secret };
        Box::pin(async move {
            let SampleExchange { exchange, text } =
                send_sample(&self.0, request, self.1.now()).await;
            let status = exchange.answer.status();
            let error = status.is_none().then(|| exchange.answer.code());
            SampleAnswer { status, error, hops: exchange.hops, text }
        })
    }
}

/// The outbox, over the callers' connections.
struct OutboxView(sqlx::PgPool);

impl QueueView for OutboxView {
    fn waiting<'a>(
        &'a self,
        hosts: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<HostBacklog>, sqlx::Error>> {
        Box::pin(async move {
            let rows = host_backlog::of_hosts(&self.0, hosts).await?.into_iter();
            let of = |row: host_backlog::HostBacklog| HostBacklog {
                host: row.host,
                waiting: row.waiting,
                oldest_due_at: row.oldest_due_at,
            };
            Ok(rows.map(of).collect())
        })
    }
}

/// Opens the service's databases for one command.
pub(crate) async fn open(storage: &StorageArgs) -> anyhow::Result<System> {
    open_installation(storage, Installation::MustExist).await
}

/// Opens the service's databases for one command, and makes what is missing if it may.
pub(crate) async fn open_installation(
    storage: &StorageArgs,
    installation: Installation,
) -> anyhow::Result<System> {
    open_as(storage, installation, SystemSetup::quiet(UNUSED_BASE_URL)?).await
}

/// Opens the service's databases for a command that calls a target.
pub(crate) async fn open_to_send(
    storage: &StorageArgs,
    setup: SystemSetup,
) -> anyhow::Result<System> {
    open_as(storage, Installation::MustExist, setup).await
}

async fn open_as(
    storage: &StorageArgs,
    installation: Installation,
    setup: SystemSetup,
) -> anyhow::Result<System> {
    let mut databases = Databases::open(storage, SERVICE_DATABASES, installation).await?;
    let wrapping = storage.wrapping_key(installation)?;
    databases.require().await?;
    let mut system = System::start_on(databases, wrapping, setup, installation).await?;
    system.service.operator = Some(operator::at_terminal(storage, system.pool()).await?);
    Ok(system)
}

/// Installs one TLS stack for the whole process, before any connection is opened.
///
/// # Errors
///
/// If one is installed already.
pub fn install_tls() -> anyhow::Result<()> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("another TLS provider is installed"))
}
