//! The rules of the service: the contract's nouns, the decisions on them, and the events that
//! follow.
//!
//! Every rule here is a pure function of its arguments. The crate has no I/O, no SQL, no clock and
//! no randomness. Time, ids and random bytes come in as arguments, so each rule is tested alone.
//!
//! # The cast
//!
//! The **aggregates** decide: [`firm`], [`form`], [`key`], [`subscription`], [`occurrence`],
//! [`delivery`], [`invite`], [`person`], [`response`], [`reading`], [`replay`], [`pause`],
//! [`repair`], [`late_entry`], [`checkpoint_series`], [`access_token`], [`maintenance`],
//! [`notice`]. Each has a command, an event, a rejection and one `decide`. A refused command has no
//! events. [`event`] joins all events into one closed type, [`context`] is their metadata, and
//! [`operator`] names people at a terminal.
//!
//! The other modules, in the order of a delivery's life:
//!
//! - [`activity`] reads a report of the product strictly. Its [`document`] is personal and never
//!   enters the log. A [`fact`] waits for its response and becomes one occurrence of a [`trigger`].
//!   A [`state_report`] counts per aspect of its subject.
//! - [`payload`] builds the body of a delivery, and [`sample`] builds an example of one.
//! - [`target`] checks a URL, and [`address`] checks each address before it is dialled.
//!   [`workflow`] checks the extra headers of a workflow step. [`signature`] signs the body.
//! - [`pressure`] keeps the limits in flight and gives each firm its turn.
//! - [`answer`] gives the verdict on an attempt, and [`retry`] the wait before the next one.
//! - [`receiver`] judges the receivers of a host by their answers. [`notice`] decides when a firm
//!   and the operator hear of them.
//! - [`quota`] and [`rate`] count for a firm and for a caller. [`api_key`] is the caller's secret,
//!   [`idempotency`] the caller's name for a request.
//! - [`link`] builds prefilled links. [`lang`] and [`email`] serve links and mails. [`brand_color`]
//!   and [`frame_origin`] serve the pages of the portal.
//! - [`audit`] makes the audit entries and their chains, over the trees of [`merkle`]. [`feed`]
//!   bounds the sessions of its readers.
//! - [`once`] proves from the log alone that each subscription got each occurrence once.
//! - [`clock`] judges the clocks, [`checkup`] the whole installation, and [`as_of`] bounds
//!   questions about the past. [`restore`] compares the main database with the keyring.
//! - [`sentence`] tells events to a person, and [`facts`] shows the content that is not personal.
//!   [`content`] judges if a body or an answer is shown, and [`growth`] forecasts sizes of tables.
//!   [`search`] reads a text that an operator looks for, and [`access`] folds who could do what.
//!   [`target_test`] orders a sample to a target.
//! - [`sign_in`] gives users of a provider their roles. [`portal`] bounds the sessions of members.
//! - [`ids`], [`time`], [`trace`], [`label`] and [`object`] read and write the basic formats.
//!   [`printable`] makes foreign text safe to print. [`id_range`] and [`when`] read ids and times
//!   as a person shortens them.

pub mod access;
pub mod access_token;
pub mod activity;
pub mod address;
pub mod answer;
pub mod api_key;
pub mod as_of;
pub mod audit;
pub mod brand_color;
pub mod cell;
pub mod checkpoint_series;
pub mod checkup;
pub mod clock;
pub mod content;
pub mod context;
pub mod delivery;
pub mod document;
pub mod email;
pub mod event;
pub mod fact;
pub mod facts;
pub mod feed;
pub mod firm;
pub mod form;
pub mod frame_origin;
pub mod growth;
pub mod id_range;
pub mod idempotency;
pub mod ids;
pub mod invite;
pub mod key;
pub mod label;
pub mod lang;
pub mod late_entry;
pub mod link;
pub mod maintenance;
pub mod merkle;
pub mod migration;
pub mod notice;
pub mod object;
pub mod occurrence;
pub mod once;
pub mod operator;
pub mod pause;
pub mod payload;
pub mod person;
pub mod portal;
pub mod pressure;
pub mod printable;
pub mod quota;
pub mod rate;
pub mod reading;
pub mod receiver;
pub mod repair;
pub mod replay;
pub mod response;
pub mod restore;
pub mod retry;
pub mod sample;
pub mod search;
pub mod sentence;
pub mod sign_in;
pub mod signature;
pub mod state_report;
pub mod subscription;
pub mod target;
pub mod target_test;
pub mod time;
pub mod trace;
pub mod trigger;
pub mod when;
pub mod workflow;

pub mod text;

pub use event::Event;
