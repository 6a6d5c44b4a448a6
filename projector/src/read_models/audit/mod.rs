//! The audit log: an entry for each accountable event, in a chain per firm without gaps. One
//! process at a time follows the log, so no two entries compete for one place (case G6). An entry
//! is never changed (case G1).

mod chains;
mod placed;
mod questions;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use domain::audit::merkle::Hash;
use domain::audit::{AuditChain, AuditEntry, LinkedEntry, StoredEntry, UNAUDITED_EVENTS};
use eventstore::tail::TailError;
use eventstore::worker::WakeOn;
use eventstore::{RecordedEvent, proof};
use futures::future::BoxFuture;
use sqlx::types::JsonValue;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::follow::Projection;

pub use chains::{
    ComparedHead, GrownChain, HeadRow, chain_ends, compared_heads_after, grown_after, heads_after,
};
pub use placed::{PlacedEntry, placed_entries};
pub use questions::{
    AuditFilter, ChainHash, ChainSpan, OperatorSeen, by_hash, count_entries, count_firms, find_at,
    find_at_all, find_span, followed_to, hashes_after, last_position, list_after, list_entries,
    list_from, list_hashes, list_operators, list_span, of_subject, position_of_event, proving_span,
    sequences_at, sign_ins,
};

/// The writer of the audit log.
pub struct AuditLog;

impl Projection for AuditLog {
    const NAME: &'static str = "audit_log";
    const WAKES: WakeOn = WakeOn::OtherEvents;
    const PASSES: &'static [&'static str] = &UNAUDITED_EVENTS;

    fn apply_batch<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let late = proof::late_statements(connection).await?;
            let placed = placed_entries(connection, events, &late).await;
            let placed = placed.map_err(|error| match error {
                TailError::Database(error) => error,
                unreadable @ TailError::Unreadable { .. } => {
                    sqlx::Error::Decode(Box::new(unreadable))
                }
            })?;
            let entries = without_present(connection, placed).await?;
            if entries.is_empty() {
                return Ok(());
            }
            let firms: BTreeSet<Uuid> = entries.iter().map(|entry| entry.firm_id).collect();
            let mut chains = chains::load_chains(connection, &firms).await?;
            let rows = link_entries(&entries, &mut chains);
            insert_entries(connection, &rows).await?;
            chains::keep_chains(connection, &chains).await
        })
    }
}

/// A row of the audit log: the hashed bytes, with their content in columns.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct EntryRow {
    /// The firm of the chain.
    pub firm_id: Uuid,
    /// The place in the chain, from 1.
    pub sequence: i64,
    /// The position of the event.
    pub position: i64,
    /// The time at which the event was recorded.
    pub at: DateTime<Utc>,
    /// The action.
    pub action: String,
    /// The kind of the actor.
    pub actor_kind: String,
    /// The id of the actor.
    pub actor_id: Option<String>,
    /// The kind of the subject.
    pub subject_kind: String,
    /// The id of the subject.
    pub subject_id: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// The evidence.
    pub evidence: JsonValue,
    /// The canonical bytes.
    pub entry: Vec<u8>,
    /// The hash of the entry before.
    pub previous_hash: Hash,
    /// The hash of this entry.
    pub hash: Hash,
}

impl EntryRow {
    /// Makes the row of a linked entry.
    #[must_use]
    pub fn new(entry: &AuditEntry, linked: LinkedEntry) -> Self {
        let deed = &entry.deed;
        Self {
            firm_id: entry.firm_id,
            sequence: linked.sequence.cast_signed(),
            position: entry.position,
            at: entry.at.get(),
            action: deed.action.name().to_owned(),
            actor_kind: entry.actor.kind.to_owned(),
            actor_id: entry.actor.id.clone(),
            subject_kind: deed.subject.kind.to_owned(),
            subject_id: deed.subject.id.clone(),
            reason: deed.reason.clone(),
            evidence: deed.evidence.clone(),
            entry: linked.canonical,
            previous_hash: linked.previous,
            hash: linked.hash,
        }
    }

    /// Makes the row of an entry that is known by its bytes alone. `said` is what the bytes say.
    #[must_use]
    pub fn of_bytes(said: StoredEntry, linked: LinkedEntry) -> Self {
        Self {
            firm_id: said.firm_id,
            sequence: linked.sequence.cast_signed(),
            position: said.position,
            at: said.at.get(),
            action: said.action,
            actor_kind: said.actor.kind,
            actor_id: said.actor.id,
            subject_kind: said.subject.kind,
            subject_id: said.subject.id,
            reason: said.reason,
            evidence: said.evidence,
            entry: linked.canonical,
            previous_hash: linked.previous,
            hash: linked.hash,
        }
    }
}

/// Drops late entries that the chain has. A statement about one that was never missing is wrong,
/// and the verification says so. It must not stop the follower.
async fn without_present(
    connection: &mut PgConnection,
    placed: Vec<PlacedEntry>,
) -> Result<Vec<AuditEntry>, sqlx::Error> {
    let late = placed.iter().filter(|placed| placed.is_late());
    let late: Vec<i64> = late.map(|placed| placed.entry.position).collect();
    let present =
        if late.is_empty() { Vec::new() } else { present_positions(connection, &late).await? };
    let is_present =
        |placed: &PlacedEntry| placed.is_late() && present.contains(&placed.entry.position);
    let entries = placed.into_iter().filter(|placed| !is_present(placed));
    Ok(entries.map(|placed| placed.entry).collect())
}

/// Finds the positions among these whose events have an entry.
async fn present_positions(
    connection: &mut PgConnection,
    positions: &[i64],
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar("select position from audit_log where position = any($1)")
        .bind(positions)
        .fetch_all(connection)
        .await
}

/// Links each entry to its firm's chain.
fn link_entries(entries: &[AuditEntry], chains: &mut BTreeMap<Uuid, AuditChain>) -> Vec<EntryRow> {
    let link = |entry: &AuditEntry| {
        let linked = chains.entry(entry.firm_id).or_default().add_entry(entry);
        EntryRow::new(entry, linked)
    };
    entries.iter().map(link).collect()
}

async fn insert_entries(
    connection: &mut PgConnection,
    rows: &[EntryRow],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into audit_log (firm_id, sequence, position, at, action, actor_kind, actor_id,
                                subject_kind, subject_id, reason, evidence, entry, previous_hash,
                                hash)
         select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::timestamptz[],
                              $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                              $10::text[], $11::jsonb[], $12::bytea[], $13::bytea[],
                              $14::bytea[])",
    )
    .bind(rows.iter().map(|row| row.firm_id).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.sequence).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.position).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.at).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.action.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.actor_kind.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.actor_id.as_deref()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.subject_kind.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.subject_id.as_deref()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.reason.as_deref()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| &row.evidence).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.entry.as_slice()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.previous_hash).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.hash).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}
