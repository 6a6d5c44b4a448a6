//! What is reported: visitors who fill in a form, or leave it, and what comes of their responses.
//!
//! A visit is a number; what happens in it follows from the number alone, so every run has the same
//! activity under other ids. It comes in stages, as the product would report it: see [`super::feed`].

use domain::trigger::Trigger;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::activity::Firm;

/// What a visit can lead to. Nobody's partial submission is due within a run.
pub(super) const TRIGGERS: [Trigger; 9] = [
    Trigger::FormSubmitted,
    Trigger::ReportApproved,
    Trigger::ReportSent,
    Trigger::ReportOpened,
    Trigger::PaymentReceived,
    Trigger::BookingMade,
    Trigger::BookingRescheduled,
    Trigger::BookingCancelled,
    Trigger::LeadHot,
];

const SUBMITTED_AT: &str = "2026-10-12T09:30:00.000Z";
const LATER: &str = "2026-10-14T16:05:00.000Z";

/// The parts of a long answer.
const SENTENCES: [&str; 5] = [
    "We opened a second shop in spring and our books are a shoe box again… ",
    "Our accountant retires in March, and nobody here has filed a return before. ",
    "Half of what we sell goes to Spain and France, some of it through a marketplace. ",
    "Two of the three directors live abroad 🙂. ",
    "The bank wants accounts for the last two years before it will talk to us. ",
];

/// Something reported, and whether an occurrence follows.
pub(super) struct Told {
    pub(super) event: Value,
    pub(super) occurs: bool,
}

/// One visit to a firm's form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    pub(super) firm: Firm,
    pub(super) number: u64,
}

impl Visit {
    /// What was answered so far, of four visits in ten, half of them left at that.
    pub(super) fn saved(self) -> Vec<Told> {
        let is_saved = self.is_each(3) || !self.is_submitted();
        let data = || self.response("saved_at", "2026-10-12T09:24:00.000Z");
        is_saved.then(|| self.state("response.saved", &data())).into_iter().collect()
    }

    /// The submission, its report and the lead.
    pub(super) fn submitted(self) -> Vec<Told> {
        if !self.is_submitted() {
            return Vec::new();
        }
        let submission = self.response("submitted_at", SUBMITTED_AT);
        let mut told = vec![self.fact("response.submitted", &submission)];
        if self.has_report() {
            told.push(self.state("report.created", &self.report()));
        }
        let lead = |band| {
            json!({"person": self.email(), "response_id": self.id("response"), "band": band,
                   "score": self.number % 100})
        };
        if self.is_each(4) {
            told.push(self.fact("lead.scored", &lead("hot")));
        } else if self.is_each(2) {
            told.push(self.state("lead.scored", &lead("warm")));
        }
        told
    }

    /// What becomes of the report.
    pub(super) fn reviewed(self) -> Vec<Told> {
        if !self.has_report() {
            return Vec::new();
        }
        let moment = || json!({"report_id": self.id("report"), "at": LATER});
        let mut told =
            vec![self.fact("report.approved", &moment()), self.fact("report.sent", &moment())];
        if self.is_each(2) {
            told.push(self.fact("report.opened", &moment()));
        }
        told
    }

    /// A call, and a payment.
    pub(super) fn followed_up(self) -> Vec<Told> {
        let mut told = Vec::new();
        if self.is_each(5) {
            told.push(self.fact("booking.made", &self.booking()));
        }
        if self.is_each(10) {
            let moved = json!({"booking_id": self.id("booking"), "moved_at": LATER,
                "starts_at": "2026-10-21T09:00:00Z", "ends_at": "2026-10-21T09:30:00Z",
                "duration_min": 30, "time_zone": "Europe/London"});
            told.push(self.fact("booking.rescheduled", &moved));
        }
        if self.is_each(15) {
            let cancelled = json!({"booking_id": self.id("booking")});
            told.push(self.fact("booking.cancelled", &cancelled));
        }
        if self.is_each(7) && self.is_submitted() {
            let paid = json!({"payment_id": self.id("payment"), "response_id": self.id("response"),
                              "amount": 120, "currency": "GBP", "at": LATER});
            told.push(self.fact("payment.received", &paid));
        }
        told
    }

    const fn is_each(self, count: u64) -> bool {
        self.number.is_multiple_of(count)
    }

    const fn is_submitted(self) -> bool {
        self.number % 5 != 4
    }

    const fn has_report(self) -> bool {
        self.is_submitted() && self.number % 3 == 1
    }

    fn state(self, kind: &str, data: &Value) -> Told {
        Told { event: self.firm.event(kind, data), occurs: false }
    }

    fn fact(self, kind: &str, data: &Value) -> Told {
        Told { event: self.firm.event(kind, data), occurs: true }
    }

    fn id(self, of: &str) -> Uuid {
        Uuid::new_v5(&self.firm.id, format!("{of} {}", self.number).as_bytes())
    }

    fn email(self) -> String {
        format!("visitor-{}@example.com", self.number)
    }

    fn response(self, time: &str, at: &str) -> Value {
        let sentences = SENTENCES.iter().cycle().skip(self.number as usize % 5);
        let long: String = sentences.take(1 + self.number as usize % 8).copied().collect();
        let (first, last) = ("Zoë", format!("Lefèvre {}", self.number));
        json!({
            "response_id": self.id("response"), "form_id": self.firm.form, time: at,
            "device": "mobile", "lang": "en",
            "respondent": {"name": format!("{first} {last}"), "first_name": first,
                           "last_name": last, "email": self.email(),
                           "phone": "+44 20 7946 0123", "company": "Lefèvre & Daughters"},
            "answers": [
                {"id": "q1", "question": "What can we help you with?", "type": "long_text",
                 "answer": long},
                {"id": "q2", "question": "How many people work for you?", "type": "number",
                 "answer": (self.number % 40).to_string()},
                {"id": "q3", "question": "Which services interest you?", "type": "multiple_choice",
                 "answer": "Bookkeeping, Payroll, Year-end accounts"},
            ],
            "hidden": {"referrer": "partner"},
        })
    }

    fn report(self) -> Value {
        json!({
            "report_id": self.id("report"), "response_id": self.id("response"),
            "title": "Where your books stand", "status": "draft",
            "summary": "Two years of accounts are open; the VAT threshold is near.",
            "highlights": ["Accounts are due in March", "Register for VAT this quarter"],
            "review_url": "https://forms.example.com/harrow-lane/review",
        })
    }

    fn booking(self) -> Value {
        json!({
            "booking_id": self.id("booking"), "response_id": self.id("response"),
            "title": "First call", "status": "confirmed", "starts_at": "2026-10-20T09:00:00Z",
            "ends_at": "2026-10-20T09:30:00Z", "duration_min": 30, "time_zone": "Europe/London",
            "join_url": "https://meet.example.com/first-call",
            "invitee": {"name": "Zoë Lefèvre", "email": self.email()},
        })
    }
}
