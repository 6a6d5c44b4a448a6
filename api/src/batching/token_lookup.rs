//! Bearer tokens of the internal API. A token is looked up in a batch with other tokens. A holder
//! that was found before is remembered, and the transaction of the call confirms the token.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use eventstore::ConnectionCache;
use projector::tokens::{self, ActiveToken};
use sqlx::PgConnection;

use super::batcher::{BatchFn, NoAnswer};
use super::token_cache::{Bearer, TokenHash};
use crate::error::Error;
use crate::service::Service;
use crate::token_holder::{TokenHolder, hash_token, is_token};

/// The holder of a token, or `None` if the token is unknown or revoked. A text without the form of
/// a token is not looked up.
pub(crate) async fn authenticate(
    service: &Service,
    token: &str,
) -> Result<Option<TokenHolder>, Error> {
    if !is_token(token) {
        return Ok(None);
    }
    authenticate_hash(service, hash_token(token)).await
}

/// Like [`authenticate`], for a session that knows the SHA-256 of its token.
pub(crate) async fn authenticate_hash(
    service: &Service,
    hash: TokenHash,
) -> Result<Option<TokenHolder>, Error> {
    let holder = look_up(service, hash).await?;
    if let Some(holder) = &holder {
        note_use(service, holder).await;
    }
    Ok(holder)
}

/// Notes that a token is used. A use that could not be noted is no reason to refuse the call.
async fn note_use(service: &Service, holder: &TokenHolder) {
    let now = service.clock.now().get();
    if !service.admission.batchers.tokens.is_due(holder.token_id, now) {
        return;
    }
    if let Err(error) = tokens::note_use(service.store.pool(), holder.token_id, now).await {
        tracing::warn!(%error, "the use of a token could not be noted");
    }
}

/// Like [`authenticate`], but a remembered holder is not looked up. [`confirm`] or the transaction
/// of the call must confirm the token.
pub(crate) async fn authenticate_cached(
    service: &Service,
    token: &str,
) -> Result<Option<Bearer>, Error> {
    if !is_token(token) {
        return Ok(None);
    }
    let hash = hash_token(token);
    let found = service.admission.batchers.tokens.lock_holders().get(&hash).cloned();
    if let Some(holder) = found {
        note_use(service, &holder).await;
        return Ok(Some(Bearer { holder, unconfirmed: Some(hash) }));
    }
    Ok(authenticate(service, token).await?.map(Bearer::confirmed))
}

/// Looks up a token that only the cache vouches for.
///
/// # Errors
/// `unauthorized` for a token that was revoked since; or if the database does not answer.
pub(crate) async fn confirm(service: &Service, presented: &Bearer) -> Result<(), Error> {
    let Some(hash) = presented.unconfirmed else {
        return Ok(());
    };
    look_up(service, hash).await?.map(drop).ok_or(Error::NoToken)
}

/// Tokens among these that are not active any more, as seen by the transaction of the call.
pub(crate) async fn find_revoked(
    connection: &mut PgConnection,
    mut presented: BTreeSet<TokenHash>,
    now: DateTime<Utc>,
) -> Result<BTreeSet<TokenHash>, sqlx::Error> {
    if presented.is_empty() {
        return Ok(presented);
    }
    let asked: Vec<TokenHash> = presented.iter().copied().collect();
    for active in tokens::authenticate(connection, &asked, now).await? {
        presented.remove(active.sha256.as_slice());
    }
    Ok(presented)
}

/// Returns whether a token was active at its last look-up. A token that this process never met is
/// looked up. While the database is away, a revocation is not known.
pub(crate) async fn was_active(service: &Service, token: &str) -> bool {
    if !is_token(token) {
        return false;
    }
    let hash = hash_token(token);
    let is_remembered = service.admission.batchers.tokens.lock_holders().contains_key(&hash);
    is_remembered || matches!(look_up(service, hash).await, Ok(Some(_)))
}

/// Looks a token up, in a batch with other tokens. This is no use of the token.
pub(crate) async fn look_up(
    service: &Service,
    hash: TokenHash,
) -> Result<Option<TokenHolder>, Error> {
    let connections = service.pools.intake.connections().clone();
    let clock = service.clock.clone();
    let look_up: BatchFn<_, _> = Arc::new(move |presented| {
        let connections = connections.clone();
        let now = clock.now().get();
        Box::pin(async move { find_holders(&connections, presented, now).await })
    });
    let asked = service.admission.batchers.tokens.batcher.ask(hash, look_up).await;
    let holder =
        asked.unwrap_or_else(|NoAnswer| Err(Error::Unavailable("a look-up broke down".into())))?;
    let mut found = service.admission.batchers.tokens.lock_holders();
    match &holder {
        Some(holder) => found.insert(hash, holder.clone()),
        None => found.remove(&hash),
    };
    Ok(holder)
}

/// The holder of each token.
async fn find_holders(
    connections: &ConnectionCache,
    presented: Vec<TokenHash>,
    now: DateTime<Utc>,
) -> Vec<Result<Option<TokenHolder>, Error>> {
    let distinct: Vec<TokenHash> =
        presented.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let active = match read_active(connections, &distinct, now).await {
        Ok(active) => active,
        Err(error) => {
            let error = Error::from(error);
            return presented.iter().map(|_| Err(error.clone())).collect();
        }
    };
    let holder = |hash: &TokenHash| {
        let found = active.iter().find(|token| token.sha256 == hash);
        found.map(TokenHolder::new).transpose()
    };
    presented.iter().map(holder).collect()
}

async fn read_active(
    connections: &ConnectionCache,
    presented: &[TokenHash],
    now: DateTime<Utc>,
) -> Result<Vec<ActiveToken>, sqlx::Error> {
    let mut connection = connections.take().await?;
    let active = tokens::authenticate(&mut connection, presented, now).await?;
    connections.give_back(connection);
    Ok(active)
}
