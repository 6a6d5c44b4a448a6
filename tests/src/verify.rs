//! Compares each event of the log with its digest.

use chrono::{DateTime, Utc};
use domain::values::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sqlx::FromRow;
use uuid::Uuid;

use crate::world::World;

#[derive(FromRow)]
struct Row {
    position: i64,
    aggregate_id: String,
    aggregate_type: String,
    event_type: String,
    event_version: String,
    firm_id: Uuid,
    metadata: Value,
    payload: Value,
    recorded_at: DateTime<Utc>,
    sequence: i64,
    digest: Vec<u8>,
}

impl Row {
    /// By the canonicalizer, whatever the store makes of it.
    fn holds(&self) -> bool {
        let digested = json!({
            "aggregate_id": self.aggregate_id,
            "aggregate_type": self.aggregate_type,
            "event_type": self.event_type,
            "event_version": self.event_version,
            "firm_id": self.firm_id,
            "metadata": self.metadata,
            "payload": self.payload,
            "recorded_at": Timestamp::from(self.recorded_at),
            "sequence": self.sequence,
        });
        let bytes = serde_json_canonicalizer::to_vec(&digested).unwrap();
        Sha256::digest(bytes).as_slice() == self.digest
    }
}

impl World {
    /// The number of events in the log, and the positions of the events that have changed.
    pub async fn verify_log(&self) -> (usize, Vec<i64>) {
        let rows: Vec<Row> = sqlx::query_as(
            "select position, aggregate_id, aggregate_type, event_type, event_version, firm_id,
                    metadata, payload, recorded_at, sequence, digest
               from events order by position",
        )
        .fetch_all(self.pool())
        .await
        .unwrap();
        let broken = rows.iter().filter(|row| !row.holds()).map(|row| row.position).collect();
        (rows.len(), broken)
    }
}
