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
    pub(crate) aggregate_id: &'a str,
    pub(crate) aggregate_type: &'a str,
    pub(crate) event_id: Uuid,
    pub(crate) event_type: &'a str,
    pub(crate) event_version: &'a str,
    pub(crate) firm_id: Uuid,
    pub(crate) metadata: &'a Value,
    pub(crate) payload: &'a Value,
    pub(crate) recorded_at: Timestamp,
    pub(crate) sequence: i64,
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
