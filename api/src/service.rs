//! What every handler works with.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::TimeDelta;
use domain::address::AllowedTargets;
use domain::context::{Actor, EventContext};
use domain::payload::FormPart;
use domain::target::Target;
use eventstore::{AppendError, Clock, RecordedEvent, Store};
use futures::future::BoxFuture;
use inviter::Inviter;
use ipnet::IpNet;
use sqlx::{PgConnection, PgPool};
use telemetry::trace;
use uuid::Uuid;
use vault::responses::StoredResponse;
use vault::{DataKey, Entropy, Keyring};

use crate::batching::token_cache::TokenCache;
use crate::intake::{self, IntakeBatcher};
use crate::public::{KeyBatchers, WrongKeys};

/// The service behind both doors. Clones share everything.
#[derive(Clone)]
pub struct Service {
    /// The log, and the pool of the main database.
    pub store: Store,
    /// The same, for what the product reports: its statements are planned once.
    pub intake: Store,
    /// Connections for who calls with a key: each sees nobody's rows, or one firm's for which it reads.
    pub readers: PgPool,
    /// Where callers show their keys.
    pub key_batchers: KeyBatchers,
    /// Connections for health alone: callers who wait for theirs do not make the service look dead
    /// (case E16).
    pub health: PgPool,
    /// The data keys.
    pub keyring: Keyring,
    /// What time it is.
    pub clock: Clock,
    /// Where random bytes come from.
    pub entropy: Arc<dyn Entropy>,
    /// Private targets opened for development; none otherwise.
    pub allowed: Arc<AllowedTargets>,
    /// What sends invites.
    pub inviter: Inviter,
    /// What DNS says of a target.
    pub target_dns: Arc<dyn TargetDns>,
    /// Proxies whose word on a client's address is taken; none otherwise (ruling 5).
    pub trusted_proxies: Arc<[IpNet]>,
    /// How long after its last answer an unfinished response becomes a partial submission; an hour
    /// but for tests and drills (contract, section Triggers).
    pub partial_after: TimeDelta,
    /// The wrong keys this server saw.
    pub wrong_keys: Arc<WrongKeys>,
    /// Where callers who come at the same time are served together.
    pub batchers: CallBatchers,
    /// Where the public API is reached, ending in `/api/v1`.
    pub base_url: Arc<str>,
    /// Whether anything leaves this process.
    pub sending: SendingMode,
    /// What claims deliveries in the append, once a sender runs in this process. Clones share it.
    pub append_claims: Arc<OnceLock<Box<dyn AppendClaimer>>>,
}

/// A new submission that an append records, and what its deliveries are composed from.
pub struct NewSubmission<'a> {
    /// What was answered.
    pub response: &'a StoredResponse,
    /// What seals it.
    pub key: &'a DataKey,
    /// Its form.
    pub form: &'a FormPart,
}

/// Claims deliveries in the transaction that records their occurrence. It is an optimisation of a
/// process that sends, too: without it they wait in the outbox for a claim of their own.
pub trait AppendClaimer: Send + Sync {
    /// Queues what these occurrences list, and claims of it what can be sent at once.
    fn queue<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        occurrences: &'a [RecordedEvent],
        submissions: &'a [NewSubmission<'a>],
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedInAppend>, AppendError>>;
}

/// Deliveries that an append has claimed. Dropped before its commit, nothing of them is there.
pub trait ClaimedInAppend: Send {
    /// Whether some of what was queued waits for a worker.
    fn waits(&self) -> bool;

    /// Sends them: the append is committed.
    fn send(self: Box<Self>);
}

/// Where callers who come at the same time are served together. Clones share them.
#[derive(Clone)]
pub struct CallBatchers {
    pub(crate) intake: Arc<IntakeBatcher>,
    pub(crate) tokens: Arc<TokenCache>,
}

impl CallBatchers {
    /// Those where calls that are taken in together hold up the next as long as they take, up to so
    /// long: for tests, which decide who goes with whom.
    #[must_use]
    pub fn with_turn_max(last: Duration) -> Self {
        Self { intake: intake::intake_batcher(Some(last)), tokens: Arc::default() }
    }

    /// How many calls wait to be taken in together.
    #[must_use]
    pub fn calls_waiting(&self) -> usize {
        self.intake.waiting()
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
    /// They do.
    On,
    /// It takes in, queues and shows, and sends nothing as long as it runs: for the time after a
    /// restore (case G14). Other processes are not bound by it.
    Held,
}

/// What DNS says of a target when a subscription is made (ruling 17).
pub trait TargetDns: Send + Sync {
    /// Whether it proves that the target cannot be delivered to: it answered, and every address is
    /// private. Silence and failure prove nothing: the target is checked again at every delivery.
    fn prove_private<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, bool>;
}

impl Service {
    /// The context of a command that somebody gives now.
    #[must_use]
    pub fn context(&self, firm_id: Uuid, actor: Actor) -> EventContext {
        EventContext {
            firm_id,
            recorded_at: self.clock.now(),
            actor,
            correlation_id: self.entropy.id(),
            causation_id: None,
            traceparent: trace::current_traceparent(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use mailer::Mailer;
    use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
    use vault::{IdentityKey, SystemEntropy, WrappingKey};

    use super::*;

    /// DNS that never says anything.
    struct Silent;

    impl TargetDns for Silent {
        fn prove_private<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, bool> {
            Box::pin(async { false })
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
            mailer: Mailer::files("never-written"),
            sender: "forms@example.com".parse().unwrap(),
            public_url: "https://forms.example".into(),
            wait: inviter::InviteWait::default(),
        };
        Service {
            readers: store.pool().clone(),
            key_batchers: KeyBatchers::default(),
            health: store.pool().clone(),
            intake: store.clone(),
            store,
            keyring,
            clock,
            entropy,
            inviter,
            allowed: Arc::new(AllowedTargets::default()),
            target_dns: Arc::new(Silent),
            trusted_proxies: Arc::default(),
            partial_after: TimeDelta::hours(1),
            wrong_keys: Arc::default(),
            batchers: CallBatchers::default(),
            base_url: "https://forms.example/api/v1".into(),
            sending: SendingMode::On,
            append_claims: Arc::default(),
        }
    }
}
