//! The harness of the tests: one private cluster per run, one pair of databases per test, the real
//! doors and workers on them, and receivers on real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod activity;
mod answer;
mod attempts;
mod browser;
mod bucket;
mod copy;
mod database;
mod fault_plan;
mod firm;
mod generated;
mod handicap;
mod haproxy;
pub mod invariants;
mod lasting;
mod leaks;
mod multiply;
mod operator;
pub mod plans;
mod pools;
pub mod process;
mod product;
mod proxy;
mod questions;
pub mod raw;
mod receiver;
mod requests;
mod routed;
pub mod scrape;
mod seed;
mod sending;
mod server_messages;
mod server_processes;
mod settled;
mod standby;
mod statements;
mod under_test;
mod verify;
mod watchdog;
pub mod whole_story;
mod witness;
mod world;

#[path = "../../mailer/tests/mailer/smtp_server.rs"]
pub mod smtp_server;

pub use activity::{activity, later};
pub use answer::Answer;
pub use attempts::ATTEMPTS;
pub use browser::Browser;
pub use bucket::{BucketDouble, BucketFault};
pub use copy::Copies;
pub use database::{Connections, Templates, TestDatabase, cluster_with, own_cluster, tcp_cluster};
pub use fault_plan::{DrawnFault, FaultKind, Random, draw_faults};
pub use firm::Firm;
pub use generated::{assert_file_is, assert_page_is};
pub use handicap::Handicap;
pub use haproxy::{HAPROXY, HaProxy, printed_configuration};
pub use lasting::lasting_cluster;
pub use multiply::multiply;
pub use product::submitted;
pub use proxy::{DatabaseProxy, Fault};
pub use questions::{
    AuditEntry, StoredEvent, count_rows, history_ranges, table_names, until_blocked,
};
pub use receiver::{Received, Receiver, Reply};
pub use requests::make_request;
pub use sending::Sending;
pub use server_messages::ServerMessages;
pub use server_processes::{ServerProcess, until_answering};
pub use settled::until_settled;
pub use standby::ReplicatedServer;
pub use statements::counting_statements;
pub use under_test::program;
pub use witness::place_witness;
pub use world::{BASE_URL, FirstClaim, World};
