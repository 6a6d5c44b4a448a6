//! Claim: leases rows, numbers the attempts, and freezes the bodies of first attempts. All of it is
//! in one commit, before anything is sent (ruling 21, body; ruling 23, attempts).
//!
//! Rows come from two sources and pass the same steps.
//!
//! - `from_outbox` takes rows that wait, lane by lane. `candidates` locks due lanes and chooses
//!   rows within the limits and within memory. `screening` cancels rows without a subject.
//! - `scan_floors` remembers where the scans of the process begin.
//! - `in_append` leases rows in the transaction that records their occurrence. `leasing` reserves
//!   capacity for new rows, and `open_lanes` finds and locks their lanes. The row is inserted with
//!   its lease, so it is written once. This source saves a claim, and nothing but cost depends on
//!   it. The spread worker leases the same way.
//! - `compose` builds or thaws the bodies for both sources.
//! - `leased` holds the leased rows until the commit, and makes attempts of them.
//!
//! A claim guarantees: the lane was open at the commit, the attempt has its number and its
//! fencing token, and its capacity is reserved. A claim does not send.

pub(crate) mod candidates;
mod compose;
pub(crate) mod from_outbox;
pub(crate) mod in_append;
pub(crate) mod leased;
pub(crate) mod leasing;
mod open_lanes;
mod scan_floors;
mod screening;

pub use self::from_outbox::{claim_beyond, claim_due, next_due, next_due_from};
pub use self::open_lanes::KnownLanes;
pub use self::scan_floors::ScanFloors;
pub(crate) use self::scan_floors::UNRESPONSIVE_QUEUES;
