//! The rules of the service: the contract's nouns, the decisions on them, and the events that
//! follow.
//!
//! Every rule here is a pure function of its arguments. The crate has no I/O, no SQL, no clock and
//! no randomness. Time, ids and random bytes come in as arguments, so each rule is tested alone.
//! Words for people at a terminal are in the crate `explain`.
//!
//! An **aggregate** has a command, an event, a rejection and one `decide`. A refused command has no
//! events. [`Event`] joins all events into one closed type.
//!
//! # The folders
//!
//! Each folder imports only folders above it.
//!
//! - [`values`]: texts, ids and times in the basic formats.
//! - [`aggregate`]: parts that all aggregates share, and the rule for reports of state.
//! - [`subscription`]: a subscription, its trigger and its target, with the addresses that may be
//!   dialled.
//! - [`form`]: a form and its prefilled links.
//! - [`firm`]: a firm, its members and its settings.
//! - [`invite`]: an invite, and the person that wants no mail.
//! - [`access`]: keys, tokens, sign-ins, and the rates of their callers.
//! - [`activity`]: the product's reports. A document is personal and never enters the log. A fact
//!   waits for its response and becomes one occurrence.
//! - [`delivery`]: an occurrence on its way to a subscription: the payload and its signature, the
//!   limits in flight, the verdict on an answer, the retry, replays, pauses and repairs. Workflow
//!   steps are deliveries, too.
//! - [`notice`]: when a firm and the operator hear of a failing receiver.
//! - [`operations`]: orders of operators, and the state of an installation.
//! - [`event`]: all events with their metadata.
//! - [`audit`]: entries, chains and signed checkpoints, and the proof that each subscription got
//!   each occurrence once.

pub mod access;
pub mod activity;
pub mod aggregate;
pub mod audit;
pub mod delivery;
pub mod event;
pub mod firm;
pub mod form;
pub mod invite;
pub mod notice;
pub mod operations;
pub mod subscription;
pub mod values;

pub use event::Event;
