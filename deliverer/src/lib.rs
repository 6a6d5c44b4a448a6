//! From an occurrence to a recorded answer: fan-out, lanes, claim, signed POST, history.
//!
//! The cast, in the order a delivery meets them: [`fan_out`] queues one delivery per matching
//! subscription; [`Lanes`] keep the work of one subscription from delaying another's and decide
//! between a claim and a removal; [`claim`] takes what is due under a lease and freezes its body;
//! [`outgoing`] sends it; [`record`] writes down what came of it; [`cancel`] takes back what is left
//! of a removed subscription. [`engine`] runs them all.
//!
//! This crate is the only writer of the outbox and its lanes, and nothing else in the workspace
//! opens outgoing HTTP.

mod at_once;
pub mod backlog;
pub mod cancel;
pub mod checkup;
pub mod claim;
mod compose;
mod dispatch;
mod due;
pub mod engine;
pub mod erase;
pub mod fan_out;
pub mod give_back;
mod lane_life;
pub mod lane_list;
mod lanes;
mod out;
pub mod outgoing;
mod permits;
mod places;
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

pub use dispatch::{Answers, Dispatch};
pub use lane_life::Lanes;
pub use settings::{Courier, DeliveryError, Settings, TimeScale};
pub use targets::KnownTargets;
