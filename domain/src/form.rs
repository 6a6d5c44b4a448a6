//! A form, as the product reports it (contract, section Form; ruling 14).
//!
//! The product sends reports of state. The newest `time` wins. An older or repeated report is
//! accepted and changes nothing. `time` may be cut to whole seconds, so among reports with one
//! `time` the last one wins.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::event::{aggregate, domain_event};
use crate::time::Timestamp;

/// Aggregate of one form. Each form has a stream of its own.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    firm_id: Option<Uuid>,
    deleted: bool,
    /// The last reported event.
    newest: Option<FormEvent>,
}

/// Whether a form is open to the public (ruling 14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormStatus {
    /// The form is not open yet.
    Draft,
    /// The form is open.
    Published,
}

impl FormStatus {
    /// The status's word in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Published => "published",
        }
    }
}

/// A hidden field that the form's link accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HiddenField {
    /// Name of the field in the link.
    pub key: String,
    /// Label of the field for people.
    pub label: String,
}

/// All details of a new form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormDetails {
    /// Title of the form.
    pub title: String,
    /// Short name in the form's address.
    pub slug: String,
    /// Public address of the form.
    pub url: String,
    /// Whether the form is open to the public.
    pub status: FormStatus,
    /// Hidden fields that the link accepts.
    pub hidden_fields: Vec<HiddenField>,
    /// Creation time of the form.
    pub created_at: Timestamp,
}

/// Changes to a form. A null field stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormEdit {
    /// New title.
    pub title: Option<String>,
    /// New short name in the address.
    pub slug: Option<String>,
    /// New public address.
    pub url: Option<String>,
    /// Whether the form is open to the public.
    pub status: Option<FormStatus>,
    /// Hidden fields that the link accepts.
    pub hidden_fields: Option<Vec<HiddenField>>,
    /// Creation time of the form.
    pub created_at: Option<Timestamp>,
}

/// A report about a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormChange {
    /// The form was created.
    Created(FormDetails),
    /// Some details changed.
    Changed(FormEdit),
    /// The form was opened to the public.
    Published,
    /// The form was closed to the public.
    Unpublished,
    /// The form was deleted for good.
    Deleted,
}

/// Command on a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormCommand {
    /// Takes in a report.
    Report {
        /// The firm of the report.
        firm_id: Uuid,
        /// Time of the report, by the product's clock.
        time: Timestamp,
        /// The reported change.
        change: FormChange,
    },
}

/// Event of a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum FormEvent {
    /// The form was created.
    FormCreated {
        /// The firm of the form.
        firm_id: Uuid,
        /// All details of the form.
        details: FormDetails,
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// Some details changed.
    FormChanged {
        /// The changes.
        edit: FormEdit,
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// The form was opened to the public.
    FormPublished {
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// The form was closed to the public.
    FormUnpublished {
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// The form was deleted for good.
    FormDeleted {
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
}

domain_event!(FormEvent { FormCreated, FormChanged, FormPublished, FormUnpublished, FormDeleted });
aggregate!(Form, FormCommand, FormEvent, FormRejection);

/// Why a report about a form was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormRejection {
    /// No report of this form came yet.
    #[error("the form is not known: report form.created first")]
    Unknown,
    /// The id belongs to another firm.
    #[error("the form belongs to another firm")]
    OtherFirm,
}

impl Form {
    /// Decides on the events that follow from a report. A report that is not new has none.
    ///
    /// # Errors
    /// [`FormRejection`] says why the report is refused.
    pub fn decide(
        &self,
        FormCommand::Report { firm_id, time, change }: &FormCommand,
    ) -> Result<Vec<FormEvent>, FormRejection> {
        let creates = matches!(change, FormChange::Created(_));
        let event = form_event(*firm_id, *time, change);
        let news = match self.firm_id {
            Some(owner) if owner != *firm_id => return Err(FormRejection::OtherFirm),
            None if !creates => return Err(FormRejection::Unknown),
            None => true,
            Some(_) => {
                let is_newer = |newest: &FormEvent| newest.time() <= *time && *newest != event;
                !creates && !self.deleted && self.newest.as_ref().is_none_or(is_newer)
            }
        };
        Ok(if news { vec![event] } else { Vec::new() })
    }

    fn absorb(&mut self, event: &FormEvent) {
        self.newest = Some(event.clone());
        match event {
            FormEvent::FormCreated { firm_id, .. } => self.firm_id = Some(*firm_id),
            FormEvent::FormDeleted { .. } => self.deleted = true,
            FormEvent::FormChanged { .. }
            | FormEvent::FormPublished { .. }
            | FormEvent::FormUnpublished { .. } => {}
        }
    }
}

impl FormEvent {
    /// Time of the report, by the product's clock.
    const fn time(&self) -> Timestamp {
        let (Self::FormCreated { time, .. }
        | Self::FormChanged { time, .. }
        | Self::FormPublished { time }
        | Self::FormUnpublished { time }
        | Self::FormDeleted { time }) = self;
        *time
    }
}

fn form_event(firm_id: Uuid, time: Timestamp, change: &FormChange) -> FormEvent {
    match change.clone() {
        FormChange::Created(details) => FormEvent::FormCreated { firm_id, details, time },
        FormChange::Changed(edit) => FormEvent::FormChanged { edit, time },
        FormChange::Published => FormEvent::FormPublished { time },
        FormChange::Unpublished => FormEvent::FormUnpublished { time },
        FormChange::Deleted => FormEvent::FormDeleted { time },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::{AggregateTestExecutor, TestFramework};

    const FIRM: Uuid = Uuid::from_u128(1);
    const OTHER: Uuid = Uuid::from_u128(2);

    fn at(second: u32) -> Timestamp {
        format!("2026-11-01T00:00:{second:02}.000Z").parse().unwrap()
    }

    fn details() -> FormDetails {
        FormDetails {
            title: "Intake".into(),
            slug: "intake".into(),
            url: "https://forms.example.com/intake".into(),
            status: FormStatus::Draft,
            hidden_fields: vec![],
            created_at: at(0),
        }
    }

    fn created() -> FormEvent {
        FormEvent::FormCreated { firm_id: FIRM, details: details(), time: at(1) }
    }

    fn report(firm_id: Uuid, second: u32, change: FormChange) -> FormCommand {
        FormCommand::Report { firm_id, time: at(second), change }
    }

    fn given(events: Vec<FormEvent>) -> AggregateTestExecutor<Form> {
        TestFramework::with(()).given(events)
    }

    #[test]
    fn a_form_is_created_once() {
        let create = FormChange::Created(details());
        given(vec![]).when(report(FIRM, 1, create.clone())).then_expect_events(vec![created()]);
        given(vec![created()]).when(report(FIRM, 2, create)).then_expect_events(vec![]);
    }

    #[test]
    fn the_newest_report_wins() {
        let published = FormEvent::FormPublished { time: at(5) };
        given(vec![created()])
            .when(report(FIRM, 5, FormChange::Published))
            .then_expect_events(vec![published.clone()]);
        given(vec![created(), published])
            .when(report(FIRM, 4, FormChange::Unpublished))
            .then_expect_events(vec![]);
    }

    #[test]
    fn deleting_is_final() {
        given(vec![created(), FormEvent::FormDeleted { time: at(2) }])
            .when(report(FIRM, 3, FormChange::Published))
            .then_expect_events(vec![]);
    }

    /// A form that was made and published within a second stayed a draft.
    #[test]
    fn of_two_reports_with_the_same_time_the_later_one_was_lost() {
        let published = FormEvent::FormPublished { time: at(1) };
        given(vec![created()])
            .when(report(FIRM, 1, FormChange::Published))
            .then_expect_events(vec![published.clone()]);
        given(vec![created(), published])
            .when(report(FIRM, 1, FormChange::Published))
            .then_expect_events(vec![]);
    }

    #[test]
    fn another_firms_form_and_an_unknown_one_are_refused() {
        given(vec![created()])
            .when(report(OTHER, 2, FormChange::Deleted))
            .then_expect_error(FormRejection::OtherFirm);
        given(vec![created()])
            .when(report(OTHER, 2, FormChange::Created(details())))
            .then_expect_error(FormRejection::OtherFirm);
        given(vec![])
            .when(report(FIRM, 2, FormChange::Published))
            .then_expect_error(FormRejection::Unknown);
    }
}
