//! Facts: activities about a report, a booking, a payment or a lead (contract, section Triggers;
//! rulings, section Occurrences). A fact waits until its response is known, and then becomes one
//! occurrence. Repeated reports of a fact add nothing.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::occurrence::{Happening, occurrence_id};
use super::shapes::{Activity, BookingMove, LeadBand, Payment, ReportMoment};
use crate::subscription::{FirmPlan, Trigger};
use crate::values::Timestamp;

/// A fact and its subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// The response, report or booking of the fact. The fact waits until the subject's response is
    /// known.
    pub subject_id: Uuid,
    /// The trigger of the fact.
    pub trigger: Trigger,
    /// Key of the fact. Two facts of one trigger with one key are equal.
    pub key: String,
    /// Time of the fact, by the product's clock.
    pub happened_at: Timestamp,
    /// The report of the fact, if any.
    pub report_id: Option<Uuid>,
    /// The booking of the fact, if any.
    pub booking_id: Option<Uuid>,
    /// Whether no subscription gets the occurrence, because the firm's plan lacks the trigger.
    pub silent: bool,
}

impl Fact {
    /// The fact in an activity, if there is one. Reports of a response are not facts. `person_id`
    /// is the person of a lead.
    #[must_use]
    pub fn from_activity(
        activity: &Activity,
        time: Timestamp,
        plan: FirmPlan,
        person_id: Uuid,
    ) -> Option<Self> {
        match activity {
            Activity::ReportMoved { report_id, moment, at } => {
                let fact = Self::new(trigger_of(*moment), *report_id, report_id.to_string(), *at);
                Some(Self { report_id: Some(*report_id), ..fact })
            }
            Activity::PaymentReceived(payment) => Some(Self::from_payment(payment)),
            Activity::BookingMade { response_id, booking } => {
                let key = response_id.to_string();
                let fact = Self::new(Trigger::BookingMade, *response_id, key, time);
                Some(Self { booking_id: Some(booking.id.into()), ..fact })
            }
            Activity::BookingMoved(moved) => Some(Self::from_move(moved)),
            Activity::BookingCancelled { booking_id } => {
                let key = booking_id.to_string();
                let fact = Self::new(Trigger::BookingCancelled, *booking_id, key, time);
                Some(Self { booking_id: Some(*booking_id), ..fact })
            }
            Activity::LeadScored(lead) if lead.band == LeadBand::Hot => {
                let key = person_id.to_string();
                let fact = Self::new(Trigger::LeadHot, lead.response_id, key, time);
                Some(Self { silent: !Trigger::LeadHot.offered_to(plan), ..fact })
            }
            Activity::LeadScored(_)
            | Activity::Report { .. }
            | Activity::ResponseSaved(_)
            | Activity::ResponseSubmitted(_)
            | Activity::Firm { .. }
            | Activity::Member { .. }
            | Activity::Form { .. }
            | Activity::Address { .. }
            | Activity::ResponseErased { .. }
            | Activity::PersonErased { .. } => None,
        }
    }

    fn new(trigger: Trigger, subject_id: Uuid, key: String, happened_at: Timestamp) -> Self {
        Self {
            subject_id,
            trigger,
            key,
            happened_at,
            report_id: None,
            booking_id: None,
            silent: false,
        }
    }

    fn from_payment(payment: &Payment) -> Self {
        let Payment { payment_id, response_id, report_id, booking_id, at } = *payment;
        let fact = Self::new(Trigger::PaymentReceived, response_id, payment_id.to_string(), at);
        Self { report_id, booking_id, ..fact }
    }

    fn from_move(moved: &BookingMove) -> Self {
        let BookingMove { booking_id, moved_at, starts_at, .. } = moved;
        let key = format!("{booking_id}|{starts_at}|{moved_at}");
        let fact = Self::new(Trigger::BookingRescheduled, *booking_id, key, *moved_at);
        Self { booking_id: Some(*booking_id), ..fact }
    }

    /// Id of the fact's occurrence.
    #[must_use]
    pub fn occurrence_id(&self, firm_id: Uuid) -> Uuid {
        occurrence_id(firm_id, self.trigger, &self.key)
    }

    /// The log's record of the fact, once its response is known.
    #[must_use]
    pub fn happening(&self, form_id: Uuid, response_id: Uuid) -> Happening {
        Happening {
            trigger: self.trigger,
            form_id,
            response_id,
            report_id: self.report_id,
            booking_id: self.booking_id,
            happened_at: self.happened_at,
            hooks: Vec::new(),
            seen: 0,
            silent: self.silent,
        }
    }
}

const fn trigger_of(moment: ReportMoment) -> Trigger {
    match moment {
        ReportMoment::Approved => Trigger::ReportApproved,
        ReportMoment::Sent => Trigger::ReportSent,
        ReportMoment::Opened => Trigger::ReportOpened,
    }
}
