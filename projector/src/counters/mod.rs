//! Counters: tables that count recent calls for the rate limits. A counter is never rebuilt,
//! because no event records a call.

pub mod calls;
