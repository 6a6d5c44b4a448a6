//! Verifying a bundle: with the file alone, a line at a time.

use std::io::BufRead;

use domain::audit::{VERSION, link};
use domain::merkle::{self, Hash, root_by_path};
use domain::time::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::{Header, KIND, Line, Proof};
use crate::error::AuditError;
use crate::keys::PublicKey;
use crate::verify::{Place, Stop, Verdict, broken};

/// What a bundle proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleReport {
    /// The firm.
    pub firm_id: Uuid,
    /// The first entry in it.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// How many entries the firm had then.
    pub of: u64,
    /// The checkpoint that holds it, and when it was taken.
    pub checkpoint: (u64, Timestamp),
    /// The key it is signed with.
    pub key: PublicKey,
}

/// Verifies a bundle; `trusted` are the keys that are believed, by default the bundle's own.
///
/// # Errors
/// If the file cannot be read.
pub fn verify(
    from: impl BufRead,
    trusted: Option<&[PublicKey]>,
) -> Result<Verdict<BundleReport>, AuditError> {
    match walk(Lines { from, number: 0 }, trusted) {
        Ok(report) => Ok(Verdict::Intact(report)),
        Err(Stop::Broken(flaw)) => Ok(Verdict::Broken(flaw)),
        Err(Stop::Unknown(why)) => Ok(Verdict::Incomplete(why)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

fn walk<R: BufRead>(
    mut lines: Lines<R>,
    trusted: Option<&[PublicKey]>,
) -> Result<BundleReport, Stop> {
    let header: Header = lines.shape()?;
    if header.bundle != KIND || header.v != VERSION {
        return Err(Stop::Unknown(format!("not a bundle of version {VERSION}")));
    }
    if header.first == 0 || header.first > header.last {
        return broken(Place::Line { number: 1 }, "no chain has such places");
    }
    let mut last = lines.hash(&header.previous_hash)?;
    if header.first == 1 && last != domain::audit::BEGINNING {
        return broken(Place::Line { number: 1 }, "nothing is before the first entry");
    }
    for sequence in header.first..=header.last {
        let line: Line = lines.shape()?;
        let hash = lines.hash(&line.hash)?;
        entry(&header, sequence, &line.entry)?;
        if link(&last, line.entry.as_bytes()) != hash {
            let why = "its hash is not that of its bytes and the hash before";
            return broken(place(&header, sequence), why);
        }
        last = hash;
    }
    let proof: Proof = lines.shape()?;
    lines.end()?;
    let key = prove(&lines, (&header, last), &proof)?;
    if trusted.is_some_and(|trusted| !trusted.contains(&key)) {
        let number = proof.signed.checkpoint.number;
        let why = format!("it is signed with the key {}, which is not believed", key.id());
        return broken(Place::Checkpoint { number }, why);
    }
    let checkpoint = (proof.signed.checkpoint.number, proof.signed.checkpoint.at);
    let Header { firm_id, first, last, .. } = header;
    Ok(BundleReport { firm_id, first, last, of: proof.head.sequence, checkpoint, key })
}

/// The bytes are canonical, and are this firm's entry at this place.
fn entry(header: &Header, sequence: u64, text: &str) -> Result<(), Stop> {
    let place = place(header, sequence);
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return broken(place, "its bytes are not JSON");
    };
    if serde_json_canonicalizer::to_vec(&value).ok().as_deref() != Some(text.as_bytes()) {
        return broken(place, "its bytes are not canonical");
    }
    let firm_id = header.firm_id.to_string();
    if value["firm_id"] != firm_id || value["sequence"] != sequence || value["v"] != VERSION {
        return broken(place, "it is of another firm, place or version");
    }
    Ok(())
}

/// From the last entry to the firm's head, from there to the checkpoint, and to its signature.
fn prove<R>(
    lines: &Lines<R>,
    (header, last): (&Header, Hash),
    proof: &Proof,
) -> Result<PublicKey, Stop> {
    let (head, said) = (&proof.head, &proof.signed.checkpoint);
    let place = Place::Head { firm_id: head.firm_id };
    if head.firm_id != header.firm_id || header.last > head.sequence {
        return broken(place, "it is the head of another chain");
    }
    let entry_path = lines.hashes(&proof.entry_path)?;
    let at = (header.last - 1, head.sequence);
    let leads_there = root_by_path(at, merkle::leaf(&last), &entry_path) == Some(head.root);
    if !leads_there || (header.last == head.sequence && last != head.hash) {
        return broken(place, "the last entry is not in the tree of the firm's entries");
    }
    let number = said.number;
    let head_path = lines.hashes(&proof.head_path)?;
    if root_by_path((proof.head_index, said.firms), head.leaf(), &head_path) != Some(said.heads) {
        return broken(Place::Checkpoint { number }, "the head is not in the tree of all heads");
    }
    match proof.signed.verified() {
        Some(key) => Ok(key),
        None => broken(
            Place::Checkpoint { number },
            "the signature is not that of its key over what it says",
        ),
    }
}

const fn place(header: &Header, sequence: u64) -> Place {
    let sequence = sequence.cast_signed();
    Place::Entry { firm_id: header.firm_id, sequence, position: None }
}

/// The file, a line at a time.
struct Lines<R> {
    from: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        let mut line = Vec::new();
        self.number += 1;
        self.from.read_until(b'\n', &mut line).map_err(AuditError::from)?;
        Ok(if line.pop() == Some(b'\n') { Some(line) } else { None })
    }

    fn shape<T: DeserializeOwned>(&mut self) -> Result<T, Stop> {
        let line = self.next()?;
        let line = line.ok_or_else(|| {
            Stop::Unknown(format!("the file ends at line {}, before its proof", self.number))
        })?;
        serde_json::from_slice(&line).or_else(|error| {
            broken(Place::Line { number: self.number }, format!("not what belongs there: {error}"))
        })
    }

    fn end(&mut self) -> Result<(), Stop> {
        let mut more = [0];
        match std::io::Read::read(&mut self.from, &mut more).map_err(AuditError::from)? {
            0 => Ok(()),
            _ => broken(Place::Line { number: self.number + 1 }, "nothing belongs after the proof"),
        }
    }
}

impl<R> Lines<R> {
    fn hash(&self, text: &str) -> Result<Hash, Stop> {
        let mut hash = Hash::default();
        match hex::decode_to_slice(text, &mut hash) {
            Ok(()) => Ok(hash),
            Err(_) => broken(Place::Line { number: self.number }, "not a hash"),
        }
    }

    fn hashes(&self, texts: &[String]) -> Result<Vec<Hash>, Stop> {
        texts.iter().map(|text| self.hash(text)).collect()
    }
}
