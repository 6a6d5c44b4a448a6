//! Intake: what the product reports comes in here, a batch at a time, all of it or nothing.
//!
//! The cast: [`parse`] reads a request into [`CloudEvent`]s; small calls that come at the same time
//! are put together; the plan decides, without I/O, what they lead to; `take_in` loads what the plan
//! needs and carries it out in one transaction. Once [`accept()`] has answered, every report is in the
//! log, in the vault, or known to be a duplicate.

mod accept;
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
mod reported;
mod take_in;

pub use accept::accept;
pub(crate) use accept::{IntakeBatcher, SMALL_CALL_BYTES_MAX, accept_with_others, intake_batcher};
pub use calls::IntakeCounts;
pub use cloudevents::{CloudEvent, EventFormat, parse};
pub use error::{BadEvent, IntakeError};
