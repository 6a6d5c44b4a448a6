//! The holders of tokens that were found before, and the batcher that looks tokens up.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use super::batcher::{BatchPolicy, Batcher};
use crate::error::Error;
use crate::token_holder::TokenHolder;

/// How tokens are looked up. A look-up begins after the calls it serves, so a token revoked before
/// a call is refused.
const LOOKUP_POLICY: BatchPolicy = BatchPolicy {
    parallel: 2,
    busy_at: 4,
    linger: None,
    max: 100,
    turn_max: Duration::from_millis(250),
};

/// The time after which a further use of a token is noted. So a busy token costs one statement a
/// minute and process.
const NOTE_INTERVAL: TimeDelta = TimeDelta::minutes(1);

/// A token, known only by its SHA-256.
pub(crate) type TokenHash = [u8; 32];

/// Looks tokens up, and remembers their holders.
pub(crate) struct TokenCache {
    pub(super) batcher: Arc<Batcher<TokenHash, Result<Option<TokenHolder>, Error>>>,
    /// Holders that were active at their last look-up. The number of tokens that operators made
    /// bounds the size.
    found: Mutex<HashMap<TokenHash, TokenHolder>>,
    /// Times of the last uses that were noted, by token.
    noted: Mutex<HashMap<Uuid, DateTime<Utc>>>,
}

impl Default for TokenCache {
    fn default() -> Self {
        Self {
            batcher: Batcher::new(LOOKUP_POLICY),
            found: Mutex::default(),
            noted: Mutex::default(),
        }
    }
}

impl TokenCache {
    pub(super) fn lock_holders(&self) -> MutexGuard<'_, HashMap<TokenHash, TokenHolder>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a use at this time is to be noted, which it then counts as.
    pub(super) fn is_due(&self, token_id: Uuid, now: DateTime<Utc>) -> bool {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = noted.get(&token_id).is_some_and(|at| (now - at).abs() < NOTE_INTERVAL);
        if !recent {
            noted.insert(token_id, now);
        }
        !recent
    }

    /// Forgets revoked tokens, so that the next call with one is looked up.
    pub(crate) fn forget(&self, revoked: &BTreeSet<TokenHash>) {
        let mut found = self.lock_holders();
        for hash in revoked {
            found.remove(hash);
        }
    }
}

/// The holder of a token that was active at its last look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bearer {
    /// The holder. A token never changes its holder, but may be revoked.
    pub(crate) holder: TokenHolder,
    /// The token, if no look-up confirmed it since this call began.
    pub(crate) unconfirmed: Option<TokenHash>,
}

impl Bearer {
    /// A holder whose token was looked up for this call.
    pub(crate) const fn confirmed(holder: TokenHolder) -> Self {
        Self { holder, unconfirmed: None }
    }
}
