//! The service: the state that every handler works with.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::TimeDelta;
use domain::access::Cell;
use domain::delivery::Hop;
use domain::delivery::signature::SignedSample;
use domain::event::{Actor, EventContext, EventWords, OperatorName, Terminal};
use domain::subscription::{AllowedTargets, Target};
use eventstore::{AppendError, Clock, OpenAppend, RecordedEvent, Store};
use futures::future::BoxFuture;
use inviter::Inviter;
use ipnet::IpNet;
use oidc::Provider;
use projector::receivers::HostBacklog;
use sqlx::PgPool;
use telemetry::request_id::RequestIds;
use telemetry::trace;
use uuid::Uuid;
use vault::responses::NewSubmission;
use vault::{Entropy, Keyring};

use crate::audit_access::AuditAccess;
use crate::batching::key_batcher::KeyBatchers;
use crate::batching::token_cache::TokenCache;
use crate::intake::{self, IntakeBatcher, KnownMatches, RefusedReports};
use crate::portal::PortalRates;
use crate::public::wrong_keys::WrongKeys;
use crate::sign_in::rates::SignInRates;

/// The service behind both APIs. Clones share everything.
#[derive(Clone)]
pub struct Service {
    /// The log, and the pool of the main database.
    pub store: Store,
    /// The data keys.
    pub keyring: Keyring,
    /// The clock.
    pub clock: Clock,
    /// Source of random bytes.
    pub entropy: Arc<dyn Entropy>,
    /// Sender of invites.
    pub inviter: Inviter,
    /// Words about events, for operators and auditors.
    pub words: &'static dyn EventWords,
    /// The proof outside the database, and the sessions of its readers.
    pub audit: Arc<AuditAccess>,
    /// The operator at the terminal, in a process that runs a command.
    pub operator: Option<OperatorAtTerminal>,
    /// Connections beside those of [`Self::store`].
    pub pools: CallerPools,
    /// The deliverer, as the doors ask it.
    pub deliveries: DeliveryBridge,
    /// Batchers and rates of calls.
    pub admission: CallAdmission,
    /// The settings of the doors.
    pub settings: ServiceSettings,
}

/// Connections of callers that must not wait for each other.
#[derive(Clone)]
pub struct CallerPools {
    /// The log for the product's reports. Its connections prepare each statement once.
    pub intake: Store,
    /// Connections for callers with a key. A connection sees no firm's rows, or the rows of one
    /// caller's firm.
    pub readers: PgPool,
    /// Connections for health alone. Callers who wait for a connection do not make the service look
    /// dead (case E16).
    pub health: PgPool,
    /// A connection to the keyring for health alone.
    pub keyring_health: PgPool,
}

/// The deliverer, as the doors ask it. `api` does not import the deliverer.
#[derive(Clone)]
pub struct DeliveryBridge {
    /// DNS answers about targets.
    pub target_dns: Arc<dyn TargetDns>,
    /// The queue of deliveries.
    pub queue: Arc<dyn QueueView>,
    /// Sends samples to targets of subscriptions.
    pub samples: Arc<dyn SampleSender>,
    /// Claims deliveries in the append, once a sender runs in this process. Clones share it.
    pub append_claims: Arc<OnceLock<Box<dyn AppendClaimer>>>,
}

/// Batchers and rates of calls, in the memory of this process. Clones share them.
#[derive(Clone, Default)]
pub struct CallAdmission {
    /// The lock of a look at the alarms. Slow looks take one connection of [`CallerPools::health`].
    pub alarm_turn: Arc<tokio::sync::Mutex<()>>,
    /// Batchers of key look-ups.
    pub key_batchers: KeyBatchers,
    /// Batchers of intake calls and token look-ups.
    pub batchers: CallBatchers,
    /// Wrong keys that this server saw.
    pub wrong_keys: Arc<WrongKeys>,
    /// Matches of submissions that this process remembers.
    pub matches: Arc<KnownMatches>,
    /// Rates of the portal.
    pub portal_rates: PortalRates,
    /// Rates of sign-ins by the provider.
    pub sign_in_rates: SignInRates,
    /// Rates of wrong tokens at the sign-in.
    pub token_rates: SignInRates,
    /// Reports that a full disk refused.
    pub refused_reports: RefusedReports,
}

/// The settings of the doors.
#[derive(Clone)]
pub struct ServiceSettings {
    /// Private targets opened for development; none otherwise.
    pub allowed: Arc<AllowedTargets>,
    /// Proxies that are trusted to name a client's address; empty otherwise (ruling 5).
    pub trusted_proxies: Arc<[IpNet]>,
    /// Time from the last answer until an unfinished response becomes a partial submission. It is
    /// an hour, except in tests and drills (contract, section Triggers).
    pub partial_after: TimeDelta,
    /// The provider by which users sign in at the console, if one is set.
    pub provider: Option<Arc<Provider>>,
    /// URL of the public API, ending in `/api/v1`.
    pub base_url: Arc<str>,
    /// The cell that new keys name, if this installation is one of several (ruling 47).
    pub cell: Option<Cell>,
    /// The addresses that deliveries leave from; empty for any. They are published.
    pub egress: Arc<[IpAddr]>,
    /// Whether anything is sent from this process.
    pub sending: SendingMode,
}

/// Claims deliveries in the transaction that records their occurrence. The claim is an optimisation
/// of a process that also sends. Without it, deliveries wait in the outbox for a claim of their
/// own.
pub trait AppendClaimer: Send + Sync {
    /// Queues the deliveries of these occurrences, and claims those that can be sent at once.
    fn queue_and_claim<'a>(
        &'a self,
        appending: OpenAppend<'a>,
        occurrences: &'a [RecordedEvent],
        submissions: &'a [NewSubmission<'a>],
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedInAppend>, AppendError>>;
}

/// Deliveries that an append has claimed. If it is dropped before the commit, no claim remains.
pub trait ClaimedInAppend: Send {
    /// Whether a queued delivery waits for a worker.
    fn needs_worker(&self) -> bool;

    /// Sends the deliveries, after the commit of the append.
    fn send_claimed(self: Box<Self>);

    /// Notes that the append was refused. The next claim reads its lanes anew.
    fn note_refusal(self: Box<Self>);
}

/// Batchers of intake calls and token look-ups. Clones share them.
#[derive(Clone)]
pub struct CallBatchers {
    pub(crate) intake: Arc<IntakeBatcher>,
    pub(crate) tokens: Arc<TokenCache>,
}

impl CallBatchers {
    /// Batchers with turns of up to `last`, for tests that decide which calls share a batch.
    #[must_use]
    pub fn with_turn_max(last: Duration) -> Self {
        Self { intake: intake::intake_batcher(Some(last)), tokens: Arc::default() }
    }

    /// Number of calls that wait for a batch.
    #[must_use]
    pub fn calls_waiting(&self) -> usize {
        self.intake.waiting_count()
    }
}

impl Default for CallBatchers {
    fn default() -> Self {
        Self { intake: intake::intake_batcher(None), tokens: Arc::default() }
    }
}

/// Whether deliveries, replays and mails leave a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendingMode {
    /// The process sends.
    On,
    /// The process takes in, queues and shows, and sends nothing as long as it runs. An operator
    /// uses this mode after a restore (case G14). It does not bind other processes.
    Held,
}

/// DNS, as asked about a target when a subscription is made (ruling 17).
pub trait TargetDns: Send + Sync {
    /// Whether DNS proves that the target cannot be reached: it answered, and every address is
    /// private. Silence and failure prove nothing, because every delivery checks the target again.
    fn prove_private<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, bool>;
}

/// The queue of deliveries, as operators ask about it.
pub trait QueueView: Send + Sync {
    /// The work that waits for these hosts. A host without work may be left out.
    fn host_backlogs<'a>(
        &'a self,
        hosts: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<HostBacklog>, sqlx::Error>>;
}

/// Sends a sample to the target of a subscription, as a delivery would be sent.
pub trait SampleSender: Send + Sync {
    /// Sends the sample once and waits for the answer.
    fn send(&self, sample: SignedSample) -> BoxFuture<'_, SampleAnswer>;
}

/// The answer to a sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleAnswer {
    /// The final status, if one came.
    pub status: Option<u16>,
    /// The fault, if no status came.
    pub error: Option<&'static str>,
    /// The requests in order. The target's comes first.
    pub hops: Vec<Hop>,
    /// The first KiB of the answer, cleaned.
    pub text: Option<String>,
}

/// An operator at a terminal (ruling 46).
#[derive(Debug, Clone)]
pub struct OperatorAtTerminal {
    /// The name.
    pub name: OperatorName,
    /// The terminal.
    pub terminal: Arc<Terminal>,
}

impl Service {
    /// The source of request ids: the service's time and randomness.
    pub(crate) fn request_ids(&self) -> RequestIds {
        let Self { entropy, clock, .. } = self.clone();
        RequestIds::new(move || entropy.id_at(clock.now().get()))
    }

    /// Random bytes of a text that callers send. The text names this installation's cell.
    pub(crate) fn routed_secret(&self) -> [u8; 32] {
        let random = self.entropy.new_secret();
        self.settings.cell.map_or(random, |cell| cell.mark_bytes(random))
    }

    /// The operator who gives commands at the terminal of this process.
    #[must_use]
    pub fn operator(&self) -> Actor {
        let named = self.operator.as_ref().map(|operator| Actor::NamedOperator(operator.name));
        named.unwrap_or(Actor::Operator(Uuid::nil()))
    }

    /// The context of a command given now.
    #[must_use]
    pub fn context(&self, firm_id: Uuid, actor: Actor) -> EventContext {
        EventContext {
            firm_id,
            recorded_at: self.clock.now(),
            actor,
            correlation_id: self.entropy.new_id(),
            causation_id: None,
            traceparent: trace::current_traceparent(),
            terminal: self.terminal_of(actor),
        }
    }

    /// The terminal, if this actor is the operator at it.
    fn terminal_of(&self, actor: Actor) -> Option<Arc<Terminal>> {
        let operator = self.operator.as_ref();
        let named = operator.filter(|operator| actor == Actor::NamedOperator(operator.name));
        named.map(|operator| Arc::clone(&operator.terminal))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use domain::event::{Event, NameBook};
    use domain::subscription::GoneAnswer;
    use mailer::Mailer;
    use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
    use tokio_util::task::TaskTracker;
    use vault::{IdentityKey, SystemEntropy, WrappingKey};

    use super::*;

    /// DNS that never says anything.
    struct Silent;

    impl TargetDns for Silent {
        fn prove_private<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, bool> {
            Box::pin(async { false })
        }
    }

    impl SampleSender for Silent {
        fn send(&self, _: SignedSample) -> BoxFuture<'_, SampleAnswer> {
            Box::pin(async { SampleAnswer::default() })
        }
    }

    impl QueueView for Silent {
        fn host_backlogs<'a>(
            &'a self,
            _: &'a [String],
        ) -> BoxFuture<'a, Result<Vec<HostBacklog>, sqlx::Error>> {
            Box::pin(async { Ok(Vec::new()) })
        }
    }

    impl EventWords for Silent {
        fn event_sentence(&self, _: &NameBook, _: &str, _: &Event) -> String {
            String::new()
        }

        fn actor_noun(&self, _: &NameBook, _: Actor) -> String {
            String::new()
        }

        fn second_gone(&self, _: &GoneAnswer) -> String {
            String::new()
        }

        fn commands_about(&self, _: &str, _: &str, _: Option<Uuid>) -> Vec<String> {
            Vec::new()
        }
    }

    /// A service without a database: no server listens where the pool points to.
    pub(crate) fn nowhere() -> Service {
        let nowhere = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(1);
        let pool = PgPoolOptions::new()
            .acquire_timeout(Duration::from_millis(100))
            .connect_lazy_with(nowhere);
        let store = Store::new(pool.clone(), Vec::new());
        let keyring = Keyring::new(pool, WrappingKey::new(&[0; 32]));
        let clock = Clock::standing_at("2026-11-01T10:00:00Z".parse().unwrap());
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let inviter = Inviter {
            store: store.clone(),
            keyring: keyring.clone(),
            identity: IdentityKey::new(&[0; 32]),
            clock: clock.clone(),
            entropy: Arc::clone(&entropy),
            mailer: Mailer::switched_off(),
            sender: "forms@example.com".parse().unwrap(),
            public_url: "https://forms.example".into(),
            cell: None,
            wait: inviter::InviteWait::default(),
            under_way: TaskTracker::new(),
        };
        let pools = CallerPools {
            readers: store.pool().clone(),
            health: store.pool().clone(),
            keyring_health: keyring.pool().clone(),
            intake: store.clone(),
        };
        let deliveries = DeliveryBridge {
            target_dns: Arc::new(Silent),
            queue: Arc::new(Silent),
            samples: Arc::new(Silent),
            append_claims: Arc::default(),
        };
        let settings = ServiceSettings {
            allowed: Arc::new(AllowedTargets::default()),
            trusted_proxies: Arc::default(),
            partial_after: TimeDelta::hours(1),
            provider: None,
            base_url: "https://forms.example/api/v1".into(),
            cell: None,
            egress: Arc::default(),
            sending: SendingMode::On,
        };
        Service {
            store,
            keyring,
            clock,
            entropy,
            inviter,
            words: &Silent,
            audit: AuditAccess::new(None, None),
            operator: None,
            pools,
            deliveries,
            admission: CallAdmission::default(),
            settings,
        }
    }
}
