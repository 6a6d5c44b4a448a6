//! The tables beside the log: their writers and the questions about them.
//!
//! The cast:
//!
//! - `read_models` has the tables that follow from the log, one file each. The writers in
//!   [`append_guards`] and [`table_writers`] write in the transaction of the append, so the next
//!   request sees the change. [`deliveries`] and [`audit`] follow the log a moment later, by
//!   [`follow::Follower`]. [`seals`] cover the log itself.
//! - `work_queues` has tables whose rows wait for a worker or for another activity. They are never
//!   rebuilt.
//! - `counters` has the counts of calls and of invites' tries for the limits, and the failures of
//!   receivers and subscriptions. They are never rebuilt.
//! - [`activity_ids`] has the ids of past activities, and [`hook_requests`] the requests that
//!   callers may repeat. [`tokens`] has the bearer tokens of the internal door, and
//!   [`portal_sessions`] the links and sessions of the portal. [`signatures`] and [`verifications`]
//!   have the last signature and the last verification of the log. None of them follows from events
//!   alone.
//! - `actors` checks in each append that the actor may still act.
//! - [`rebuild`] makes read models again from the log, and compares them with the live tables.
//! - [`as_of`] reads subscriptions and deliveries from the log, as they were at a moment.
//! - [`candidates`] are the objects that a shortened id or a name may mean.
//! - [`StoredRow`] is a row that a verifier compares with its stream.
//! - [`housekeeping`] forgets rows that are kept for a limited time only.
//!
//! This crate sends nothing. A read model never reads the clock: its time is that of the event.

pub mod activity_ids;
mod actors;
pub mod as_of;
pub mod backups;
pub mod candidates;
mod counters;
pub mod follow;
pub mod hook_requests;
pub mod housekeeping;
pub mod portal_sessions;
mod read_models;
pub mod rebuild;
pub mod search;
pub mod sign_ins;
pub mod signatures;
mod stored_row;
pub mod table_sizes;
pub mod tokens;
pub mod verifications;
mod work_queues;

use eventstore::WithAppend;
use eventstore::firm_rows::FirmTable;

pub use counters::{calls, episodes, invite_tries, receivers};
pub use read_models::{
    audit, deliveries, firms, forms, hooks, keys, members, pauses, people, quotas, replays, seals,
};
pub use stored_row::{ComparedColumn, StoredRow};
pub use work_queues::{
    expiry, invites, notices, partials, replay_items, replay_requests, subjects,
};

/// Returns the guards of an append, in the order of locks: firm, member, key, quota.
#[must_use]
pub fn append_guards() -> Vec<Box<dyn WithAppend>> {
    vec![Box::new(actors::ActorGuard), Box::new(quotas::QuotaGuard)]
}

/// Returns the writers of the tables that change with an append.
#[must_use]
pub fn table_writers() -> Vec<Box<dyn WithAppend>> {
    vec![
        Box::new(firms::FirmWriter),
        Box::new(members::MemberWriter),
        Box::new(forms::FormWriter),
        Box::new(keys::KeyWriter),
        Box::new(hooks::HookWriter),
        Box::new(hook_requests::HookRequestWriter),
        Box::new(people::PersonWriter),
        Box::new(invites::InviteWriter),
        Box::new(replays::ReplayWriter),
        Box::new(pauses::PauseWriter),
    ]
}

/// The tables of intake with rows of a firm, which go once the data of a closed firm are dropped.
/// Read models stay: they follow from the log, which stays.
pub const FIRM_TABLES: &[FirmTable] = &[
    FirmTable { name: "subjects", key: "subject_id" },
    FirmTable { name: "waiting_facts", key: "subject_id" },
    FirmTable { name: "partials", key: "response_id" },
    FirmTable { name: "notices", key: "notice_id" },
];
