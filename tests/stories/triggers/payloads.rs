//! Each trigger's payload, whole, against the contract's tables (section EventPayload).

use super::*;

/// The part that all payloads of the story's response share, while it has neither report nor
/// booking.
fn payload(story: &Story, event: &str) -> Value {
    json!({
        "event": event,
        "form": {"id": story.firm.form, "title": "New client enquiry",
                 "url": "https://forms.test/f/enquiry"},
        "response": {"id": story.response, "submitted_at": "2026-11-01T11:59:58.250Z",
                     "device": "mobile", "lang": "fr", "ending": "vip"},
        "respondent": respondent(),
        "answers": answers(),
        "fields": {"q1": "Zoé Lefèvre", "q2": "🎉 \"moi\"", "q3": "Parce que…\nvoilà"},
        "variables": variables(),
        "hidden": hidden(),
        "report": null,
    })
}

/// The payload as long as nobody finished the response.
fn unfinished(story: &Story) -> Value {
    let mut payload = payload(story, "partial_submission");
    payload["response"]["submitted_at"] = json!("2026-11-01T11:50:00.000Z");
    payload["response"]["ending"] = json!("");
    payload["answers"] = json!([answers()[0]]);
    payload["fields"] = json!({"q1": "Zoé Lefèvre"});
    payload["partial"] = json!({"last_answer_at": "2026-11-01T11:50:00.000Z", "answered": 1});
    payload
}

/// Sold and not yet paid for: neither summary nor highlights.
fn locked(story: &Story, status: &str) -> Value {
    json!({"id": story.report, "title": "Your report", "status": status, "summary": null,
           "highlights": [], "review_url": "https://forms.test/r/1"})
}

fn unlocked(story: &Story, status: &str) -> Value {
    let mut report = locked(story, status);
    report["summary"] = json!("In short");
    report["highlights"] = json!(["a", "b"]);
    report
}

fn call(story: &Story) -> Value {
    json!({
        "id": story.booking, "title": "Call", "status": "confirmed",
        "starts_at": "2026-11-02T09:00:00.000Z", "ends_at": "2026-11-02T09:30:00.000Z",
        "duration_min": 30, "time_zone": "Europe/Paris", "location": "Video",
        "join_url": "https://meet.test/1",
        "invitee": {"name": "Zoé L", "email": "zoe@example.com", "phone": "",
                    "time_zone": "Europe/Paris"},
    })
}

/// The booking at its time on the third.
fn moved_call(story: &Story) -> Value {
    let mut call = call(story);
    call["starts_at"] = json!("2026-11-03T10:00:00.000Z");
    call["ends_at"] = json!("2026-11-03T10:45:00.000Z");
    call["duration_min"] = json!(45);
    call["time_zone"] = json!("Europe/London");
    call
}

/// The payload of the one delivery that these reports lead to.
async fn told(story: &Story, events: &[Value]) -> Value {
    let before = story.receiver.received().len();
    story.report(events).await;
    let arrived = story.arrived().await;
    let [one] = &arrived[before..] else { panic!("one of {events:?}: {arrived:?}") };
    let payload = one.json();
    assert_eq!(payload["event"], one.header("x-service-event"));
    payload
}

#[rstest]
#[tokio::test]
async fn each_triggers_payload_follows_the_tables(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let story = Story::begin(first).await;
    story.report(&[story.saved("2026-11-01T11:50:00Z")]).await;
    story.world.pass(HOUR);
    story.world.time_out().await;
    assert_eq!(told(&story, &[]).await, unfinished(&story));
    assert_eq!(told(&story, &[story.submitted()]).await, payload(&story, "form_submitted"));

    let with = |event: &str, report: Value| {
        let mut payload = payload(&story, event);
        payload["report"] = report;
        payload
    };
    let created = story.event("report.created", story.report_data("draft", true));
    let approved = told(&story, &[created, story.moved("report.approved")]).await;
    assert_eq!(approved, with("report_approved", locked(&story, "approved")));
    let sent = told(&story, &[story.moved("report.sent")]).await;
    assert_eq!(sent, with("report_sent", locked(&story, "approved")));
    let opened = story.event("report.changed", story.report_data("approved", false));
    let paid = told(&story, &[later(opened, 1), story.paid()]).await;
    assert_eq!(paid, with("payment_received", unlocked(&story, "approved")));
    let opened = told(&story, &[story.moved("report.opened")]).await;
    assert_eq!(opened, with("report_opened", unlocked(&story, "approved")));

    let with = |event: &str, call: Value| {
        let mut payload = with(event, unlocked(&story, "approved"));
        payload["booking"] = call;
        payload
    };
    let made = told(&story, &[story.booked()]).await;
    assert_eq!(made, with("booking_made", call(&story)));
    let moved = told(&story, &[story.rescheduled(3)]).await;
    assert_eq!(moved, with("booking_rescheduled", moved_call(&story)));
    let mut gone = moved_call(&story);
    gone["status"] = json!("cancelled");
    let cancelled = told(&story, &[story.cancelled()]).await;
    assert_eq!(cancelled, with("booking_cancelled", gone.clone()));
    let hot = told(&story, &[story.hot("zoe@example.com")]).await;
    assert_eq!(hot, with("lead_hot", gone));
    assert_eq!(story.events().await.len(), Trigger::ALL.len(), "each trigger once");
}

/// Each payload has the report as it is.
#[rstest]
#[tokio::test]
async fn report_triggers_come_once_each(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let story = Story::begin(first).await;
    let created = story.event("report.created", story.report_data("draft", false));
    story.report(&[story.submitted(), created]).await;
    for kind in ["report.approved", "report.sent", "report.opened"] {
        assert_eq!(story.report(&[story.moved(kind)]).await, (1, 0));
        assert_eq!(story.report(&[story.moved(kind), story.moved(kind)]).await, (0, 2));
    }
    let arrived = story.arrived().await;
    for event in ["report_approved", "report_sent", "report_opened"] {
        let [one] = with_event(&arrived, event)[..] else { panic!("{event} once") };
        let mut expected = payload(&story, event);
        expected["report"] = unlocked(&story, "approved");
        assert_eq!(one.json(), expected);
    }
    assert_eq!(arrived.len(), 4);
}

/// A report may be paid for before any other occurrence about it.
#[rstest]
#[tokio::test]
async fn a_repeated_payment_makes_one_delivery(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let story = Story::begin(first).await;
    let report = story.event("report.created", story.report_data("approved", false));
    story.report(&[story.submitted(), report, story.paid()]).await;
    assert_eq!(story.report(&[story.paid()]).await, (0, 1));
    let arrived = story.arrived().await;
    let [paid] = with_event(&arrived, "payment_received")[..] else { panic!("once") };
    assert_eq!(paid.json()["report"], unlocked(&story, "approved"));
}

#[rstest]
#[tokio::test]
async fn a_booking_is_made_moved_and_cancelled(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let story = Story::begin(first).await;
    story.report(&[story.submitted(), story.booked()]).await;
    for day in [3, 4] {
        assert_eq!(story.report(&[story.rescheduled(day)]).await, (1, 0));
        assert_eq!(story.report(&[story.rescheduled(day)]).await, (0, 1));
        let arrived = story.arrived().await;
        let moved = with_event(&arrived, "booking_rescheduled").last().unwrap().json();
        assert_eq!(moved["booking"]["starts_at"], format!("2026-11-0{day}T10:00:00.000Z"));
    }
    assert_eq!(story.report(&[story.cancelled(), story.cancelled()]).await, (1, 1));
    let arrived = story.arrived().await;
    assert_eq!(with_event(&arrived, "booking_cancelled").len(), 1);
    assert_eq!(with_event(&arrived, "booking_rescheduled").len(), 2);
    assert_eq!(arrived.len(), 5);
}

/// The payload is read when the delivery goes out: a report approved meanwhile is in it.
#[tokio::test]
async fn a_payload_shows_the_newest_report() {
    let story = Story::begin(FirstClaim::FromOutbox).await;
    story.report(&[story.submitted()]).await;
    let created = story.event("report.created", story.report_data("draft", false));
    story.report(&[created, story.moved("report.approved")]).await;
    let arrived = story.arrived().await;
    assert_eq!(with_event(&arrived, "form_submitted")[0].json()["report"]["status"], "approved");
}
