//! From an occurrence to a recorded answer: the outbox, lanes, claim, signed POST, history.
//!
//! The cast, in the order a delivery meets them:
//!
//! - [`AppendQueuer`] puts a row for each subscription that an occurrence lists into the outbox, in the
//!   transaction that records the occurrence. [`outbox::spread`] puts in later what was too much for it.
//! - [`AppendLeaser`] leases rows as they are put there, where this process can send them at once.
//! - [`claim`] leases rows that wait, lane by lane, and freezes the bodies of first tries.
//! - [`SendLimits`] say how much of that is sent at once: to a host, for a firm, in all.
//! - [`Dispatcher`] sends each try in a task, by [`outgoing`], and [`record`] writes down what came of it.
//! - [`ended_leases`] takes back the tries of a process that is gone.
//! - [`LaneWriter`] follow the life of subscriptions and firms, and [`cancel`] takes back what waits in a
//!   closed one. A claim and a removal lock the same lane, so the order of their commits decides.
//!
//! [`engine`] runs the claim and the recorder. This crate is the only writer of the outbox and its lanes,
//! and nothing else in the workspace opens outgoing HTTP.

pub mod backlog;
pub mod cancel;
pub mod checkup;
pub mod claim;
mod claim_in_append;
mod compose;
mod dispatch;
mod due;
pub mod ended_leases;
pub mod engine;
pub mod erase;
pub mod give_back;
mod lane_life;
pub mod lane_list;
mod lanes;
mod leasing;
mod limits;
pub mod outbox;
pub mod outgoing;
pub mod proof;
pub mod purge;
pub mod record;
mod recorder;
mod reissue;
pub mod repair;
pub mod replay;
mod send;
mod settings;
mod steps;
mod tally;
mod targets;
mod withdrawn;

pub use claim_in_append::{AppendLeaser, LeasedInAppend};
pub use dispatch::{AnswerInbox, Dispatcher};
pub use lane_life::LaneWriter;
pub use leasing::SubmissionParts;
pub use limits::{SendLimits, SenderCount, SenderMembership};
pub use outbox::queue::AppendQueuer;
pub use settings::{DelivererContext, DelivererSettings, DeliveryError, TimeScale};
pub use targets::KnownTargets;
