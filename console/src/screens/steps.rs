//! Steps of an explanation: events of the log in words, each with a link to the event.

use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use crate::parts;

/// An event in words.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ToldStep {
    pub(crate) event_id: Uuid,
    pub(crate) position: i64,
    pub(crate) at: Timestamp,
    /// The event's name.
    pub(crate) event: String,
    /// The kind of the event's stream.
    pub(crate) kind: String,
    /// The id of the event's stream.
    pub(crate) id: String,
    pub(crate) by: String,
    pub(crate) caused_by: Option<Uuid>,
    pub(crate) sentence: String,
    pub(crate) audit_entry: Option<i64>,
}

/// The steps in their order.
pub(crate) fn step_list(steps: &[ToldStep], now: Timestamp) -> Markup {
    html! {
        ol.steps { @for step in steps {
            li {
                (parts::time(step.at, now)) " "
                span.sentence { (parts::foreign_text(&step.sentence)) }
                " " small { "by " (parts::foreign_text(&step.by)) ", "
                    a href=(event_page(step.position)) { (step.event) " at " (step.position) }
                    @if let Some(entry) = step.audit_entry { ", audit entry " (entry) } }
            }
        } }
    }
}

/// The page of the event at a position.
pub(crate) fn event_page(position: i64) -> String {
    format!("/console/log/{position}")
}
