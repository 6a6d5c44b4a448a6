//! What follows from the log: one file per read model, with its writer and its questions.
//!
//! Those in [`guards`] and [`tables`] change in the transaction of the append: the very next request
//! must see them. [`deliveries`] and [`audit`] follow a moment later, by [`follow::Follower`];
//! [`seals`] are laid over the log itself.
//! [`rebuild`] makes them anew from the log; [`as_of`] asks the log how things were.
//! Nothing here sends anything, and no read model reads the clock: time is the event's. What is
//! kept for a time only, which is no read model, goes by [`housekeeping`].

mod actors;
pub mod as_of;
pub mod audit;
pub mod calls;
pub mod deliveries;
pub mod firms;
pub mod follow;
pub mod forms;
pub mod hooks;
pub mod housekeeping;
pub mod invites;
pub mod keys;
pub mod members;
pub mod partials;
pub mod pauses;
pub mod people;
pub mod quotas;
pub mod rebuild;
pub mod replays;
pub mod reports;
pub mod seals;
pub mod subjects;
pub mod tokens;

use eventstore::WithAppend;

/// Returns the guards of an append, in the order of locks: firm, member, key, quota.
#[must_use]
pub fn guards() -> Vec<Box<dyn WithAppend>> {
    vec![Box::new(actors::ActorGuard), Box::new(quotas::QuotaGuard)]
}

/// Returns the writers of the tables that change with an append.
#[must_use]
pub fn tables() -> Vec<Box<dyn WithAppend>> {
    vec![
        Box::new(firms::FirmWriter),
        Box::new(members::MemberWriter),
        Box::new(forms::FormWriter),
        Box::new(keys::KeyWriter),
        Box::new(hooks::HookWriter),
        Box::new(people::PersonWriter),
        Box::new(invites::InviteWriter),
        Box::new(replays::ReplayWriter),
        Box::new(pauses::PauseWriter),
    ]
}
