//! Counters: tables that count recent calls and tries of invites, for the limits, and attempts by
//! host, for operators. A counter is never rebuilt.

pub mod calls;
pub mod invite_tries;
pub mod receivers;
