//! Several reports and bookings on one response (ruling 14a), a part that is named for two
//! responses, and a response named for two forms.

use super::*;

/// The story's booking under another id, so many seconds later.
fn another_call(story: &mut Story, seconds: u32) -> (Uuid, Value) {
    let first = std::mem::replace(&mut story.booking, story.world.id());
    let event = later(story.booked(), seconds);
    (std::mem::replace(&mut story.booking, first), event)
}

/// The id of the booking in the payload of the one delivery of an event.
fn call_of(arrived: &[Received], event: &str) -> Value {
    let [one] = with_event(arrived, event)[..] else { panic!("{event} once") };
    one.json()["booking"]["id"].clone()
}

/// Both bookings on the response come in one batch. The payload shows the occurrence's own.
#[rstest]
#[tokio::test]
async fn the_first_of_two_bookings_is_sent(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let mut story = Story::begin(first).await;
    let (_, second) = another_call(&mut story, 5);
    let batch = [story.submitted(), story.booked(), second];
    assert_eq!(story.report(&batch).await, (3, 0));
    assert_eq!(call_of(&story.arrived().await, "booking_made"), json!(story.booking));
}

/// A second booking makes no occurrence, but it is taken in. Later payloads show the newest
/// booking, or the occurrence's own.
#[rstest]
#[tokio::test]
async fn a_second_booking_is_no_duplicate(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let mut story = Story::begin(first).await;
    assert_eq!(story.report(&[story.submitted(), story.booked()]).await, (2, 0));
    let (second, booked) = another_call(&mut story, 5);
    assert_eq!(story.report(std::slice::from_ref(&booked)).await, (1, 0));
    assert_eq!(story.report(&[booked.clone(), booked]).await, (0, 2));
    assert_eq!(story.report(&[story.booked()]).await, (0, 1), "the first again");
    story.report(&[story.paid(), story.cancelled()]).await;
    let arrived = story.arrived().await;
    assert_eq!(call_of(&arrived, "booking_made"), json!(story.booking));
    assert_eq!(call_of(&arrived, "payment_received"), json!(second), "the newest");
    assert_eq!(call_of(&arrived, "booking_cancelled"), json!(story.booking), "the event's own");
}

/// Bookings that come before their response count like later ones.
#[rstest]
#[tokio::test]
async fn two_bookings_before_their_response_are_two(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let mut story = Story::begin(first).await;
    let (second, booked) = another_call(&mut story, 5);
    assert_eq!(story.report(&[story.booked(), story.booked(), booked]).await, (2, 1));
    assert_eq!(story.report(&[story.booked()]).await, (0, 1));
    assert_eq!(story.report(&[story.submitted(), story.paid()]).await, (2, 0));
    let arrived = story.arrived().await;
    assert_eq!(call_of(&arrived, "booking_made"), json!(story.booking));
    assert_eq!(call_of(&arrived, "payment_received"), json!(second));
}

/// A report or booking belongs to the first response that it is named for. Naming it for another is
/// refused, and nothing of the refused part gets into a payload.
#[rstest]
#[tokio::test]
async fn a_part_stays_with_its_first_response(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let mut story = Story::begin(first).await;
    let created = story.event("report.created", story.report_data("draft", false));
    story.report(&[story.submitted(), created, story.booked()]).await;
    let first = std::mem::replace(&mut story.response, story.world.id());
    let mut theirs = story.report_data("approved", false);
    theirs["title"] = json!("Somebody else's");
    let theirs = later(story.event("report.changed", theirs), 5);
    for (part, why) in [
        (theirs, "event 1: the report is on another response"),
        (later(story.booked(), 5), "event 1: the booking is on another response"),
    ] {
        let refused = story.world.report(&[story.submitted(), part]).await;
        assert_eq!(
            (refused.code(), &refused.body["error"]),
            ((400, "invalid_request"), &json!(why))
        );
    }
    story.report(&[story.moved("report.approved"), story.cancelled()]).await;
    let arrived = story.arrived().await;
    for event in ["report_approved", "booking_cancelled"] {
        let [one] = with_event(&arrived, event)[..] else { panic!("{event} once") };
        let payload = one.json();
        assert_eq!(payload["response"]["id"], json!(first));
        assert_eq!(payload["report"]["title"], "Your report");
        assert_eq!(payload["booking"]["id"], json!(story.booking));
    }
}

/// One batch names a report for two responses.
#[rstest]
#[tokio::test]
async fn a_batch_naming_two_responses_is_refused(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let mut story = Story::begin(first).await;
    let first = story.event("report.created", story.report_data("draft", false));
    story.response = story.world.id();
    let second = later(story.event("report.changed", story.report_data("draft", false)), 1);
    let refused = story.world.report(&[first, second]).await;
    let why = json!("event 1: the report is on another response");
    assert_eq!((refused.status.as_u16(), &refused.body["error"]), (400, &why));
}

/// A response belongs to the first form that it is named for, in any order of the activities. It
/// was once recorded under both. No activity is refused.
#[rstest]
#[tokio::test]
async fn a_response_belongs_to_one_form(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    for saved_first in [true, false] {
        let story = Story::begin(first).await;
        let form = json!({
            "form_id": story.world.id(), "title": "Another", "slug": "another",
            "url": "https://forms.test/f/another", "status": "published", "hidden_fields": [],
            "created_at": "2026-10-01T09:30:00.000Z",
        });
        story.report(&[story.event("form.created", form.clone())]).await;
        let mut submitted = story.submitted();
        submitted["data"]["form_id"] = form["form_id"].clone();
        let mut reports = [story.saved("2026-11-01T11:50:00Z"), submitted, story.paid()];
        if !saved_first {
            reports.swap(0, 1);
        }
        for report in reports {
            story.report(&[report]).await;
        }
        let title = if saved_first { "New client enquiry" } else { "Another" };
        let arrived = story.arrived().await;
        for event in ["form_submitted", "payment_received"] {
            let [one] = with_event(&arrived, event)[..] else { panic!("{event} once") };
            assert_eq!(one.json()["form"]["title"], title, "{event}, saved first: {saved_first}");
        }
        let first = if saved_first { json!(story.firm.form) } else { form["form_id"].clone() };
        let kept = format!("responses where form_id = '{}'", first.as_str().unwrap());
        assert_eq!(story.world.count(&kept).await, 1);
    }
}
