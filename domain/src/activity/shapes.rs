//! The kinds of activities, with their content.

use serde::Deserialize;
use uuid::Uuid;

use super::document::{Booking, ReportDocument, ResponseDocument};
use crate::firm::{FirmChange, MemberChange};
use crate::form::FormChange;
use crate::invite::AddressChange;
use crate::values::{EmailAddress, Timestamp};

/// One activity that the product reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Activity {
    /// `firm.*`
    Firm {
        /// The reported change.
        change: FirmChange,
        /// The firm's reply address, if the report has the brand. `Some(None)` removes the address.
        reply_to: Option<Option<String>>,
    },
    /// `member.*`
    Member {
        /// The member.
        member_id: Uuid,
        /// The reported change.
        change: MemberChange,
    },
    /// `form.*`
    Form {
        /// The form.
        form_id: Uuid,
        /// The reported change.
        change: FormChange,
    },
    /// `address.*`
    Address {
        /// The person's address. Only its keyed hash is kept.
        email: EmailAddress,
        /// The reported change.
        change: AddressChange,
    },
    /// `response.saved`
    ResponseSaved(ResponseReport),
    /// `response.submitted`
    ResponseSubmitted(ResponseReport),
    /// `report.created` and `report.changed`
    Report {
        /// The response of the report.
        response_id: Uuid,
        /// The report's content.
        report: ReportDocument,
    },
    /// `report.approved`, `report.sent` and `report.opened`
    ReportMoved {
        /// The report.
        report_id: Uuid,
        /// The stage that the report reached.
        moment: ReportMoment,
        /// Time of the stage, by the product's clock.
        at: Timestamp,
    },
    /// `payment.received`
    PaymentReceived(Payment),
    /// `booking.made`
    BookingMade {
        /// The response of the booking.
        response_id: Uuid,
        /// The booking.
        booking: Booking,
    },
    /// `booking.rescheduled`
    BookingMoved(BookingMove),
    /// `booking.cancelled`
    BookingCancelled {
        /// The booking.
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
        /// Address of the person whose data is erased. Only its keyed hash is kept.
        email: String,
    },
}

/// Stages of a report. Each is reached at most once (contract, section Triggers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportMoment {
    /// A reviewer approved the report.
    Approved,
    /// The report's email went out.
    Sent,
    /// The client opened the report for the first time.
    Opened,
}

/// A payment for a report or a consultation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payment {
    /// The payment.
    pub payment_id: Uuid,
    /// The response of the payment.
    pub response_id: Uuid,
    /// The report that was paid for, if any.
    pub report_id: Option<Uuid>,
    /// The booking that was paid for, if any.
    pub booking_id: Option<Uuid>,
    /// Time of the payment, by the product's clock.
    pub at: Timestamp,
}

/// A booking that moved to a new time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookingMove {
    /// The booking.
    pub booking_id: Uuid,
    /// Time of the move. A repeated report of one move carries one time.
    pub moved_at: Timestamp,
    /// New start of the booking.
    pub starts_at: Timestamp,
    /// New end of the booking.
    pub ends_at: Timestamp,
    /// New length of the booking, in minutes.
    pub duration_min: u32,
    /// IANA name of the time zone.
    pub time_zone: String,
}

/// How likely a person is to become a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeadBand {
    /// Unlikely.
    Cold,
    /// Possible.
    Warm,
    /// Likely.
    Hot,
}

/// A person's lead score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeadScore {
    /// The person's address. Only its keyed hash is kept.
    pub person: String,
    /// The response that was scored.
    pub response_id: Uuid,
    /// The band of the score.
    pub band: LeadBand,
}

/// A response, saved half-way or submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseReport {
    /// The response.
    pub response_id: Uuid,
    /// The form of the response.
    pub form_id: Uuid,
    /// Time of the save or the submission, by the product's clock.
    pub at: Timestamp,
    /// The answers.
    pub document: ResponseDocument,
}

impl Activity {
    /// Whether a repeat is recognised by the activity's id. Reports of state and erasures of a
    /// person are. All other activities are recognised by their content.
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

    /// The response that the activity names, if any.
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

    /// The form of the response, if the activity names one.
    #[must_use]
    pub const fn form_id(&self) -> Option<Uuid> {
        match self {
            Self::ResponseSaved(report) | Self::ResponseSubmitted(report) => Some(report.form_id),
            _ => None,
        }
    }

    /// Address of the person that the activity names on its response, if any: the respondent, the
    /// invitee of a booking or the lead.
    #[must_use]
    pub fn named_address(&self) -> Option<&str> {
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

    /// The report or booking of the activity, if any.
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
}
