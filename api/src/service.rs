//! What every handler works with.

use std::sync::Arc;

use domain::address::AllowedTargets;
use domain::context::{Actor, Context};
use eventstore::{Clock, Store};
use uuid::Uuid;
use vault::{Entropy, Keyring};

/// The service behind both doors. Clones share everything.
#[derive(Clone)]
pub struct Service {
    /// The log, and the pool of the main database.
    pub store: Store,
    /// The data keys.
    pub keyring: Keyring,
    /// What time it is.
    pub clock: Clock,
    /// Where random bytes come from.
    pub entropy: Arc<dyn Entropy>,
    /// Private targets opened for development; none otherwise.
    pub allowed: Arc<AllowedTargets>,
    /// Where the public API is reached, ending in `/api/v1`.
    pub base_url: Arc<str>,
}

impl Service {
    /// The context of a command that somebody gives now.
    #[must_use]
    pub fn context(&self, firm_id: Uuid, actor: Actor) -> Context {
        Context {
            firm_id,
            recorded_at: self.clock.now(),
            actor,
            correlation_id: self.entropy.id(),
            causation_id: None,
            traceparent: None,
        }
    }
}
