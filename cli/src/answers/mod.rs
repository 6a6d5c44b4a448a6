//! Answers to operators and auditors: one command for each question that the internal API answers.
//! Each calls the query of that API, and records the reading like it. `--json` prints its fields.

mod access;
mod delivery;
mod events;
mod export;
mod find;
mod hook_test;
mod inventory;
mod people;
mod receivers;
mod stats;
pub(crate) mod why;

pub(crate) use access::{AccessArgs, run as access};
pub(crate) use delivery::run as show_delivery;
pub(crate) use events::{EventsCommand, run as events};
pub(crate) use export::{DeliveryExportArgs, run as export};
pub(crate) use find::{FindArgs, run as find};
pub(crate) use hook_test::{HookTestArgs, run as test_hook};
pub(crate) use inventory::{
    FormsCommand, MembersCommand, ReplayListArgs, list_forms, list_members, list_replays,
};
pub(crate) use people::{PeopleCommand, run as people};
pub(crate) use receivers::{ReceiversArgs, run as receivers};
pub(crate) use stats::run as stats;

use serde_json::Value;

/// The list in a field of an answer.
fn list_field<'a>(answer: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    answer[field].as_array().into_iter().flatten()
}

/// The text in a field of an answer, empty for none.
fn text_field<'a>(answer: &'a Value, field: &str) -> &'a str {
    answer[field].as_str().unwrap_or_default()
}
