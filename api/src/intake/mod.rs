//! Intake: what the product reports comes in here, a batch at a time, all of it or nothing.
//!
//! The cast: [`parse`] reads a request into [`CloudEvent`]s; the plan decides, without I/O, what
//! they lead to; [`accept()`] loads what the plan needs and carries it out in one transaction. Once
//! it has answered, every report is in the log, in the vault, or known to be a duplicate.

mod accept;
mod batch;
mod cloudevents;
mod consequences;
mod error;
mod facts;
mod known;
mod locks;
mod parts;
mod plan;
mod reported;

pub use accept::{Accepted, accept};
pub use cloudevents::{CloudEvent, Format, parse};
pub use error::{BadEvent, IntakeError};
