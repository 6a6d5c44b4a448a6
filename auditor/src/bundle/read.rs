//! Verifies a bundle with nothing but the file, one line at a time.

use std::io::BufRead;

use domain::audit::merkle::{self, Hash, root_by_path};
use domain::audit::{
    AuditPeriod, EntryTime, FORMAT_VERSION, PeriodStretch, ProvedPeriod, linked_hash,
};
use domain::values::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::{BUNDLE_KIND, BundleEntry, BundleHeader, BundleProof, bundle_version};
use crate::error::AuditError;
use crate::flaw::FlawLocation;
use crate::keys::PublicKey;
use crate::verify::{AuditVerdict, VerifyStop, broken_at};

/// The content of a verified bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleReport {
    /// The firm.
    pub firm_id: Uuid,
    /// The sequence of the first entry.
    pub first: u64,
    /// The sequence of the last entry.
    pub last: u64,
    /// The number of entries that the firm had at the signed checkpoint.
    pub of: u64,
    /// Number and time of the signed checkpoint.
    pub checkpoint: (u64, Timestamp),
    /// The key of the signature.
    pub key: PublicKey,
    /// The content of the period, if the bundle names one.
    pub period: Option<ProvedPeriod>,
}

/// Verifies a bundle. The signature must be made with a key of `trusted`; without `trusted`, the
/// bundle's own key is enough.
///
/// # Errors
/// If the file cannot be read.
pub fn verify(
    from: impl BufRead,
    trusted: Option<&[PublicKey]>,
) -> Result<AuditVerdict<BundleReport>, AuditError> {
    match verify_lines(BundleLines { from, number: 0 }, trusted) {
        Ok(report) => Ok(AuditVerdict::Intact(report)),
        Err(VerifyStop::Broken(flaw)) => Ok(AuditVerdict::Broken(flaw)),
        Err(VerifyStop::Unknown(why)) => Ok(AuditVerdict::Incomplete(why)),
        Err(VerifyStop::Failed(error)) => Err(error),
    }
}

fn verify_lines<R: BufRead>(
    mut lines: BundleLines<R>,
    trusted: Option<&[PublicKey]>,
) -> Result<BundleReport, VerifyStop> {
    let header: BundleHeader = lines.parse_next()?;
    if header.bundle != BUNDLE_KIND || ![1, 2].contains(&header.v) {
        return Err(VerifyStop::Unknown("not a bundle of version 1 or 2".to_owned()));
    }
    let period = lines.parse_period(&header)?;
    if header.first == 0 || header.first > header.last {
        return broken_at(FlawLocation::Line { number: 1 }, "no chain has such places");
    }
    let mut last = lines.parse_hash(&header.previous_hash)?;
    if header.first == 1 && last != domain::audit::GENESIS_HASH {
        return broken_at(FlawLocation::Line { number: 1 }, "nothing is before the first entry");
    }
    let mut stretch = PeriodStretch::new(period);
    for sequence in header.first..=header.last {
        let line: BundleEntry = lines.parse_next()?;
        let hash = lines.parse_hash(&line.hash)?;
        stretch.add_entry(EntryTime { sequence, at: check_entry(&header, sequence, &line.entry)? });
        if linked_hash(&last, line.entry.as_bytes()) != hash {
            let why = "its hash is not that of its bytes and the hash before";
            return broken_at(location_of(&header, sequence), why);
        }
        last = hash;
    }
    let proof: BundleProof = lines.parse_next()?;
    lines.expect_end()?;
    let key = follow_proof(&lines, &header, last, &proof)?;
    if trusted.is_some_and(|trusted| !trusted.contains(&key)) {
        let number = proof.signed.checkpoint.number;
        let why = format!("it is signed with the key {}, which is not believed", key.id());
        return broken_at(FlawLocation::Checkpoint { number }, why);
    }
    let checkpoint = (proof.signed.checkpoint.number, proof.signed.checkpoint.at);
    let BundleHeader { firm_id, first, last, .. } = header;
    let of = proof.head.sequence;
    let period = match stretch.into_proved(of) {
        _ if period.is_all() => None,
        Ok(proved) => Some(proved),
        Err(unproved) => return broken_at(FlawLocation::Line { number: 1 }, unproved.to_string()),
    };
    Ok(BundleReport { firm_id, first, last, of, checkpoint, key, period })
}

/// Checks that the bytes are canonical and are the firm's entry with this sequence. Returns the
/// time of the entry.
fn check_entry(header: &BundleHeader, sequence: u64, text: &str) -> Result<Timestamp, VerifyStop> {
    let place = location_of(header, sequence);
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return broken_at(place, "its bytes are not JSON");
    };
    if serde_json_canonicalizer::to_vec(&value).ok().as_deref() != Some(text.as_bytes()) {
        return broken_at(place, "its bytes are not canonical");
    }
    let firm_id = header.firm_id.to_string();
    if value["firm_id"] != firm_id || value["sequence"] != sequence || value["v"] != FORMAT_VERSION
    {
        return broken_at(place, "it is of another firm, place or version");
    }
    match value["at"].as_str().and_then(canonical_time) {
        Some(at) => Ok(at),
        None => broken_at(place, "it has no time"),
    }
}

/// Reads a time in the one form that the service writes.
fn canonical_time(text: &str) -> Option<Timestamp> {
    text.parse().ok().filter(|at: &Timestamp| at.to_string() == text)
}

/// Follows the proof from the last entry over the firm's head to the checkpoint and its signature.
fn follow_proof<R>(
    lines: &BundleLines<R>,
    header: &BundleHeader,
    last: Hash,
    proof: &BundleProof,
) -> Result<PublicKey, VerifyStop> {
    let head = &proof.head;
    let said = &proof.signed.checkpoint;
    let place = FlawLocation::Head { firm_id: head.firm_id };
    if head.firm_id != header.firm_id || header.last > head.sequence {
        return broken_at(place, "it is the head of another chain");
    }
    let entry_path = lines.parse_hashes(&proof.entry_path)?;
    let root = root_by_path(header.last - 1, head.sequence, merkle::leaf_hash(&last), &entry_path);
    let leads_there = root == Some(head.root);
    if !leads_there || (header.last == head.sequence && last != head.hash) {
        return broken_at(place, "the last entry is not in the tree of the firm's entries");
    }
    let number = said.number;
    let head_path = lines.parse_hashes(&proof.head_path)?;
    let heads = root_by_path(proof.head_index, said.firms, head.leaf_hash(), &head_path);
    if heads != Some(said.heads) {
        return broken_at(
            FlawLocation::Checkpoint { number },
            "the head is not in the tree of all heads",
        );
    }
    match proof.signed.verified_key() {
        Some(key) => Ok(key),
        None => broken_at(
            FlawLocation::Checkpoint { number },
            "the signature is not that of its key over what it says",
        ),
    }
}

const fn location_of(header: &BundleHeader, sequence: u64) -> FlawLocation {
    let sequence = sequence.cast_signed();
    FlawLocation::Entry { firm_id: header.firm_id, sequence, position: None }
}

/// Reads the file line by line.
struct BundleLines<R> {
    from: R,
    number: u64,
}

impl<R: BufRead> BundleLines<R> {
    fn next(&mut self) -> Result<Option<Vec<u8>>, VerifyStop> {
        let mut line = Vec::new();
        self.number += 1;
        self.from.read_until(b'\n', &mut line).map_err(AuditError::from)?;
        Ok(if line.pop() == Some(b'\n') { Some(line) } else { None })
    }

    fn parse_next<T: DeserializeOwned>(&mut self) -> Result<T, VerifyStop> {
        let line = self.next()?;
        let line = line.ok_or_else(|| {
            VerifyStop::Unknown(format!("the file ends at line {}, before its proof", self.number))
        })?;
        serde_json::from_slice(&line).or_else(|error| {
            broken_at(
                FlawLocation::Line { number: self.number },
                format!("not what belongs there: {error}"),
            )
        })
    }

    fn expect_end(&mut self) -> Result<(), VerifyStop> {
        let mut more = [0];
        match std::io::Read::read(&mut self.from, &mut more).map_err(AuditError::from)? {
            0 => Ok(()),
            _ => broken_at(
                FlawLocation::Line { number: self.number + 1 },
                "nothing belongs after the proof",
            ),
        }
    }
}

impl<R> BundleLines<R> {
    /// The period that the header names.
    fn parse_period(&self, header: &BundleHeader) -> Result<AuditPeriod, VerifyStop> {
        let place = || FlawLocation::Line { number: self.number };
        let time = |text: &Option<String>| match text.as_deref().map(canonical_time) {
            None => Ok(None),
            Some(Some(at)) => Ok(Some(at)),
            Some(None) => broken_at(place(), "not a time"),
        };
        match AuditPeriod::between(time(&header.since)?, time(&header.until)?) {
            Ok(period) if bundle_version(period) == header.v => Ok(period),
            Ok(_) => broken_at(place(), "its version has no such period"),
            Err(backward) => broken_at(place(), backward.to_string()),
        }
    }

    fn parse_hash(&self, text: &str) -> Result<Hash, VerifyStop> {
        let mut hash = Hash::default();
        match hex::decode_to_slice(text, &mut hash) {
            Ok(()) => Ok(hash),
            Err(_) => broken_at(FlawLocation::Line { number: self.number }, "not a hash"),
        }
    }

    fn parse_hashes(&self, texts: &[String]) -> Result<Vec<Hash>, VerifyStop> {
        texts.iter().map(|text| self.parse_hash(text)).collect()
    }
}
