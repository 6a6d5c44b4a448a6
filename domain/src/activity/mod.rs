//! Product activity: what the product reports, read strictly.
//!
//! Every kind has a closed shape: an unknown field, a missing one or one of another type is an
//! error that names the field and never its value.

mod read;

use serde::Deserialize;
use uuid::Uuid;

use crate::document::{Booking, NotADocument, ReportDocument, ResponseDocument};
use crate::email::EmailAddress;
use crate::firm::{FirmChange, MemberChange};
use crate::form::FormChange;
use crate::object::{Properties, StrictObject};
use crate::person::AddressChange;
use crate::time::Timestamp;

/// The most events in one report.
pub const BATCH_MAX_EVENTS: usize = 1_000;

/// The most bytes in one report.
pub const BATCH_MAX_BYTES: usize = 8 * 1024 * 1024;

/// One report of the product.
#[derive(Debug, Clone, PartialEq)]
pub enum Activity {
    /// `firm.*`
    Firm {
        /// What was reported.
        change: FirmChange,
        /// The firm's reply address, if the report speaks of its brand.
        reply_to: Option<Option<String>>,
    },
    /// `member.*`
    Member {
        /// Who.
        member_id: Uuid,
        /// What was reported.
        change: MemberChange,
    },
    /// `form.*`
    Form {
        /// The form.
        form_id: Uuid,
        /// What was reported.
        change: FormChange,
    },
    /// `address.*`
    Address {
        /// Whose: it goes no further than to a keyed hash. None for one that no invite could go to:
        /// then nothing follows.
        email: Option<EmailAddress>,
        /// What was reported.
        change: AddressChange,
    },
    /// `response.saved`
    ResponseSaved(ResponseReport),
    /// `response.submitted`
    ResponseSubmitted(ResponseReport),
    /// `report.created` and `report.changed`
    Report {
        /// The response it is on.
        response_id: Uuid,
        /// What it says.
        report: ReportDocument,
    },
    /// `report.approved`, `report.sent` and `report.opened`
    ReportMoved {
        /// The report.
        report_id: Uuid,
        /// What happened to it.
        moment: ReportMoment,
        /// When.
        at: Timestamp,
    },
    /// `payment.received`
    PaymentReceived(Payment),
    /// `booking.made`
    BookingMade {
        /// The response it was made on.
        response_id: Uuid,
        /// The call.
        booking: Booking,
    },
    /// `booking.rescheduled`
    BookingMoved(BookingMove),
    /// `booking.cancelled`
    BookingCancelled {
        /// The call.
        booking_id: Uuid,
    },
    /// `lead.scored`
    LeadScored(LeadScore),
    /// `response.erased`
    ResponseErased {
        /// The response.
        response_id: Uuid,
    },
    /// `person.erased`
    PersonErased {
        /// Whose data goes: the address goes no further than to a keyed hash.
        email: String,
    },
}

/// What can happen to a report, once each (contract, section Triggers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportMoment {
    /// A reviewer approved it.
    Approved,
    /// Its email went out.
    Sent,
    /// The client opened it for the first time.
    Opened,
}

/// A payment for a report or a consultation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payment {
    /// The payment.
    pub payment_id: Uuid,
    /// The response it is about.
    pub response_id: Uuid,
    /// The report that was paid for, if one was.
    pub report_id: Option<Uuid>,
    /// The call that was paid for, if one was.
    pub booking_id: Option<Uuid>,
    /// When.
    pub at: Timestamp,
}

/// A booked call at a new time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookingMove {
    /// The call.
    pub booking_id: Uuid,
    /// When it was moved: a repeat of the same move carries the same time.
    pub moved_at: Timestamp,
    /// When the call starts now.
    pub starts_at: Timestamp,
    /// When the call ends now.
    pub ends_at: Timestamp,
    /// How long it is.
    pub duration_min: u32,
    /// IANA name of the time zone.
    pub time_zone: String,
}

/// How likely somebody is to become a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeadBand {
    /// Not very.
    Cold,
    /// Perhaps.
    Warm,
    /// Very.
    Hot,
}

/// A person's lead score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeadScore {
    /// The person's address: it goes no further than to a keyed hash.
    pub person: String,
    /// The response it was scored on.
    pub response_id: Uuid,
    /// The band it lies in.
    pub band: LeadBand,
}

/// A response, saved on the way or submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseReport {
    /// The response.
    pub response_id: Uuid,
    /// The form it answers.
    pub form_id: Uuid,
    /// When it was saved or submitted.
    pub at: Timestamp,
    /// What was answered.
    pub document: ResponseDocument,
}

/// Why a report is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnActivity {
    /// No such type of activity.
    #[error("type: `{0}` is not a type of activity")]
    UnknownType(String),
    /// The data does not fit the type.
    #[error("{}", in_data(.0))]
    Data(#[from] NotADocument),
}

/// What is wrong, and with which part of `data` if with one.
fn in_data(wrong: &NotADocument) -> String {
    match wrong {
        NotADocument::Missing(_) | NotADocument::Malformed { .. } | NotADocument::Unknown(_) => {
            format!("data.{wrong}")
        }
        NotADocument::TooLarge(_) => format!("data: {wrong}"),
    }
}

impl Activity {
    /// Whether its repeats are told by its id: reports of how something is, and erasures of whatever
    /// there is of a person at that time. What happened is told by what happened.
    #[must_use]
    pub const fn is_told_by_id(&self) -> bool {
        match self {
            Self::Firm { .. }
            | Self::Member { .. }
            | Self::Form { .. }
            | Self::Address { .. }
            | Self::Report { .. }
            | Self::PersonErased { .. } => true,
            Self::ResponseSaved(_)
            | Self::ResponseSubmitted(_)
            | Self::ReportMoved { .. }
            | Self::PaymentReceived(_)
            | Self::BookingMade { .. }
            | Self::BookingMoved(_)
            | Self::BookingCancelled { .. }
            | Self::LeadScored(_)
            | Self::ResponseErased { .. } => false,
        }
    }

    /// The response it names, if it names one.
    #[must_use]
    pub const fn response_id(&self) -> Option<Uuid> {
        match self {
            Self::ResponseSaved(report) | Self::ResponseSubmitted(report) => {
                Some(report.response_id)
            }
            Self::Report { response_id, .. }
            | Self::BookingMade { response_id, .. }
            | Self::ResponseErased { response_id } => Some(*response_id),
            Self::PaymentReceived(payment) => Some(payment.response_id),
            Self::LeadScored(lead) => Some(lead.response_id),
            Self::Firm { .. }
            | Self::Member { .. }
            | Self::Form { .. }
            | Self::Address { .. }
            | Self::ReportMoved { .. }
            | Self::BookingMoved(_)
            | Self::BookingCancelled { .. }
            | Self::PersonErased { .. } => None,
        }
    }

    /// The form of the response it is about, if it names one.
    #[must_use]
    pub const fn form_id(&self) -> Option<Uuid> {
        match self {
            Self::ResponseSaved(report) | Self::ResponseSubmitted(report) => Some(report.form_id),
            _ => None,
        }
    }

    /// The address of the person it names on its response, if it names one: who answered, whom a call
    /// is booked with, whose lead it is.
    #[must_use]
    pub fn named(&self) -> Option<&str> {
        let email = match self {
            Self::ResponseSaved(report) | Self::ResponseSubmitted(report) => {
                &report.document.respondent.email
            }
            Self::BookingMade { booking, .. } => &booking.invitee.email,
            Self::LeadScored(lead) => &lead.person,
            Self::Firm { .. }
            | Self::Member { .. }
            | Self::Form { .. }
            | Self::Address { .. }
            | Self::Report { .. }
            | Self::ReportMoved { .. }
            | Self::PaymentReceived(_)
            | Self::BookingMoved(_)
            | Self::BookingCancelled { .. }
            | Self::ResponseErased { .. }
            | Self::PersonErased { .. } => return None,
        };
        (!email.is_empty()).then_some(email)
    }

    /// The report or call it is about, if it is about one.
    #[must_use]
    pub fn part_id(&self) -> Option<Uuid> {
        match self {
            Self::Report { report, .. } => Some(report.id.into()),
            Self::ReportMoved { report_id, .. } => Some(*report_id),
            Self::BookingMade { booking, .. } => Some(booking.id.into()),
            Self::BookingMoved(moved) => Some(moved.booking_id),
            Self::BookingCancelled { booking_id } => Some(*booking_id),
            Self::Firm { .. }
            | Self::Member { .. }
            | Self::Form { .. }
            | Self::Address { .. }
            | Self::ResponseSaved(_)
            | Self::ResponseSubmitted(_)
            | Self::PaymentReceived(_)
            | Self::LeadScored(_)
            | Self::ResponseErased { .. }
            | Self::PersonErased { .. } => None,
        }
    }

    /// Reads a report: its CloudEvents `type` and `data`.
    ///
    /// # Errors
    /// [`NotAnActivity`] names what is wrong.
    pub fn read(kind: &str, data: Properties) -> Result<Self, NotAnActivity> {
        let data = StrictObject(data);
        Ok(match kind {
            "firm.opened" => read::firm_opened(data)?,
            "firm.changed" => read::firm_changed(data)?,
            "firm.suspended" => data.end(read::firm(FirmChange::Suspended))?,
            "firm.resumed" => data.end(read::firm(FirmChange::Resumed))?,
            "firm.closed" => data.end(read::firm(FirmChange::Closed))?,
            "member.joined" => read::member_with_role(data, MemberChange::Joined)?,
            "member.role_changed" => read::member_with_role(data, MemberChange::RoleChanged)?,
            "member.disabled" => read::member(data, MemberChange::Disabled)?,
            "member.enabled" => read::member(data, MemberChange::Enabled)?,
            "member.left" => read::member(data, MemberChange::Left)?,
            "form.created" => read::form_created(data)?,
            "form.changed" => read::form_changed(data)?,
            "form.published" => read::form(data, FormChange::Published)?,
            "form.unpublished" => read::form(data, FormChange::Unpublished)?,
            "form.deleted" => read::form(data, FormChange::Deleted)?,
            "address.unsubscribed" => read::address(data, AddressChange::Unsubscribed)?,
            "address.bounced" => read::address(data, AddressChange::Bounced)?,
            "address.restored" => read::address(data, AddressChange::Restored)?,
            "response.saved" => Self::ResponseSaved(read::response(data, "saved_at")?),
            "response.submitted" => Self::ResponseSubmitted(read::response(data, "submitted_at")?),
            "report.created" | "report.changed" => read::report(data)?,
            "report.approved" => read::report_moment(data, ReportMoment::Approved)?,
            "report.sent" => read::report_moment(data, ReportMoment::Sent)?,
            "report.opened" => read::report_moment(data, ReportMoment::Opened)?,
            "payment.received" => read::payment(data)?,
            "booking.made" => read::booking_made(data)?,
            "booking.rescheduled" => read::booking_moved(data)?,
            "booking.cancelled" => read::booking_cancelled(data)?,
            "lead.scored" => read::lead(data)?,
            "response.erased" => read::response_erased(data)?,
            "person.erased" => read::person_erased(data)?,
            other => return Err(NotAnActivity::UnknownType(other.to_owned())),
        })
    }
}

#[cfg(test)]
mod tests;
