//! The newest responses whose data keys are gone. The keyring is a database of its own: a failover
//! may lose its last keys, while the main database keeps the responses.

use std::collections::{BTreeSet, HashSet};

use eventstore::{Upcasters, tail};
use projector::{firms, subjects};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;
use vault::{KeySubject, Keyring, responses};

use crate::error::DeliveryError;

/// The newest responses that are looked at.
const RESPONSES_MAX: i64 = 200;

/// The result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyCoverage {
    /// Responses that the vault has, among the newest of the log.
    pub looked: usize,
    /// Responses among them without a data key.
    pub lost: usize,
}

/// Looks whether the newest responses of the log have data keys.
pub async fn check_newest(pool: &PgPool, keyring: &Keyring) -> Result<KeyCoverage, DeliveryError> {
    let mut connection = pool.acquire().await?;
    let events =
        tail::newest_occurrences(&mut connection, &Upcasters::current(), RESPONSES_MAX).await?;
    let named: HashSet<KeySubject> = events
        .iter()
        .filter_map(|recorded| {
            let subject_id = recorded.event.happening()?.response_id;
            Some(KeySubject { firm_id: recorded.context.firm_id, subject_id })
        })
        .collect();
    let stored: HashSet<KeySubject> =
        responses::sizes(&mut connection, &named).await?.into_keys().collect();
    let asked: Vec<KeySubject> = stored.iter().copied().collect();
    let keys = keyring.find_keys(&asked).await?;
    let without = asked.iter().filter(|subject| !keys.contains_key(subject)).copied().collect();
    // The keys of erased data go before their rows.
    let lost = kept_subjects(&mut connection, without).await?;
    Ok(KeyCoverage { looked: stored.len(), lost: lost.len() })
}

/// The subjects among these that are neither erased nor of a dropped firm.
async fn kept_subjects(
    connection: &mut PgConnection,
    mut asked: Vec<KeySubject>,
) -> Result<Vec<KeySubject>, sqlx::Error> {
    let ids: Vec<(Uuid, Uuid)> = asked.iter().map(KeySubject::ids).collect();
    let erased: HashSet<_> = subjects::erased_among(connection, &ids).await?.into_iter().collect();
    let firm_ids: BTreeSet<Uuid> = ids.iter().map(|(firm_id, _)| *firm_id).collect();
    let firm_ids: Vec<Uuid> = firm_ids.into_iter().collect();
    let known = firms::known_firms(connection, &firm_ids).await?;
    let dropped: HashSet<Uuid> =
        known.into_iter().filter(|firm| firm.is_dropped).map(|firm| firm.firm_id).collect();
    asked.retain(|one| {
        !erased.contains(&(one.firm_id, one.subject_id)) && !dropped.contains(&one.firm_id)
    });
    Ok(asked)
}
