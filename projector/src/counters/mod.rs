//! Counters: tables that count recent calls, and tries of invites, for the limits. A counter is
//! never rebuilt.

pub mod calls;
pub mod invite_tries;
