//! Send: each claimed attempt is sent in a task of its own, and its answer goes to the recorder.
//!
//! - [`Dispatcher`] starts the tasks. All claims of a process share one dispatcher. An attempt that
//!   was claimed ahead waits here for its slot at the host.
//! - `request` makes the contract's headers and the signature, and posts through
//!   [`crate::outgoing`].
//! - [`send_sample`] posts a sample for an operator, outside the log's deliveries and the limits.
//! - `worker` claims rows that wait, as far as permits go, and runs the recorders ([`deliver`]).
//! - [`AppendLeaser`] leases deliveries in an append, and sends them after the commit.
//! - [`SpreadWorker`] inserts the rows of unspread occurrences, and sends the rows it leases.
//!
//! A slow receiver holds one permit, and never the answers of other receivers. At a stop nothing
//! new is claimed. Attempts that have a slot are sent and recorded, and all others are released.

mod after_append;
mod dispatcher;
mod request;
mod spread;
mod worker;

pub use self::after_append::{AppendLeaser, LeasedInAppend};
pub use self::dispatcher::Dispatcher;
pub use self::request::{SampleExchange, send_sample};
pub use self::spread::SpreadWorker;
pub use self::worker::{deliver, deliver_once};
