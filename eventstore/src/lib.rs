//! The log: append, load, tail. The only code that touches the events table.
//!
//! The cast: [`Store`] appends and loads, with [`WithAppend`] for the tables that change in the same
//! transaction; [`Fence`] says how far the log is settled; [`tail`] reads up to there;
//! [`ConnectionCache`] go from one transaction to the next; [`proof`] reads what is proved of it; [`presence`] says how many processes there are; [`Nudge`] tells followers that there is something new; [`Clock`] is the database's time;
//! [`crash`] names where tests kill the process.

mod append;
pub mod checkup;
mod clock;
mod command;
pub mod crash;
mod digest;
mod error;
mod fence;
mod held;
mod load;
mod nudge;
mod pool;
pub mod presence;
pub mod progress;
pub mod proof;
mod repository;
mod store;
pub mod tail;
mod upcast;
pub mod worker;

pub use append::{NewEvent, RecordedEvent};
pub use clock::{Clock, WallClock};
pub use command::{AsConflict, CommandError, retry_conflicts};
pub use digest::{DigestInput, canonical, digest};
pub use error::{AppendError, may_pass};
pub use fence::{CaughtUp, Fence, SettledUpTo};
pub use held::{ConnectionCache, ReusedConnection};
pub use load::{StreamName, load, load_all, load_first, load_many};
pub use nudge::{Nudge, WakeScope, announce, relay};
pub use pool::{bring_up, connect, connect_guarded, migrate};
pub use store::{AppendTransaction, Outbox, Store, WithAppend};
pub use upcast::Upcasters;
