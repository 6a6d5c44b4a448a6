//! The outbox: the work queue of deliveries. This crate is the only writer of its tables.
//!
//! - `row` is a delivery that has not ended. The row is due at a time, or leased.
//! - `queue` inserts the rows that occurrences list, in the transaction that records them.
//! - `unspread` holds occurrences with too many rows for that transaction. A worker inserts their
//!   rows later ([`crate::send::SpreadWorker`]).
//! - `steps` and `reissue` insert the row of a workflow step, and of a delivery that was reissued.
//! - `begun` makes the row of a delivery anew from its stream, if the row is lost.
//! - [`notices`] inserts the row of a notice to the operator's URL (ruling 49).
//! - `lanes` has one row per subscription, and per firm and host of workflow steps. A lane carries
//!   the due time of its first row. `lane_events` keeps lanes in step with the log.
//! - `wakes` name lanes with new rows. Inserting a wake locks no lane.
//! - `release` returns attempts that were claimed and will not be sent.
//! - `withdraw` finds deliveries of erased responses and cancels rows.
//!
//! A lane's lock decides between a claim and a removal: the first commit wins (ruling 29, in
//! flight at removal).

pub(crate) mod begun;
pub(crate) mod lane_events;
pub(crate) mod lanes;
pub mod notices;
pub(crate) mod queue;
mod reissue;
pub mod release;
pub(crate) mod row;
mod steps;
pub(crate) mod unspread;
pub(crate) mod wakes;
pub(crate) mod withdraw;
