//! Wiring: assembles every part of a process on its pools. The tests start here too.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::{
    AuditAccess, CallAdmission, CallBatchers, CallerPools, DeliveryBridge, SendingMode, Service,
    ServiceSettings,
};
use auditor::archive::LogArchive;
use auditor::{Notary, VerificationSchedule};
use chrono::TimeDelta;
use cluster::Cluster;
use deliverer::outgoing::{OutgoingClient, OutgoingConfig};
use deliverer::{DelivererContext, DelivererSettings, NoticeTarget};
use domain::access::Cell;
use domain::subscription::AllowedTargets;
use eventstore::{Clock, Fence, PrimaryFollower, Store, announce_news};
use inviter::{InviteWait, Inviter};
use ipnet::IpNet;
use mailer::{Mailer, SenderAddress};
use notifier::{NoticePlaces, Notifier};
use oidc::Provider;
use rustls::pki_types::CertificateDer;
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;
use vault::{Entropy, IdentityKey, Keyring, SystemEntropy, WrappingKey, cell, installation};

use crate::adapters::{DnsNames, OutboxView, Samples};
use crate::databases::{Databases, KEYRING, MAIN};
use crate::installation::Installation;
use crate::pools::Pools;
use crate::schema::{bring_up, require_schema};

/// The sender's address of mail while none is set. No mail server accepts it.
pub const DEFAULT_MAIL_FROM: &str = "forms@firmforms.example";

/// The age at which an unfinished response becomes a partial one (contract, section Triggers).
const PARTIAL_AFTER: Duration = Duration::from_secs(3_600);

/// All parts of a process.
pub struct System {
    /// The context of the doors.
    pub service: Service,
    /// The context of the deliverer.
    pub deliverer: DelivererContext,
    /// The context of the worker of unfinished invites.
    pub take_over: Inviter,
    /// The context of notices.
    pub notifier: Notifier,
    /// The fence of the log.
    pub fence: Fence,
    /// The notary of checkpoints, in a process that makes them.
    pub notary: Option<Notary>,
    /// The archive of the log, if this process writes one.
    pub archive: Option<LogArchive>,
    /// The ages at which ranges of the log and of history leave.
    pub kept: RangeRetention,
    /// The times of verifications of the log; `None` for none.
    pub verifications: Option<VerificationSchedule>,
    /// The followers of the two databases' primaries, until `serve` runs them.
    pub(crate) primaries: Vec<PrimaryFollower>,
    /// The private cluster, if the databases are in one.
    pub(crate) cluster: Option<Arc<Mutex<Cluster>>>,
}

/// The ages at which ranges leave; `None` for never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeRetention {
    /// Ranges of the log, for the archive.
    pub log: Option<Duration>,
    /// Months of history.
    pub history: Option<Duration>,
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
    /// The archive of the log, if this process writes one.
    pub archive: Option<LogArchive>,
    /// The ages at which ranges of the log and of history leave.
    pub kept: RangeRetention,
    /// The times of verifications of the log; `None` for none.
    pub verifications: Option<VerificationSchedule>,
    /// Whether this process sends.
    pub sending: SendingMode,
    /// The batchers of concurrent calls.
    pub batchers: CallBatchers,
    /// The operator's URL for notices.
    pub notices: Option<NoticeTarget>,
    /// The published addresses that deliveries leave from; any if there are none.
    pub egress: Vec<IpAddr>,
    /// The published addresses that this process uses.
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
    pub fn for_commands(base_url: &str) -> anyhow::Result<Self> {
        Ok(Self {
            allowed: AllowedTargets::default(),
            base_url: base_url.to_owned(),
            settings: DelivererSettings::default(),
            extra_roots: Vec::new(),
            trusted_proxies: Vec::new(),
            mailer: Mailer::switched_off(),
            sender: DEFAULT_MAIL_FROM.parse().context("the sender of mails")?,
            patience: InviteWait::default(),
            notary: None,
            archive: None,
            kept: RangeRetention::default(),
            verifications: None,
            sending: SendingMode::On,
            batchers: CallBatchers::default(),
            notices: None,
            egress: Vec::new(),
            egress_bind: Vec::new(),
            integrations_url: None,
            cell: None,
            provider: None,
        })
    }
}

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

    /// Starts the system on an installation that may have to exist. Without the right to begin one,
    /// no schema is made and none is changed.
    ///
    /// # Errors
    ///
    /// If a database does not answer or is not at this version's schema.
    pub async fn start_on(
        databases: Databases,
        wrapping: WrappingKey,
        setup: SystemSetup,
        installation: Installation,
    ) -> anyhow::Result<Self> {
        let mut main = PrimaryFollower::new(databases.main, MAIN);
        let mut keys = PrimaryFollower::new(databases.keyring, KEYRING);
        let pools = Pools::open(&mut main, &mut keys, wrapping);
        if installation == Installation::MustExist {
            require_schema(pools.callers.pool(), pools.keyring.pool()).await?;
        }
        bring_up(pools.callers.pool(), pools.keyring.pool()).await?;
        pools.keyring.check_wrapping_key(&SystemEntropy).await?;
        let clock = Clock::of_database(&pools.health).await.context("the main database")?;
        let system = Self::assemble(pools, clock, setup).await?;
        let cluster = databases.cluster.map(|cluster| Arc::new(Mutex::new(cluster)));
        Ok(Self { cluster, primaries: vec![main, keys], ..system })
    }

    /// Assembles the system on databases that are ready.
    ///
    /// # Errors
    ///
    /// If the keyring does not answer or is another database's, or the outgoing client cannot be
    /// made.
    pub async fn assemble(pools: Pools, clock: Clock, setup: SystemSetup) -> anyhow::Result<Self> {
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let identity = checked_identity(&pools.callers, &pools.keyring, &*entropy).await?;
        let cell = cell::note(pools.callers.pool(), setup.cell).await?;
        let inviter = Inviter {
            store: pools.callers.clone(),
            keyring: pools.keyring.clone(),
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
        let take_over = Inviter { store: pools.workers.clone(), ..inviter.clone() };
        let notifier = make_notifier(&take_over, &setup);
        let settings = service_settings(&setup, cell)?;
        let deliverer = DelivererContext {
            store: pools.workers,
            keyring: pools.worker_keyring,
            clock: clock.clone(),
            entropy: Arc::clone(&entropy),
            outgoing: outgoing_client(&setup)?,
            targets: Arc::default(),
            lanes: Arc::default(),
            settings: setup.settings,
            notices: setup.notices.clone().map(Arc::new),
        };
        let deliveries = DeliveryBridge {
            target_dns: Arc::new(DnsNames(deliverer.outgoing.clone())),
            queue: Arc::new(OutboxView(pools.callers.pool().clone())),
            samples: Arc::new(Samples(deliverer.outgoing.clone(), clock.clone())),
            append_claims: Arc::default(),
        };
        let service = Service {
            store: pools.callers,
            keyring: pools.keyring,
            clock,
            entropy,
            inviter,
            words: &explain::EventSentences,
            audit: AuditAccess::new(setup.notary.clone(), setup.archive.clone()),
            operator: None,
            pools: CallerPools {
                intake: pools.intake,
                readers: pools.readers,
                health: pools.health,
                keyring_health: pools.keyring_health,
            },
            deliveries,
            admission: CallAdmission { batchers: setup.batchers, ..CallAdmission::default() },
            settings,
        };
        Ok(Self {
            fence: Fence::new(&deliverer.store),
            service,
            deliverer,
            take_over,
            notifier,
            notary: setup.notary,
            archive: setup.archive,
            kept: setup.kept,
            verifications: setup.verifications,
            primaries: Vec::new(),
            cluster: None,
        })
    }

    /// The main database.
    #[must_use]
    pub const fn main_pool(&self) -> &sqlx::PgPool {
        self.service.store.pool()
    }

    /// Closes the databases. The last user of a private cluster stops it.
    ///
    /// # Errors
    ///
    /// If the private cluster does not end.
    pub async fn stop(self) -> anyhow::Result<()> {
        announce_news(self.main_pool()).await;
        self.service.store.connections().close().await;
        self.service.pools.intake.connections().close().await;
        self.service.pools.readers.close().await;
        self.service.pools.health.close().await;
        self.service.pools.keyring_health.close().await;
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
    installation::require_pair(store.pool(), keyring).await?;
    let identity = keyring.identity_key(entropy).await.context("the keyring")?;
    identity.check_fingerprint(store.pool()).await.context("the keyring")?;
    installation::note_pair(store.pool(), keyring, entropy.new_id()).await?;
    Ok(identity)
}

fn outgoing_client(setup: &SystemSetup) -> anyhow::Result<OutgoingClient> {
    Ok(OutgoingClient::new(OutgoingConfig {
        extra_roots: setup.extra_roots.clone(),
        bind: setup.egress_bind.clone(),
        ..OutgoingConfig::new(setup.allowed.clone())
    })?)
}

fn service_settings(setup: &SystemSetup, cell: Option<Cell>) -> anyhow::Result<ServiceSettings> {
    Ok(ServiceSettings {
        allowed: Arc::new(setup.allowed.clone()),
        trusted_proxies: setup.trusted_proxies.as_slice().into(),
        partial_after: TimeDelta::from_std(setup.settings.scale.scaled_wait(PARTIAL_AFTER))?,
        provider: setup.provider.clone(),
        base_url: setup.base_url.as_str().into(),
        cell,
        egress: setup.egress.as_slice().into(),
        sending: setup.sending,
    })
}

fn notice_places(setup: &SystemSetup) -> NoticePlaces {
    NoticePlaces {
        source: setup.base_url.clone(),
        operator: setup.notices.as_ref().map(|target| target.url.to_string()),
        screen: setup.integrations_url.clone(),
    }
}

/// The context of notices, with the mail server and the connections of this inviter.
fn make_notifier(inviter: &Inviter, setup: &SystemSetup) -> Notifier {
    Notifier {
        store: inviter.store.clone(),
        keyring: inviter.keyring.clone(),
        identity: inviter.identity.clone(),
        clock: inviter.clock.clone(),
        mailer: inviter.mailer.clone(),
        sender: inviter.sender.clone(),
        scale: setup.settings.scale,
        places: notice_places(setup),
    }
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
