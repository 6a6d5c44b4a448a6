//! The rules that need many cases: addresses, targets, answers, payloads.
//! If a test holds a case (docs/reference/cases.md) or a ruling, its name begins with it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as their tests do")]

mod addresses;
mod answers;
mod payloads;
mod targets;
