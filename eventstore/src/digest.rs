//! The digest of an event: SHA-256 over its canonical bytes (RFC 8785).

use chrono::{DateTime, Utc};
use domain::time::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// What is digested: every column of the row but its position.
#[derive(Debug, Serialize)]
pub struct Digested<'a> {
    /// The stream.
    pub aggregate_id: &'a str,
    /// What kind of stream it is.
    pub aggregate_type: &'a str,
    /// The id.
    pub event_id: Uuid,
    /// The name of what happened.
    pub event_type: &'a str,
    /// Which shape of it.
    pub event_version: &'a str,
    /// Whose it is.
    pub firm_id: Uuid,
    /// Who did it, and why.
    pub metadata: &'a Value,
    /// What happened.
    pub payload: &'a Value,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// Its place in the stream.
    pub sequence: i64,
}

/// SHA-256 over the canonical bytes of an event as it is stored.
///
/// # Errors
/// If the event cannot be written as canonical JSON, which no event of ours is.
pub fn digest(event: &Digested<'_>) -> serde_json::Result<[u8; 32]> {
    let bytes = serde_json_canonicalizer::to_vec(event)?;
    Ok(Sha256::digest(bytes).into())
}

/// Whole milliseconds: what the API shows is what the log keeps and what was digested.
pub(crate) fn to_timestamp(at: DateTime<Utc>) -> Timestamp {
    Timestamp::from(at)
}
