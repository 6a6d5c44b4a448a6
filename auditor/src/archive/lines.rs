//! The lines of a block, and the records of an index.

use std::collections::BTreeSet;
use std::io::{Read, Write};

use domain::audit::merkle::{Hash, MerkleFrontier};
use domain::audit::{Seal, SegmentManifest};
use domain::values::Timestamp;
use eventstore::proof::check_archived;
use eventstore::{RecordedEvent, Upcasters};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::AuditError;

/// Bytes of a record of the index.
const RECORD_BYTES: usize = 24;

/// The largest block that is read. A block of 1,024 events has about a megabyte.
const BLOCK_BYTES_MAX: u64 = 256 << 20;

/// An event of the archive.
#[derive(Debug, Clone)]
pub struct ArchivedEvent {
    /// The position in the log.
    pub position: i64,
    /// The event as the digest covers it.
    pub event: Box<RawValue>,
    pub(super) columns: EventColumns,
}

/// The columns by which events are chosen.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct EventColumns {
    pub(super) aggregate_id: String,
    pub(super) event_type: String,
    pub(super) firm_id: Uuid,
    pub(super) recorded_at: Timestamp,
}

#[derive(Deserialize)]
struct Line {
    position: i64,
    event: Box<RawValue>,
}

impl ArchivedEvent {
    /// The event, or an error if this build cannot read it.
    pub fn recorded(&self) -> Result<RecordedEvent, AuditError> {
        let checked = check_archived(self.position, self.event.get(), &Upcasters::current());
        let number = SegmentManifest::holding(self.position);
        let (_, checked) = checked.map_err(|why| AuditError::in_segment(number, None, why))?;
        Ok(checked.event?)
    }

    /// The digest of the event.
    pub(super) fn digest(&self) -> Hash {
        Sha256::digest(self.event.get()).into()
    }
}

/// The line of an event.
pub(super) fn event_line(position: i64, event: &[u8]) -> Vec<u8> {
    let mut line = format!("{{\"position\":{position},\"event\":").into_bytes();
    line.extend_from_slice(event);
    line.extend_from_slice(b"}\n");
    line
}

/// Compresses the lines of a block. The same lines always make the same bytes.
pub(super) fn compress(lines: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut member = GzEncoder::new(Vec::new(), Compression::default());
    member.write_all(lines)?;
    member.finish()
}

/// Reads the events of a compressed block. Refuses any byte that no writer of ours has written.
pub(super) fn read_block(compressed: &[u8]) -> Result<Vec<ArchivedEvent>, String> {
    let mut lines = Vec::new();
    let mut plain = GzDecoder::new(compressed).take(BLOCK_BYTES_MAX);
    plain.read_to_end(&mut lines).map_err(|error| error.to_string())?;
    let mut events = Vec::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let no_event = |error: serde_json::Error| format!("a line is no event: {error}");
        let Line { position, event } = serde_json::from_slice(line).map_err(no_event)?;
        if event_line(position, event.get().as_bytes()) != line {
            return Err(format!("the line of position {position} is not in our form"));
        }
        let columns = serde_json::from_str(event.get()).map_err(no_event)?;
        events.push(ArchivedEvent { position, event, columns });
    }
    Ok(events)
}

/// The tree over a block's events. Refuses events of other blocks, and a wrong order.
pub(super) fn block_tree(number: i64, events: &[ArchivedEvent]) -> Result<MerkleFrontier, String> {
    let mut tree = MerkleFrontier::default();
    let mut after = (number - 1) * Seal::POSITIONS_PER_BLOCK;
    for event in events {
        if event.position <= after || event.position > number * Seal::POSITIONS_PER_BLOCK {
            return Err(format!("position {} is out of its order or block", event.position));
        }
        after = event.position;
        tree.push_leaf(Seal::event_leaf(event.position, &event.digest()));
    }
    Ok(tree)
}

/// The key of a stream in an index: its id as a UUID, or the first half of the SHA-256 of an id
/// that is none.
pub(super) fn stream_key(aggregate_id: &str) -> [u8; 16] {
    let hashed = || {
        let mut key = [0; 16];
        key.copy_from_slice(&Sha256::digest(aggregate_id)[..16]);
        key
    };
    Uuid::try_parse(aggregate_id).map_or_else(|_| hashed(), Uuid::into_bytes)
}

/// The index of a segment, as it grows.
#[derive(Debug, Default)]
pub(super) struct IndexRecords(BTreeSet<[u8; RECORD_BYTES]>);

impl IndexRecords {
    pub(super) fn add(&mut self, aggregate_id: &str, block: i64) {
        let mut record = [0; RECORD_BYTES];
        record[..16].copy_from_slice(&stream_key(aggregate_id));
        record[16..].copy_from_slice(&block.to_be_bytes());
        self.0.insert(record);
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flatten().copied().collect()
    }
}

/// What a segment's manifest says of its events, as far as they were read or written.
#[derive(Default)]
pub(super) struct SegmentContent {
    pub(super) hasher: Sha256,
    pub(super) index: IndexRecords,
    pub(super) first_at: Option<Timestamp>,
    pub(super) last_at: Option<Timestamp>,
}

impl SegmentContent {
    /// Adds an event of this block.
    pub(super) fn add_event(&mut self, aggregate_id: &str, recorded_at: Timestamp, block: i64) {
        self.index.add(aggregate_id, block);
        self.first_at = Some(self.first_at.map_or(recorded_at, |first| first.min(recorded_at)));
        self.last_at = self.last_at.max(Some(recorded_at));
    }
}

/// The blocks of a stream, by the sorted records of an index.
pub(super) fn blocks_of(index: &[u8], key: [u8; 16]) -> Vec<i64> {
    let (records, _) = index.as_chunks::<RECORD_BYTES>();
    let first = records.partition_point(|record| record[..16] < key[..]);
    let mine = records[first..].iter().take_while(|record| record[..16] == key[..]);
    mine.map(|record| {
        let mut number = [0; 8];
        number.copy_from_slice(&record[16..]);
        i64::from_be_bytes(number)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns of an event that the archive knows.
    fn event(aggregate_id: &str) -> String {
        format!(
            r#"{{"aggregate_id":"{aggregate_id}","event_type":"Tried","firm_id":"{}","recorded_at":"2026-11-01T12:00:00.000Z"}}"#,
            Uuid::nil()
        )
    }

    #[test]
    fn a_block_reads_as_it_was_written() {
        let line = |position, id| event_line(position, event(id).as_bytes());
        let lines = [line(1_025, "a"), line(1_030, "b")].concat();
        let events = read_block(&compress(&lines).unwrap()).unwrap();
        assert_eq!(events[1].event.get(), event("b"));
        assert_eq!(events[1].columns.aggregate_id, "b");
        assert_eq!(block_tree(2, &events).unwrap().size(), 2);
        assert!(block_tree(1, &events).is_err(), "another block");
        let turned = [events[1].clone(), events[0].clone()];
        assert!(block_tree(2, &turned).is_err(), "another order");
        assert!(read_block(&compress(b"").unwrap()).unwrap().is_empty());
    }

    #[test]
    fn a_line_in_another_form_is_refused() {
        let ours = String::from_utf8(event_line(1, event("a").as_bytes())).unwrap();
        assert!(read_block(&compress(ours.as_bytes()).unwrap()).is_ok());
        let spaced = ours.replace(":1,", ": 1,");
        for line in [spaced.as_str(), ours.trim_end(), "{\"position\":1,\"event\":{}}\n", "\n"] {
            assert!(read_block(&compress(line.as_bytes()).unwrap()).is_err(), "{line}");
        }
    }

    #[test]
    fn an_index_finds_a_streams_blocks() {
        let mut records = IndexRecords::default();
        let id = Uuid::from_u128(7).to_string();
        for block in [300, 2, 2] {
            records.add(&id, block);
            records.add("no UUID", block + 1);
        }
        let bytes = records.to_bytes();
        assert_eq!(bytes.len(), 4 * RECORD_BYTES);
        assert_eq!(blocks_of(&bytes, stream_key(&id)), [2, 300]);
        assert_eq!(blocks_of(&bytes, stream_key("no UUID")), [3, 301]);
        assert!(blocks_of(&bytes, [9; 16]).is_empty());
    }
}
