//! A form, as the product reports it (contract, section Form; ruling 14).
//!
//! The product sends reports of state. The newest `time` wins per aspect ([`ReportEffect`]): the
//! form's status and each of its details. An older or repeated report is accepted and changes
//! nothing. A deletion takes effect whatever its `time`. A changing event names only the aspects
//! that it changes.

mod hidden_field;
mod link;

use serde::{Deserialize, Serialize};
use url::Url;
use uuid::Uuid;

use crate::aggregate::state_report::{
    AspectState, ReportEffect, absorb_value, effect_if_named, if_news,
};
use crate::aggregate::{aggregate, domain_event};
use crate::subscription::TARGET_MAX_CHARS;
use crate::values::Timestamp;

pub use hidden_field::HiddenField;
pub use link::{HIDDEN_KEY_MAX, HIDDEN_VALUE_MAX, PrefilledLink, UTM_TAGS};

/// Aggregate of one form. Each form has a stream of its own.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    firm_id: Option<Uuid>,
    deleted: bool,
    aspects: FormAspects,
}

/// Newest reported value of each aspect.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FormAspects {
    title: Option<AspectState<String>>,
    slug: Option<AspectState<String>>,
    url: Option<AspectState<String>>,
    status: Option<AspectState<FormStatus>>,
    hidden_fields: Option<AspectState<Vec<HiddenField>>>,
    created_at: Option<AspectState<Timestamp>>,
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

/// The address of a form whose reported address is none. It leads nowhere (ruling 37).
pub const UNUSABLE_URL: &str = "about:invalid";

/// Whether a reported address is one that a person can open (ruling 37).
#[must_use]
pub fn is_form_url(text: &str) -> bool {
    let is_clean = |text: &str| !text.chars().any(|c| c.is_control() || c.is_whitespace());
    text.chars().count() <= TARGET_MAX_CHARS
        && is_web_url(text)
        && is_clean(text)
        && Url::parse(text).is_ok_and(|url| url.has_host())
}

/// The address to show of a form. The log may hold addresses that are refused today.
#[must_use]
pub fn shown_url(reported: String) -> String {
    if is_web_url(&reported) { reported } else { UNUSABLE_URL.to_owned() }
}

fn is_web_url(text: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
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
        match self.firm_id {
            Some(owner) if owner != *firm_id => return Err(FormRejection::OtherFirm),
            None if !creates => return Err(FormRejection::Unknown),
            Some(_) | None => {}
        }
        Ok(match self.effect_of_change(change, *time) {
            ReportEffect::News => {
                vec![form_event(*firm_id, *time, self.aspects.news_of(change.clone(), *time))]
            }
            ReportEffect::Repeat | ReportEffect::Stale => Vec::new(),
        })
    }

    /// Effect of a report about this firm's form.
    #[must_use]
    pub fn effect_of(
        &self,
        FormCommand::Report { time, change, .. }: &FormCommand,
    ) -> ReportEffect {
        self.effect_of_change(change, *time)
    }

    fn effect_of_change(&self, change: &FormChange, time: Timestamp) -> ReportEffect {
        match change {
            FormChange::Created(_) if self.firm_id.is_none() => ReportEffect::News,
            FormChange::Created(_) => ReportEffect::Repeat,
            FormChange::Deleted if self.deleted => ReportEffect::Repeat,
            FormChange::Deleted => ReportEffect::News,
            _ if self.deleted => ReportEffect::Stale,
            FormChange::Changed(edit) => self.aspects.effect_of_edit(edit, time),
            FormChange::Published => self.aspects.effect_on_status(FormStatus::Published, time),
            FormChange::Unpublished => self.aspects.effect_on_status(FormStatus::Draft, time),
        }
    }

    fn absorb(&mut self, event: &FormEvent) {
        let aspects = &mut self.aspects;
        match event {
            FormEvent::FormCreated { firm_id, details, time } => {
                self.firm_id = Some(*firm_id);
                aspects.absorb_edit(&details.clone().into(), *time);
            }
            FormEvent::FormChanged { edit, time } => aspects.absorb_edit(edit, *time),
            FormEvent::FormPublished { time } => {
                absorb_value(&mut aspects.status, Some(&FormStatus::Published), *time);
            }
            FormEvent::FormUnpublished { time } => {
                absorb_value(&mut aspects.status, Some(&FormStatus::Draft), *time);
            }
            FormEvent::FormDeleted { .. } => self.deleted = true,
        }
    }
}

impl FormAspects {
    fn effect_of_edit(&self, edit: &FormEdit, time: Timestamp) -> ReportEffect {
        ReportEffect::of_all([
            effect_if_named(self.title.as_ref(), edit.title.as_ref(), time),
            effect_if_named(self.slug.as_ref(), edit.slug.as_ref(), time),
            effect_if_named(self.url.as_ref(), edit.url.as_ref(), time),
            effect_if_named(self.status.as_ref(), edit.status.as_ref(), time),
            effect_if_named(self.hidden_fields.as_ref(), edit.hidden_fields.as_ref(), time),
            effect_if_named(self.created_at.as_ref(), edit.created_at.as_ref(), time),
        ])
    }

    fn effect_on_status(&self, status: FormStatus, time: Timestamp) -> ReportEffect {
        effect_if_named(self.status.as_ref(), Some(&status), time)
    }

    /// The change without the aspects that are no news.
    fn news_of(&self, change: FormChange, time: Timestamp) -> FormChange {
        let FormChange::Changed(edit) = change else {
            return change;
        };
        FormChange::Changed(FormEdit {
            title: if_news(self.title.as_ref(), edit.title, time),
            slug: if_news(self.slug.as_ref(), edit.slug, time),
            url: if_news(self.url.as_ref(), edit.url, time),
            status: if_news(self.status.as_ref(), edit.status, time),
            hidden_fields: if_news(self.hidden_fields.as_ref(), edit.hidden_fields, time),
            created_at: if_news(self.created_at.as_ref(), edit.created_at, time),
        })
    }

    fn absorb_edit(&mut self, edit: &FormEdit, time: Timestamp) {
        absorb_value(&mut self.title, edit.title.as_ref(), time);
        absorb_value(&mut self.slug, edit.slug.as_ref(), time);
        absorb_value(&mut self.url, edit.url.as_ref(), time);
        absorb_value(&mut self.status, edit.status.as_ref(), time);
        absorb_value(&mut self.hidden_fields, edit.hidden_fields.as_ref(), time);
        absorb_value(&mut self.created_at, edit.created_at.as_ref(), time);
    }
}

impl From<FormDetails> for FormEdit {
    fn from(details: FormDetails) -> Self {
        Self {
            title: Some(details.title),
            slug: Some(details.slug),
            url: Some(details.url),
            status: Some(details.status),
            hidden_fields: Some(details.hidden_fields),
            created_at: Some(details.created_at),
        }
    }
}

fn form_event(firm_id: Uuid, time: Timestamp, change: FormChange) -> FormEvent {
    match change {
        FormChange::Created(details) => FormEvent::FormCreated { firm_id, details, time },
        FormChange::Changed(edit) => FormEvent::FormChanged { edit, time },
        FormChange::Published => FormEvent::FormPublished { time },
        FormChange::Unpublished => FormEvent::FormUnpublished { time },
        FormChange::Deleted => FormEvent::FormDeleted { time },
    }
}

#[cfg(test)]
mod tests;
