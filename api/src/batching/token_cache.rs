//! Who presents a token of the internal door: looked up, with all who present one at the same time, or known
//! from before and asked about again with what is reported.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use eventstore::ConnectionCache;
use projector::tokens::{self, ActiveToken};
use sqlx::PgConnection;

use super::batcher::{BatchFn, BatchPolicy, Batcher, NoAnswer};
use crate::commands::tokens::{TokenHolder, hash, is_token};
use crate::error::Error;
use crate::service::Service;

/// How tokens are looked up. Each look-up begins after the calls it is for: a token that was revoked
/// before a call is refused.
const LOOKUP_POLICY: BatchPolicy = BatchPolicy {
    parallel: 2,
    busy_at: 4,
    linger: None,
    max: 100,
    turn_max: Duration::from_millis(250),
};

/// A token, as nothing but its SHA-256.
pub(crate) type TokenHash = [u8; 32];

/// Where tokens are looked up, and who was found.
pub(crate) struct TokenCache {
    batcher: Arc<Batcher<TokenHash, Result<Option<TokenHolder>, Error>>>,
    /// Those who were active when they were asked about last: never more than operators made.
    found: Mutex<HashMap<TokenHash, TokenHolder>>,
}

impl Default for TokenCache {
    fn default() -> Self {
        Self { batcher: Batcher::new(LOOKUP_POLICY), found: Mutex::default() }
    }
}

impl TokenCache {
    fn found(&self) -> MutexGuard<'_, HashMap<TokenHash, TokenHolder>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever presents one of these is looked up again.
    pub(crate) fn forget(&self, revoked: &BTreeSet<TokenHash>) {
        let mut found = self.found();
        for hash in revoked {
            found.remove(hash);
        }
    }
}

/// Who presents a token that was active when it was asked about last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bearer {
    /// Who it was made for. A token's holder never changes; it may be revoked.
    pub(crate) holder: TokenHolder,
    /// The token, if it was not asked about since this call began.
    pub(crate) unconfirmed: Option<TokenHash>,
}

impl Bearer {
    /// Who was asked about for this call.
    pub(crate) const fn confirmed(holder: TokenHolder) -> Self {
        Self { holder, unconfirmed: None }
    }
}

/// The holder of this token, unless it is unknown or revoked. What does not have the form of a
/// token is not looked up.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn authenticate(
    service: &Service,
    token: &str,
) -> Result<Option<TokenHolder>, Error> {
    if is_token(token) { look_up(service, hash(token)).await } else { Ok(None) }
}

/// The same, but who was found before is not looked up: that is for [`confirm`], or for the transaction
/// that does what is asked.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn authenticate_cached(
    service: &Service,
    token: &str,
) -> Result<Option<Bearer>, Error> {
    if !is_token(token) {
        return Ok(None);
    }
    let hash = hash(token);
    let found = service.batchers.tokens.found().get(&hash).copied();
    if let Some(holder) = found {
        return Ok(Some(Bearer { holder, unconfirmed: Some(hash) }));
    }
    let holder = look_up(service, hash).await?;
    Ok(holder.map(Bearer::confirmed))
}

/// Looks up who was found before.
///
/// # Errors
/// `unauthorized` for a token that was revoked since; or if the database does not answer.
pub(crate) async fn confirm(service: &Service, presented: Bearer) -> Result<(), Error> {
    let Some(hash) = presented.unconfirmed else {
        return Ok(());
    };
    look_up(service, hash).await?.map(drop).ok_or(Error::NoToken)
}

/// Those of these tokens that are not active any more: asked in a transaction that does what is asked for.
///
/// # Errors
/// If the database does not answer.
pub(crate) async fn revoked(
    connection: &mut PgConnection,
    mut presented: BTreeSet<TokenHash>,
) -> Result<BTreeSet<TokenHash>, sqlx::Error> {
    if presented.is_empty() {
        return Ok(presented);
    }
    let asked: Vec<TokenHash> = presented.iter().copied().collect();
    for active in tokens::authenticate(connection, &asked).await? {
        presented.remove(active.sha256.as_slice());
    }
    Ok(presented)
}

/// Together with all who are looked up at the same time.
async fn look_up(service: &Service, hash: TokenHash) -> Result<Option<TokenHolder>, Error> {
    let connections = service.intake.connections().clone();
    let look_up: BatchFn<_, _> = Arc::new(move |presented| {
        let connections = connections.clone();
        Box::pin(async move { holders(&connections, presented).await })
    });
    let asked = service.batchers.tokens.batcher.ask(hash, look_up).await;
    let holder =
        asked.unwrap_or_else(|NoAnswer| Err(Error::Unavailable("a look-up broke down".into())))?;
    let mut found = service.batchers.tokens.found();
    match holder {
        Some(holder) => found.insert(hash, holder),
        None => found.remove(&hash),
    };
    Ok(holder)
}

/// The holder of each of these.
async fn holders(
    connections: &ConnectionCache,
    presented: Vec<TokenHash>,
) -> Vec<Result<Option<TokenHolder>, Error>> {
    let distinct: Vec<TokenHash> =
        presented.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let active = match active(connections, &distinct).await {
        Ok(active) => active,
        Err(error) => {
            let error = Error::from(error);
            return presented.iter().map(|_| Err(error.clone())).collect();
        }
    };
    let holder = |hash: &TokenHash| {
        let found = active.iter().find(|token| token.sha256 == hash);
        found.map(TokenHolder::of).transpose()
    };
    presented.iter().map(holder).collect()
}

async fn active(
    connections: &ConnectionCache,
    presented: &[TokenHash],
) -> Result<Vec<ActiveToken>, sqlx::Error> {
    let mut connection = connections.take().await?;
    let active = tokens::authenticate(&mut connection, presented).await?;
    connections.give_back(connection);
    Ok(active)
}
