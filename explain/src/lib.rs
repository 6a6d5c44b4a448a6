//! Words for people at a terminal and at the console: sentences about events, findings of
//! `firmforms doctor` with their advice, and moments as a person writes them.
//!
//! Everything here is a pure function of its arguments. Only the crates that show the words import
//! this one, so a changed word rebuilds few of them. The internal API gets its sentences by the
//! trait [`domain::event::EventWords`] from the wiring.
//!
//! - [`sentence`] tells an event with the names that people gave to keys, tokens and users.
//! - [`commands`] names the commands that tell more about an object.
//! - [`checkup`] turns measured values into findings.
//! - [`moment`] reads a moment of the past.

pub mod checkup;
pub mod commands;
pub mod moment;
pub mod sentence;

pub use sentence::EventSentences;
