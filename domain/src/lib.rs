//! The rules of the service: the contract's nouns, the decisions on them, and the events that
//! follow.
//!
//! Every rule here is a pure function of its arguments. The crate has no I/O, no SQL, no clock and
//! no randomness. Time, ids and random bytes come in as arguments, so each rule is tested alone.

pub mod activity;
pub mod address;
pub mod answer;
pub mod api_key;
pub mod as_of;
pub mod audit;
pub mod checkup;
pub mod clock;
pub mod context;
pub mod delivery;
pub mod document;
pub mod email;
pub mod event;
pub mod fact;
pub mod firm;
pub mod form;
pub mod ids;
pub mod invite;
pub mod key;
pub mod lang;
pub mod link;
pub mod merkle;
pub mod object;
pub mod occurrence;
pub mod once;
pub mod pause;
pub mod payload;
pub mod person;
pub mod pressure;
pub mod quota;
pub mod rate;
pub mod reading;
pub mod repair;
pub mod replay;
pub mod response;
pub mod retry;
pub mod sample;
pub mod signature;
pub mod subscription;
pub mod target;
pub mod time;
pub mod trace;
pub mod trigger;
pub mod workflow;

mod text;

pub use event::Event;
