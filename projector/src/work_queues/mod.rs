//! Work queues: tables whose rows wait for a worker or for another activity.
//!
//! A work queue is never rebuilt, because some of its content comes from the product and is in no
//! event. A row goes when its work is done. The subjects stay, because later activities need their
//! links, and so do the requests of replays, which may be repeated.

pub mod expiry;
pub mod invites;
pub mod notices;
pub mod partials;
pub mod replay_items;
pub mod replay_requests;
pub mod subjects;
