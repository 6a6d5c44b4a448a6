//! The log: append, load, tail. No other crate touches the table `events`.
//!
//! The cast, in the order of an event's life:
//!
//! - [`Store`] appends events and runs commands. [`WithAppend`] is a table that changes in the same
//!   transaction, and [`Outbox`] queues the deliveries of occurrences at the commit. An append
//!   happens as a whole or not at all.
//! - [`JoinedWrites`] sends the last writes of a transaction together.
//! - [`load_aggregate`] reads streams inside a transaction. It locks nothing: a decision holds if
//!   its append gets the next sequence of each stream.
//! - [`Fence`] finds the position below which no transaction can add an event any more. It never
//!   waits for a reader.
//! - [`LifeWatch`] notices that the server has crashed, failed over or was restored. All memory of
//!   the log ends with a life of the server, and [`log_tail`] looks whether the log lost its end.
//! - [`DatabaseHosts`] finds the primary among the hosts of a database, and [`PrimaryFollower`]
//!   leads the pools of a process to a new one.
//! - [`tail`] reads events in the order of the log, up to the fence. An event that this build
//!   cannot read stops the reader.
//! - [`ranges`] keeps the log in ranges of positions, and makes them ahead of its end.
//! - [`related`] finds the cause and the effects of an event.
//! - [`checkpoint`] keeps the position of each follower. One process at a time holds a checkpoint.
//! - [`Nudge`] wakes workers after a commit, here and in other processes. A nudge may be lost, so
//!   [`Pulse`] looks each second for all workers of the process.
//! - [`worker`] is the loop of every worker. [`SweepTimer`] is the time of those that delete old
//!   rows.
//! - [`ConnectionCache`] passes connections from one transaction to the next without a round trip.
//! - [`Failure`] classifies database errors. Every caller that retries uses it. [`disk`] tells
//!   whether a server has room for writes.
//! - [`Clock`] shows the database's time, and says when that time cannot be trusted.
//! - [`presence`] counts the processes of a group.
//! - [`proof`] reads events and computes their digests again. [`progress`] and [`checkup`] measure
//!   followers and the server.
//! - [`firm_rows`] deletes the rows of a closed firm, in batches.
//! - [`crash`] names the places at which tests kill the process.

mod append;
pub mod checkpoint;
pub mod checkup;
mod clock;
mod command;
pub mod crash;
mod digest;
pub mod disk;
mod due_questions;
mod error;
mod event;
mod failure;
mod fence;
pub mod firm_rows;
mod held;
mod joined;
mod life;
mod load;
pub mod log_tail;
mod nudge;
pub mod outage;
mod pool;
mod positions;
pub mod presence;
mod primary;
pub mod progress;
pub mod proof;
mod pulse;
pub mod ranges;
pub mod related;
mod remembered;
mod repository;
mod store;
mod stored_event;
mod sweep;
pub mod tail;
mod upcast;
pub mod worker;

pub use clock::{Clock, WallClock};
pub use command::{AsConflict, CommandError, retry_conflicts};
pub use digest::{DigestInput, canonical_json, event_digest};
pub use error::AppendError;
pub use event::{NewEvent, RecordedEvent};
pub use failure::Failure;
pub use fence::{CaughtUp, Fence, RunningWriters, SettledUpTo};
pub use held::{ConnectionCache, ReusedConnection};
pub use joined::JoinedWrites;
pub use life::{LifeNumber, LifeWatch, SeenEvent, ServerLife};
pub use load::{StreamName, load_aggregate, load_all, load_first, load_many, load_recorded_at};
pub use nudge::{NewFormats, Nudge, WakeScope, announce_news, relay_nudges};
pub use pool::{
    APPLICATION_NAME, OLDER_APPLICATION_NAME, answer_within, bring_up, connect, connect_guarded,
    main_migrations, migrate,
};
pub use primary::{DatabaseHosts, HostReport, HostState, NoPrimary, PrimaryFollower, UrlError};
pub use pulse::Pulse;
pub use ranges::TRAFFIC_KINDS;
pub use remembered::RememberedRows;
pub use store::{
    AppendTransaction, CHECKED_AFTER, EventPositions, OpenAppend, Outbox, StatementAppend, Store,
    WithAppend, lists_somebody,
};
pub use sweep::SweepTimer;
pub use upcast::Upcasters;
