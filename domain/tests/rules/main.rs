//! The rules that need many cases: addresses, targets, answers, payloads.
//! Test names begin with the number of the hard case or ruling they hold.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as their tests do")]

mod addresses;
mod answers;
mod payloads;
mod targets;
