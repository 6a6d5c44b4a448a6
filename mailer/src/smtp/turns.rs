//! Turns at the mail server. Mails of all firms share a fixed number of turns, and one firm has a
//! share of them. So recipients whose check is slow at the server hold up one firm only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use uuid::Uuid;

/// The most mails at a time. Servers limit the connections of a client (RFC 5321, section 4.5.4.1
/// leaves the number to them), and refuse more.
const PARALLEL_MAILS_MAX: usize = 16;

/// The most mails of one firm at a time: a quarter, like a firm's share of permits (ruling 34).
const PARALLEL_MAILS_PER_FIRM: usize = 4;

/// The turns of one mail server.
pub(crate) struct MailTurns {
    all: Arc<Semaphore>,
    /// Turns of firms that have a mail under way. A firm's turns are dropped with its last mail,
    /// and its entry when the next firm gets one.
    firms: Mutex<HashMap<Uuid, Weak<Semaphore>>>,
}

/// The right to send one mail now. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct RelayTurn {
    _of_firm: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Default for MailTurns {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(PARALLEL_MAILS_MAX)), firms: Mutex::default() }
    }
}

impl MailTurns {
    /// A turn for a mail of this firm; `None` if none is free in time. Without a wait, only a turn
    /// that is free at once is given.
    pub(crate) async fn take_turn(&self, firm_id: Uuid, wait_max: Duration) -> Option<RelayTurn> {
        let firm = self.of_firm(firm_id);
        let both = async {
            let of_firm = firm.acquire_owned().await.ok()?;
            let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(RelayTurn { _of_firm: of_firm, _of_all: of_all })
        };
        timeout(wait_max, both).await.ok()?
    }

    fn of_firm(&self, firm_id: Uuid) -> Arc<Semaphore> {
        let mut firms = self.firms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(firm) = firms.get(&firm_id).and_then(Weak::upgrade) {
            return firm;
        }
        firms.retain(|_, firm| firm.strong_count() > 0);
        let firm = Arc::new(Semaphore::new(PARALLEL_MAILS_PER_FIRM));
        firms.insert(firm_id, Arc::downgrade(&firm));
        firm
    }
}
