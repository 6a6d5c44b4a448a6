//! A stored event is a row of the log, before it is decoded.
//!
//! [`StoredEvent::read_event`] decodes the row, by way of the upcasters.
//! [`StoredEvent::into_checked`] computes the digest of the row again. The row's columns and the
//! statement that reads them are here too, because [`StoredEvent::new`] reads columns by number.

use chrono::{DateTime, Utc};
use cqrs_es::persist::SerializedEvent;
use domain::aggregate::event_id;
use domain::event::{Event, EventContext};
use domain::values::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use uuid::Uuid;

use crate::digest::{DigestInput, canonical_event, canonical_json, to_timestamp};
use crate::error::TailError;
use crate::event::RecordedEvent;
use crate::upcast::Upcasters;

/// The columns of a [`StoredEvent`], in its order.
macro_rules! columns {
    () => {
        "position, aggregate_type, aggregate_id, sequence, event_type, event_version,
         payload, metadata, firm_id, recorded_at, digest "
    };
}
pub(crate) use columns;

/// The statement that reads the [`StoredEvent`]s that meet this condition.
macro_rules! events_where {
    ($condition:literal) => {
        concat!("select ", $crate::stored_event::columns!(), "from events where ", $condition)
    };
}
pub(crate) use events_where;

/// An event in the form of a row. Decoding copies nothing before the event is read.
pub(crate) struct StoredEvent<'r> {
    position: i64,
    aggregate_type: &'r str,
    aggregate_id: &'r str,
    sequence: i64,
    event_type: &'r str,
    event_version: &'r str,
    payload: &'r RawValue,
    metadata: &'r RawValue,
    firm_id: Uuid,
    recorded_at: DateTime<Utc>,
    digest: &'r [u8],
}

/// An event of an archive: the columns that a digest covers, as their canonical bytes have them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArchivedRow {
    pub(crate) aggregate_id: String,
    pub(crate) aggregate_type: String,
    pub(crate) event_type: String,
    pub(crate) event_version: String,
    pub(crate) firm_id: Uuid,
    pub(crate) metadata: Box<RawValue>,
    pub(crate) payload: Box<RawValue>,
    pub(crate) recorded_at: Timestamp,
    pub(crate) sequence: i64,
    /// SHA-256 over the bytes.
    #[serde(skip)]
    pub(crate) digest: [u8; 32],
}

impl ArchivedRow {
    /// Parses canonical bytes.
    pub(crate) fn parse(canonical: &str) -> Result<Self, String> {
        let row: Self = serde_json::from_str(canonical).map_err(|error| error.to_string())?;
        Ok(Self { digest: Sha256::digest(canonical).into(), ..row })
    }

    /// The row that the event had at this position.
    pub(crate) fn as_stored(&self, position: i64) -> StoredEvent<'_> {
        StoredEvent {
            position,
            aggregate_type: &self.aggregate_type,
            aggregate_id: &self.aggregate_id,
            sequence: self.sequence,
            event_type: &self.event_type,
            event_version: &self.event_version,
            payload: &self.payload,
            metadata: &self.metadata,
            firm_id: self.firm_id,
            recorded_at: self.recorded_at.get(),
            digest: &self.digest,
        }
    }
}

/// An event whose digest was computed again.
#[derive(Debug)]
pub struct CheckedEvent {
    /// The position in the log.
    pub position: i64,
    /// The firm of the event.
    pub firm_id: Uuid,
    /// The id of the event.
    pub event_id: Uuid,
    /// The stored digest. `None` if it is not the computed one.
    pub digest: Option<[u8; 32]>,
    /// The event, or an error if this build cannot read the event.
    pub event: Result<RecordedEvent, TailError>,
}

/// An event as the bytes that its digest covers.
#[derive(Debug)]
pub struct CanonicalEvent {
    /// The position in the log.
    pub position: i64,
    /// The id of the stream.
    pub aggregate_id: String,
    /// The time at which the event was recorded.
    pub recorded_at: Timestamp,
    /// The digest, and the bytes that it covers. `None` if the stored digest is another one.
    pub content: Option<([u8; 32], Vec<u8>)>,
}

impl<'r> StoredEvent<'r> {
    /// Reads columns by number. Names would be looked up in each of thousands of rows.
    pub(crate) fn new(row: &'r PgRow) -> Result<Self, sqlx::Error> {
        let Json(payload) = row.try_get(6)?;
        let Json(metadata) = row.try_get(7)?;
        Ok(Self {
            position: row.try_get(0)?,
            aggregate_type: row.try_get(1)?,
            aggregate_id: row.try_get(2)?,
            sequence: row.try_get(3)?,
            event_type: row.try_get(4)?,
            event_version: row.try_get(5)?,
            payload,
            metadata,
            firm_id: row.try_get(8)?,
            recorded_at: row.try_get(9)?,
            digest: row.try_get(10)?,
        })
    }

    /// Computes the digest again, and reads the event.
    pub(crate) fn into_checked(self, upcasters: &Upcasters) -> CheckedEvent {
        let digest = self.covered_content().map(|(digest, _)| digest);
        CheckedEvent {
            position: self.position,
            firm_id: self.firm_id,
            event_id: event_id(self.aggregate_type, self.aggregate_id, self.sequence),
            digest,
            event: self.read_event(upcasters),
        }
    }

    /// Returns the event as the bytes that its digest covers.
    pub(crate) fn into_canonical(self) -> CanonicalEvent {
        CanonicalEvent {
            position: self.position,
            aggregate_id: self.aggregate_id.to_owned(),
            recorded_at: to_timestamp(self.recorded_at),
            content: self.covered_content(),
        }
    }

    /// Returns the stored digest with the bytes that it covers, if it covers the whole row.
    fn covered_content(&self) -> Option<([u8; 32], Vec<u8>)> {
        // The digest covers whole milliseconds and JSON values. Any other part of a row could be
        // changed without a change of its digest.
        let has_whole_millis = self.recorded_at.timestamp_subsec_nanos().is_multiple_of(1_000_000);
        if !has_whole_millis || !self.is_canonical().unwrap_or_default() {
            return None;
        }
        let bytes = self.canonical_bytes().ok()?;
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        (digest == self.digest).then_some((digest, bytes))
    }

    /// Returns whether the stored bytes are canonical. The digest covers the values, and several
    /// texts can have the same values.
    fn is_canonical(&self) -> serde_json::Result<bool> {
        let is_canonical =
            |json: &RawValue| Ok(canonical_json(&json_value(json)?)?.get() == json.get());
        Ok(is_canonical(self.payload)? && is_canonical(self.metadata)?)
    }

    /// Returns the stored values as canonical JSON.
    fn canonical_bytes(&self) -> serde_json::Result<Vec<u8>> {
        canonical_event(&DigestInput {
            aggregate_id: self.aggregate_id,
            aggregate_type: self.aggregate_type,
            event_type: self.event_type,
            event_version: self.event_version,
            firm_id: self.firm_id,
            metadata: &canonical_json(&json_value(self.metadata)?)?,
            payload: &canonical_json(&json_value(self.payload)?)?,
            recorded_at: to_timestamp(self.recorded_at),
            sequence: self.sequence,
        })
    }

    pub(crate) fn read_event(self, upcasters: &Upcasters) -> Result<RecordedEvent, TailError> {
        let position = self.position;
        self.try_read(upcasters).map_err(|why| TailError::Unreadable { position, why })
    }

    fn try_read(self, upcasters: &Upcasters) -> Result<RecordedEvent, String> {
        let event = self.upcast_event(upcasters)?;
        let context = EventContext::from_metadata(
            self.firm_id,
            to_timestamp(self.recorded_at),
            self.metadata,
        )
        .map_err(|error| error.to_string())?;
        let digest = self.digest.try_into().map_err(|_| "not a digest".to_owned())?;
        Ok(RecordedEvent {
            position: self.position,
            digest,
            aggregate_id: self.aggregate_id.to_owned(),
            sequence: self.sequence,
            event,
            context,
        })
    }

    /// Reads an event of the version that this build writes. Another version may have this shape by
    /// chance, and another meaning.
    fn read_newest(&self) -> Result<Event, String> {
        let event = Event::from_payload(self.aggregate_type, self.event_type, self.payload)
            .map_err(|error| error.to_string())?;
        if event.version() == self.event_version {
            return Ok(event);
        }
        Err(format!("unknown version `{}` of `{}`", self.event_version, self.event_type))
    }

    fn upcast_event(&self, upcasters: &Upcasters) -> Result<Event, String> {
        let of = self.aggregate_type;
        let name = self.event_type;
        if !upcasters.reads_version(name, self.event_version) {
            return self.read_newest();
        }
        let unreadable = |error: serde_json::Error| error.to_string();
        let stored = upcasters.apply_all(SerializedEvent::new(
            self.aggregate_id.to_owned(),
            usize::try_from(self.sequence).map_err(|error| error.to_string())?,
            of.to_owned(),
            name.to_owned(),
            self.event_version.to_owned(),
            json_value(self.payload).map_err(unreadable)?,
            json_value(self.metadata).map_err(unreadable)?,
        ));
        Event::from_payload(&stored.aggregate_type, &stored.event_type, stored.payload)
            .map_err(|error| error.to_string())
    }
}

fn json_value(json: &RawValue) -> serde_json::Result<Value> {
    serde_json::from_str(json.get())
}
