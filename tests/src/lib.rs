//! The harness of the tests: one private cluster per run, one pair of databases per test, the real
//! doors and workers on them, and receivers on real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod copy;
mod database;
mod receiver;
mod statements;
mod world;

#[path = "../../mailer/tests/mailer/smtp_server.rs"]
pub mod smtp_server;

pub use copy::Copies;
pub use database::{TestDatabase, own_cluster};
pub use receiver::{Received, Receiver, Reply};
pub use statements::counting_statements;
pub use world::{Answer, BASE_URL, Firm, World, activity, later};
