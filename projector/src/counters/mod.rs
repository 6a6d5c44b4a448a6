//! Counters: tables that count recent calls and tries of invites, for the limits, and attempts by
//! host and failures of subscriptions, for operators and firms. A counter is never rebuilt.

pub mod calls;
pub mod episodes;
pub mod invite_tries;
pub mod receivers;
