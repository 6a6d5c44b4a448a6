//! The door on real sockets: what a caller may do to it, and what must come of it.

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
