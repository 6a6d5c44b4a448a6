//! The ten triggers (contract, section Events) and the plans that offer them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The kind of occurrence that a subscription gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// A person finishes the form.
    FormSubmitted,
    /// A person answers some questions and then stops for an hour.
    PartialSubmission,
    /// A reviewer approves the report.
    ReportApproved,
    /// The report email went out.
    ReportSent,
    /// The client opens the report for the first time.
    ReportOpened,
    /// A person pays for a report or a consultation.
    PaymentReceived,
    /// A person makes a booking.
    BookingMade,
    /// A booking moves to a new time.
    BookingRescheduled,
    /// A booking is cancelled.
    BookingCancelled,
    /// A person's lead score reaches Hot for the first time.
    LeadHot,
}

/// The parts of a firm's plan that triggers depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirmPlan {
    /// Whether the plan includes Leads in full.
    pub leads_in_full: bool,
}

/// No trigger has this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no such trigger")]
pub struct UnknownTrigger;

impl Trigger {
    /// Every trigger, in the contract's order.
    pub const ALL: [Self; 10] = [
        Self::FormSubmitted,
        Self::PartialSubmission,
        Self::ReportApproved,
        Self::ReportSent,
        Self::ReportOpened,
        Self::PaymentReceived,
        Self::BookingMade,
        Self::BookingRescheduled,
        Self::BookingCancelled,
        Self::LeadHot,
    ];

    /// The trigger's key in requests, payloads and events.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::FormSubmitted => "form_submitted",
            Self::PartialSubmission => "partial_submission",
            Self::ReportApproved => "report_approved",
            Self::ReportSent => "report_sent",
            Self::ReportOpened => "report_opened",
            Self::PaymentReceived => "payment_received",
            Self::BookingMade => "booking_made",
            Self::BookingRescheduled => "booking_rescheduled",
            Self::BookingCancelled => "booking_cancelled",
            Self::LeadHot => "lead_hot",
        }
    }

    /// The contract's label (ruling 14c).
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::FormSubmitted => "Form is submitted",
            Self::PartialSubmission => "Form is left unfinished",
            Self::ReportApproved => "Report is approved",
            Self::ReportSent => "Report is sent",
            Self::ReportOpened => "Report is opened",
            Self::PaymentReceived => "Payment received",
            Self::BookingMade => "Call is booked",
            Self::BookingRescheduled => "Call is rescheduled",
            Self::BookingCancelled => "Call is cancelled",
            Self::LeadHot => "Lead becomes Hot",
        }
    }

    /// The contract's hint, which says when the trigger fires (ruling 14c).
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::FormSubmitted => "someone finishes the form",
            Self::PartialSubmission => {
                "once, when someone answers some questions then stops for an hour without \
                 submitting; stops if they finish later"
            }
            Self::ReportApproved => "a reviewer approves the report",
            Self::ReportSent => "after the report email goes out",
            Self::ReportOpened => {
                "the first time the client opens the report email or their report page \
                 (once per report)"
            }
            Self::PaymentReceived => {
                "someone pays for a report or a consultation through a payment processor"
            }
            Self::BookingMade => {
                "someone books a call on the thank-you screen (once per submission)"
            }
            Self::BookingRescheduled => {
                "each time a booked call moves to a new time, by the client or the firm's team"
            }
            Self::BookingCancelled => "a booked call is cancelled, by the client or the team",
            Self::LeadHot => {
                "once per person, the first time their lead score reaches Hot (checked on form \
                 submission, or email open or click); fires only on plans that include Leads \
                 in full"
            }
        }
    }

    /// Whether firms with this plan can subscribe to the trigger (contract, section Triggers;
    /// ruling 14).
    #[must_use]
    pub fn offered_to(self, plan: FirmPlan) -> bool {
        self != Self::LeadHot || plan.leads_in_full
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

impl FromStr for Trigger {
    type Err = UnknownTrigger;

    fn from_str(key: &str) -> Result<Self, UnknownTrigger> {
        Self::ALL.into_iter().find(|trigger| trigger.key() == key).ok_or(UnknownTrigger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contract's table, section Triggers, pasted.
    const CONTRACT: &str = "\
| form_submitted | Form is submitted | someone finishes the form |
| partial_submission | Form is left unfinished | once, when someone answers some questions then stops for an hour without submitting; stops if they finish later |
| report_approved | Report is approved | a reviewer approves the report |
| report_sent | Report is sent | after the report email goes out |
| report_opened | Report is opened | the first time the client opens the report email or their report page (once per report) |
| payment_received | Payment received | someone pays for a report or a consultation through a payment processor |
| booking_made | Call is booked | someone books a call on the thank-you screen (once per submission) |
| booking_rescheduled | Call is rescheduled | each time a booked call moves to a new time, by the client or the firm's team |
| booking_cancelled | Call is cancelled | a booked call is cancelled, by the client or the team |
| lead_hot | Lead becomes Hot | once per person, the first time their lead score reaches Hot (checked on form submission, or email open or click); fires only on plans that include Leads in full |";

    #[test]
    fn keys_labels_and_hints_match_the_contract() {
        let ours = Trigger::ALL
            .map(|trigger| format!("| {} | {} | {} |", trigger, trigger.label(), trigger.hint()));
        assert_eq!(ours.join("\n"), CONTRACT);
    }

    #[test]
    fn a_trigger_is_written_as_its_key() {
        for trigger in Trigger::ALL {
            assert_eq!(trigger.key().parse(), Ok(trigger));
            let json = format!("\"{trigger}\"");
            assert_eq!(serde_json::to_string(&trigger).unwrap(), json);
            assert_eq!(serde_json::from_str::<Trigger>(&json).unwrap(), trigger);
        }
    }

    #[test]
    fn a6_keys_are_exact() {
        for key in ["", "Form_Submitted", "form_submitted ", "form-submitted", "FormSubmitted"] {
            assert_eq!(key.parse::<Trigger>(), Err(UnknownTrigger), "{key}");
        }
    }

    #[test]
    fn only_lead_hot_depends_on_the_plan() {
        let full = FirmPlan { leads_in_full: true };
        let withheld: Vec<_> = Trigger::ALL
            .into_iter()
            .filter(|trigger| !trigger.offered_to(FirmPlan::default()))
            .collect();
        assert_eq!(withheld, [Trigger::LeadHot]);
        assert!(Trigger::ALL.into_iter().all(|trigger| trigger.offered_to(full)));
    }
}
