//! The audit log: one entry for each event that an actor may have to answer for, in one chain per
//! firm (cases G1–G7).
//!
//! - An entry is a function of the stored event, its position and its digest, and of nothing else.
//!   An auditor with the log can make every entry again.
//! - An entry's bytes are canonical JSON (RFC 8785) of a versioned shape. An entry's hash covers
//!   these bytes and the hash before.
//! - A [`Deed`] is an entry's content. No entry holds personal data.

pub mod merkle;
pub mod once;

mod chain;
mod checkpoint;
mod deed;
mod entry;
mod feed;
mod hashing;
mod late;
mod period;
mod rotation;
mod segment;
mod series;
mod stored;
mod verification;

pub use chain::{AuditChain, LinkedEntry};
pub use checkpoint::{AuditCheckpoint, ChainHead, OpenBlock, OtherInstallation, Seal};
pub use deed::{
    Action, Deed, EntryParty, SubscriptionOrigin, UNAUDITED_EVENTS, UnknownAction, subscription_in,
};
pub use entry::{AuditEntry, EntrySource};
pub use feed::{FEED_IDLE_MAX, FEED_SESSION_MAX, FeedSession};
pub use hashing::{FORMAT_VERSION, GENESIS_HASH, linked_hash};
pub use late::{EventPlace, LateStatement, LateStatements};
pub use period::{
    AuditPeriod, BackwardPeriod, EntryTime, PeriodStretch, ProvedPeriod, UnprovedPeriod,
};
pub use rotation::{IntactVerification, LogPart, LogRotation, VerificationTimes, VerifiedParts};
pub use segment::{ArchivedBlock, ArchivedFile, SegmentFault, SegmentManifest};
pub use series::{LastSignature, SeriesState, SigningRefusal, is_signature_late};
pub use stored::{StoredEntry, StoredParty};
pub use verification::{
    EndedVerification, NextVerification, RunningVerification, VerificationOutcome,
    VerificationState,
};

#[cfg(test)]
mod tests;
