//! Read models: tables that follow from the log.
//!
//! Each file has one table, with its writer and its questions. A read model takes its time from the
//! event and never from the clock. [`crate::rebuild`] can make each of them again from the log.

pub mod audit;
pub mod deliveries;
pub mod firms;
pub mod forms;
pub mod hooks;
pub mod keys;
pub mod members;
pub mod pauses;
pub mod people;
pub mod quotas;
pub mod replays;
pub mod seals;
