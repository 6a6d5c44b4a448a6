//! A form, as the product reports it (contract, section Form; ruling 14).
//!
//! Reports of state: the newest `time` wins; an older or repeated report is accepted and changes
//! nothing. Of those with the same `time`, which may be one of whole seconds, the one that comes last is the newest.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::event::{aggregate, domain_event};
use crate::time::Timestamp;

/// One stream per form.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    firm_id: Option<Uuid>,
    deleted: bool,
    /// What was reported last.
    newest: Option<FormEvent>,
}

/// Whether a form is open to the public (ruling 14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormStatus {
    /// Being made.
    Draft,
    /// Open.
    Published,
}

impl FormStatus {
    /// The word in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Published => "published",
        }
    }
}

/// A hidden field that a form's link accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HiddenField {
    /// The name in the link.
    pub key: String,
    /// What people read.
    pub label: String,
}

/// All that is known of a new form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormDetails {
    /// Its title.
    pub title: String,
    /// Its short name in the address.
    pub slug: String,
    /// Its public address.
    pub url: String,
    /// Whether it is open to the public.
    pub status: FormStatus,
    /// The hidden fields its link accepts.
    pub hidden_fields: Vec<HiddenField>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What is new of a form; what is null stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormEdit {
    /// Its title.
    pub title: Option<String>,
    /// Its short name in the address.
    pub slug: Option<String>,
    /// Its public address.
    pub url: Option<String>,
    /// Whether it is open to the public.
    pub status: Option<FormStatus>,
    /// The hidden fields its link accepts.
    pub hidden_fields: Option<Vec<HiddenField>>,
    /// When it was made.
    pub created_at: Option<Timestamp>,
}

/// A report about a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormChange {
    /// It was made.
    Created(FormDetails),
    /// Some of it changed.
    Changed(FormEdit),
    /// It was opened to the public.
    Published,
    /// It was taken back.
    Unpublished,
    /// It was deleted for good.
    Deleted,
}

/// What can be asked of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormCommand {
    /// Take in a report.
    Report {
        /// The firm it is reported for.
        firm_id: Uuid,
        /// When it was so, by the product's clock.
        time: Timestamp,
        /// What was reported.
        change: FormChange,
    },
}

/// What happened to a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum FormEvent {
    /// It was made.
    FormCreated {
        /// The firm it belongs to.
        firm_id: Uuid,
        /// All that is known of it.
        details: FormDetails,
        /// By the product's clock.
        time: Timestamp,
    },
    /// Some of it changed.
    FormChanged {
        /// What is new.
        edit: FormEdit,
        /// By the product's clock.
        time: Timestamp,
    },
    /// It was opened to the public.
    FormPublished {
        /// By the product's clock.
        time: Timestamp,
    },
    /// It was taken back.
    FormUnpublished {
        /// By the product's clock.
        time: Timestamp,
    },
    /// It was deleted for good.
    FormDeleted {
        /// By the product's clock.
        time: Timestamp,
    },
}

domain_event!(FormEvent { FormCreated, FormChanged, FormPublished, FormUnpublished, FormDeleted });
aggregate!(Form, FormCommand, FormEvent, FormRejection);

/// Why a report about a form was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormRejection {
    /// Nothing was reported of this form yet.
    #[error("the form is not known: report form.created first")]
    Unknown,
    /// The id is another firm's.
    #[error("the form belongs to another firm")]
    OtherFirm,
}

impl Form {
    /// Decides what a report leads to; nothing, when it is not news.
    ///
    /// # Errors
    /// [`FormRejection`] says why nothing happens.
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
    /// When it was so, by the product's clock.
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
