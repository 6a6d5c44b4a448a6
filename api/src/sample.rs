//! Samples: an occurrence in the shape of a delivery, from a real submission as far as there is one
//! (contract, section GET /triggers/{trigger}/sample; ruling 14b).

use std::collections::BTreeMap;

use chrono::TimeDelta;
use uuid::Uuid;

use domain::activity::{
    AnsweredQuestion, Booking, FormVariables, Invitee, ReportDocument, Respondent, ResponseDocument,
};
use domain::delivery::{EventPayload, FormPart, PayloadSource};
use domain::subscription::Trigger;
use domain::values::Timestamp;

/// The firm's latest submission, with its report and booking.
#[derive(Clone, Debug)]
pub struct LatestSubmission {
    /// The form.
    pub form: FormPart,
    /// The response.
    pub response_id: Uuid,
    /// Time of the submission.
    pub submitted_at: Timestamp,
    /// The answers.
    pub document: ResponseDocument,
    /// The response's newest report.
    pub report: Option<ReportDocument>,
    /// The response's newest booking.
    pub booking: Option<Booking>,
}

/// A sample for the trigger, from this submission. Parts that the trigger implies and the response
/// lacks are made up.
#[must_use]
pub fn of_submission(trigger: Trigger, latest: &LatestSubmission) -> EventPayload {
    let made_up = SampleSubmission::new(trigger, latest.submitted_at);
    let report = latest.report.clone();
    let booking = latest.booking.clone();
    let report = report.map(|report| with_status(trigger, report, |report| &mut report.status));
    let booking =
        booking.map(|booking| with_status(trigger, booking, |booking| &mut booking.status));
    EventPayload::new(PayloadSource {
        trigger,
        form: latest.form.clone(),
        response_id: latest.response_id,
        submitted_at: latest.submitted_at,
        document: &latest.document,
        report: report.as_ref().or_else(|| made_up.report_for(trigger)),
        booking: booking.as_ref().or_else(|| made_up.booking_for(trigger)),
    })
}

/// A made-up sample for the trigger, with the given form if there is one.
#[must_use]
pub fn made_up(trigger: Trigger, form: Option<FormPart>, now: Timestamp) -> EventPayload {
    let made_up = SampleSubmission::new(trigger, now);
    EventPayload::new(PayloadSource {
        trigger,
        form: form.unwrap_or_else(made_up_form),
        response_id: sample_id(2),
        submitted_at: now,
        document: &made_up.document,
        report: made_up.report_for(trigger),
        booking: made_up.booking_for(trigger),
    })
}

/// The part with the status that the trigger gives it, such as `cancelled` or `approved`.
fn with_status<P>(trigger: Trigger, mut part: P, status: impl Fn(&mut P) -> &mut String) -> P {
    if let Some(word) = status_after(trigger) {
        word.clone_into(status(&mut part));
    }
    part
}

const fn status_after(trigger: Trigger) -> Option<&'static str> {
    match trigger {
        Trigger::BookingCancelled => Some("cancelled"),
        Trigger::ReportApproved => Some("approved"),
        _ => None,
    }
}

fn made_up_form() -> FormPart {
    FormPart {
        id: sample_id(1).into(),
        title: "Sample form".to_owned(),
        url: "https://forms.example.com/f/sample".to_owned(),
    }
}

/// A made-up person and response.
struct SampleSubmission {
    document: ResponseDocument,
    report: ReportDocument,
    booking: Booking,
}

impl SampleSubmission {
    fn new(trigger: Trigger, now: Timestamp) -> Self {
        let booking = with_status(trigger, sample_booking(now), |booking| &mut booking.status);
        Self { document: sample_document(), report: sample_report(), booking }
    }

    /// A payment is for a report or a consultation. The sample shows the report.
    fn report_for(&self, trigger: Trigger) -> Option<&ReportDocument> {
        match trigger {
            Trigger::ReportApproved
            | Trigger::ReportSent
            | Trigger::ReportOpened
            | Trigger::PaymentReceived => Some(&self.report),
            Trigger::FormSubmitted
            | Trigger::PartialSubmission
            | Trigger::BookingMade
            | Trigger::BookingRescheduled
            | Trigger::BookingCancelled
            | Trigger::LeadHot => None,
        }
    }

    fn booking_for(&self, trigger: Trigger) -> Option<&Booking> {
        match trigger {
            Trigger::BookingMade | Trigger::BookingRescheduled | Trigger::BookingCancelled => {
                Some(&self.booking)
            }
            Trigger::FormSubmitted
            | Trigger::PartialSubmission
            | Trigger::ReportApproved
            | Trigger::ReportSent
            | Trigger::ReportOpened
            | Trigger::PaymentReceived
            | Trigger::LeadHot => None,
        }
    }
}

/// Made-up ids are constant and visibly no real ids.
const fn sample_id(n: u128) -> Uuid {
    Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0000 + n)
}

fn sample_document() -> ResponseDocument {
    ResponseDocument {
        device: "mobile".to_owned(),
        lang: "en".to_owned(),
        ending: "default".to_owned(),
        respondent: Respondent {
            name: "Jane Example".to_owned(),
            first_name: "Jane".to_owned(),
            last_name: "Example".to_owned(),
            email: "jane@example.com".to_owned(),
            phone: "+1 202 555 0143".to_owned(),
            company: "Example Ltd".to_owned(),
        },
        answers: vec![
            sample_answer("contact", "How can we reach you?", "contact_group", "Jane Example"),
            sample_answer("service", "What do you need?", "short_text", "Bookkeeping"),
            sample_answer(
                "details",
                "Tell us more",
                "long_text",
                "We need help with our year end.",
            ),
        ],
        variables: FormVariables::default(),
        hidden: BTreeMap::from([("utm_source".to_owned(), "newsletter".to_owned())]),
    }
}

fn sample_answer(id: &str, question: &str, kind: &str, answer: &str) -> AnsweredQuestion {
    AnsweredQuestion {
        id: id.to_owned(),
        question: question.to_owned(),
        kind: kind.to_owned(),
        answer: answer.to_owned(),
    }
}

fn sample_report() -> ReportDocument {
    ReportDocument {
        id: sample_id(3).into(),
        title: "Sample report".to_owned(),
        status: "approved".to_owned(),
        summary: Some("A short summary of what was found.".to_owned()),
        highlights: vec!["A first point".to_owned(), "A second point".to_owned()],
        review_url: "https://forms.example.com/reports/sample".to_owned(),
        locked: false,
    }
}

/// A booking of half an hour, one day later.
fn sample_booking(now: Timestamp) -> Booking {
    let starts_at = now.get() + TimeDelta::days(1);
    Booking {
        id: sample_id(4).into(),
        title: "Introductory call".to_owned(),
        status: "confirmed".to_owned(),
        starts_at: starts_at.into(),
        ends_at: (starts_at + TimeDelta::minutes(30)).into(),
        duration_min: 30,
        time_zone: "Europe/London".to_owned(),
        location: "Video call".to_owned(),
        join_url: "https://meet.example.com/sample".to_owned(),
        invitee: Invitee {
            name: "Jane Example".to_owned(),
            email: "jane@example.com".to_owned(),
            phone: "+1 202 555 0143".to_owned(),
            time_zone: "Europe/London".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        "2026-11-01T10:00:00.000Z".parse().unwrap()
    }

    fn latest() -> LatestSubmission {
        LatestSubmission {
            form: FormPart {
                id: sample_id(9).into(),
                title: "Intake".into(),
                url: "https://f".into(),
            },
            response_id: sample_id(8),
            submitted_at: now(),
            document: ResponseDocument { ending: "vip".into(), ..sample_document() },
            report: None,
            booking: None,
        }
    }

    fn json_of(payload: &EventPayload) -> Value {
        serde_json::to_value(payload).unwrap()
    }

    #[rstest]
    #[case(Trigger::FormSubmitted, false, None, false)]
    #[case(Trigger::PartialSubmission, false, None, true)]
    #[case(Trigger::ReportApproved, true, None, false)]
    #[case(Trigger::ReportSent, true, None, false)]
    #[case(Trigger::ReportOpened, true, None, false)]
    #[case(Trigger::PaymentReceived, true, None, false)]
    #[case(Trigger::BookingMade, false, Some("confirmed"), false)]
    #[case(Trigger::BookingRescheduled, false, Some("confirmed"), false)]
    #[case(Trigger::BookingCancelled, false, Some("cancelled"), false)]
    #[case(Trigger::LeadHot, false, None, false)]
    fn a_sample_has_its_triggers_parts(
        #[case] trigger: Trigger,
        #[case] report: bool,
        #[case] booking: Option<&str>,
        #[case] partial: bool,
    ) {
        let made_up = json_of(&made_up(trigger, None, now()));
        let real = json_of(&of_submission(trigger, &latest()));
        for sample in [&made_up, &real] {
            assert_eq!(sample["event"], trigger.key());
            assert_eq!(sample["report"].is_object(), report);
            assert_eq!(sample.get("booking").is_some(), booking.is_some());
            assert_eq!(sample.get("partial").is_some(), partial);
            assert_eq!(sample["fields"]["service"], "Bookkeeping");
        }
        for sample in [&made_up, &real] {
            assert_eq!(sample["booking"]["status"].as_str(), booking);
        }
        assert_eq!(
            (&real["form"]["id"], &real["response"]["id"]),
            (&json!(sample_id(9)), &json!(sample_id(8)))
        );
        let ending = if partial { "" } else { "vip" };
        assert_eq!(real["response"]["ending"], ending);
    }

    #[test]
    fn a_made_up_sample_has_the_form() {
        let form = latest().form;
        let sample = made_up(Trigger::FormSubmitted, Some(form.clone()), now());
        assert_eq!(sample.form, form);
        assert_eq!(sample.response.submitted_at, now());
    }

    /// A real part was shown as no delivery of the trigger shows one.
    #[test]
    fn a_real_part_has_the_triggers_state() {
        let in_review = ReportDocument { status: "in_review".into(), ..sample_report() };
        let (report, booking) = (Some(in_review), Some(sample_booking(now())));
        let latest = LatestSubmission { report, booking, ..latest() };
        let cancelled = json_of(&of_submission(Trigger::BookingCancelled, &latest));
        assert_eq!(cancelled["booking"]["status"], "cancelled");
        let approved = json_of(&of_submission(Trigger::ReportApproved, &latest));
        assert_eq!(approved["report"]["status"], "approved");
        let submitted = json_of(&of_submission(Trigger::FormSubmitted, &latest));
        assert_eq!(submitted["report"]["status"], "in_review");
        assert_eq!(submitted["booking"]["status"], "confirmed");
    }

    #[test]
    fn real_parts_are_not_made_up() {
        let real = ReportDocument { title: "Real".into(), ..sample_report() };
        let latest = LatestSubmission {
            report: Some(real),
            booking: Some(sample_booking(now())),
            ..latest()
        };
        let sample = of_submission(Trigger::FormSubmitted, &latest);
        assert_eq!(sample.report.unwrap().title, "Real");
        assert!(sample.booking.is_some());
    }
}
