//! The door on real sockets: deeds of callers, and their results.

#![expect(clippy::unwrap_used, reason = "what the tests share are functions beside the tests")]

mod bodies;
mod crowds;
mod helper;
mod https;
mod refusals;
mod request_ids;
mod reuse;
mod stopping;
mod times;
mod tls;
mod unix;
mod unread;
