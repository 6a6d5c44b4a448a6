//! Intake: takes in the product's activities, one batch at a time. A call's activities are all
//! taken in, or none.
//!
//! [`parse_events`] reads a request into [`CloudEvent`]s. `calls` holds one call or several
//! concurrent small ones as a batch; `accept` decides which. `batch` reads ids from the batch,
//! `locks` locks rows, and `known` is the loaded state.
//!
//! `plan` decides without I/O; `parts`, `facts`, `reported` and `consequences` are its subjects. A
//! *part* is a report or a booking; its response may come later. `take_in` carries the plan out in
//! one transaction, and `keep` writes to the vault. `at_once` needs one statement for submissions
//! of new responses.
//!
//! When [`accept()`] has returned, every activity is in the log, in the vault, or a known
//! duplicate.

mod accept;
mod at_once;
mod batch;
mod calls;
mod cloudevents;
mod consequences;
mod error;
mod facts;
mod keep;
mod known;
mod locks;
mod parts;
mod plan;
mod refused_reports;
mod reported;
mod take_in;

pub use accept::accept;
pub(crate) use accept::{IntakeBatcher, SMALL_CALL_BYTES_MAX, accept_with_others, intake_batcher};
pub use at_once::KnownMatches;
pub use calls::IntakeCounts;
pub use cloudevents::{CloudEvent, EventFormat, parse_events};
pub use error::{BadEvent, IntakeError};
pub use refused_reports::RefusedReports;
