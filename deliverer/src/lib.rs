//! Deliveries, from the occurrence to the recorded answer. This crate is the only writer of the
//! outbox and its lanes. Only the exporter of traces in `service` opens outgoing HTTP beside it.
//!
//! The cast, in the order a delivery meets it:
//!
//! - [`outbox`] is the work queue. [`AppendQueuer`] inserts a row for each subscription that an
//!   occurrence lists, in the transaction that records the occurrence. [`LaneWriter`] keeps lanes
//!   in step with subscriptions and firms.
//! - [`SendLimits`] count attempts in flight, and reserve capacity per process, firm and host.
//! - [`claim`] leases rows, numbers the attempts and freezes the bodies. It takes rows that wait in
//!   the outbox, or rows that are just being inserted.
//! - [`attempt`] has the types of an attempt from its claim to its answer.
//! - [`send`] posts each attempt in a task of its own, through [`outgoing`].
//! - [`record`] writes the answers to the log, in batches.
//! - [`upkeep`] has the workers that a delivery does not pass through: ended leases, cancellations,
//!   replays, erasures and the purge.
//! - [`inspect`] answers operators' questions, and proves and repairs deliveries.
//!
//! A claim and a removal lock the same lane, so the order of their commits decides. An attempt is
//! sent after the commit of its claim, and never before.

pub mod attempt;
pub mod claim;
mod error;
pub mod inspect;
mod limits;
pub mod outbox;
pub mod outgoing;
pub mod record;
pub mod send;
mod settings;
mod tally;
mod targets;
pub mod upkeep;

pub use claim::KnownLanes;
pub use error::DeliveryError;
pub use limits::{SendLimits, SenderCount, SenderMembership};
pub use outbox::lane_events::LaneWriter;
pub use outbox::queue::AppendQueuer;
pub use record::AnswerInbox;
pub use send::{AppendLeaser, Dispatcher, LeasedInAppend};
pub use settings::{DelivererContext, DelivererSettings, NoticeTarget, Retention, TimeScale};
pub use targets::KnownTargets;
