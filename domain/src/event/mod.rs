//! All events of the log as one closed type, [`Event`], with their metadata, [`EventContext`].
//!
//! An event counts by a [`QuotaChange`], shows its content by [`event_facts`], and is told to
//! people by [`EventWords`].

mod all;
mod context;
mod facts;
mod name_book;
mod operator;
mod quota;
mod trace;

pub use all::{Event, UnreadableEvent};
pub use context::{Actor, EventContext, NotAContext};
pub use facts::event_facts;
pub use name_book::{EventWords, KeyName, NameBook};
pub use operator::{NotAnOperatorName, OperatorName, Terminal};
pub use quota::{Quota, QuotaChange};
pub use trace::{NotATraceparent, Traceparent};
