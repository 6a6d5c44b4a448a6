//! An id is a response's or a part's. A call that mixes them up is refused, and nobody waits for
//! ever.

use super::*;

/// The answer to a batch whose second report mixes up the kinds.
async fn refused(story: &Story, event: Value) -> (u16, String) {
    let harmless = story.event("address.restored", json!({"email": "z@example.com"}));
    let answer = story.world.report(&[harmless, event]).await;
    (answer.status.as_u16(), answer.body["error"].as_str().unwrap_or_default().to_owned())
}

/// A report's id in the place of a response's was once answered with 503 for ever.
#[rstest]
#[tokio::test]
async fn a_reports_id_names_no_response(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let mut story = Story::begin(first).await;
    let created = story.event("report.created", story.report_data("draft", false));
    story.report(&[story.submitted(), created]).await;
    let response = std::mem::replace(&mut story.response, story.report);
    let erased = story.event("response.erased", json!({"response_id": story.response}));
    assert_eq!(story.report(std::slice::from_ref(&erased)).await, (1, 0));
    assert_eq!(story.report(&[erased]).await, (0, 1));
    let why = "event 1: the response is known as a report or booking of another".to_owned();
    for event in [
        story.submitted(),
        story.saved("2026-11-01T11:50:00Z"),
        story.paid(),
        story.hot("zoe@example.com"),
        story.booked(),
    ] {
        assert_eq!(refused(&story, event.clone()).await, (400, why.clone()), "{event}");
    }
    story.response = response;
    story.report(&[story.moved("report.approved")]).await;
    let mut told = story.events().await;
    told.sort();
    assert_eq!(told, ["form_submitted", "report_approved"]);
}

/// A report or booking of another response may not have the id of a response. The refusal also
/// holds in one batch, whichever of the two came first.
#[rstest]
#[tokio::test]
async fn a_responses_id_names_no_foreign_part(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let mut story = Story::begin(first).await;
    let response = story.response;
    story.report(&[story.submitted()]).await;
    (story.response, story.report, story.booking) = (story.world.id(), response, response);
    let created = story.event("report.created", story.report_data("draft", false));
    let why = "event 1: the report or booking is known as another response".to_owned();
    for event in [created, story.booked()] {
        assert_eq!(refused(&story, event).await, (400, why.clone()));
    }
    let (first, second) = (story.world.id(), story.world.id());
    (story.response, story.report) = (first, second);
    let created = story.event("report.created", story.report_data("draft", false));
    story.response = second;
    let answer = story.world.report(&[created, story.submitted()]).await;
    assert_eq!(answer.status, 400);
}

/// A product may give a report, or a booking, the id of its response.
#[rstest]
#[tokio::test]
async fn a_part_may_share_its_responses_id(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let mut story = Story::begin(first).await;
    (story.report, story.booking) = (story.response, story.response);
    let created = || story.event("report.created", story.report_data("draft", false));
    let all = [created(), story.booked(), story.submitted(), story.moved("report.approved")];
    assert_eq!(story.report(&all).await, (4, 0));
    assert_eq!(story.report(&[story.paid(), story.cancelled()]).await, (2, 0));
    let mut told = story.events().await;
    told.sort();
    let expected = [
        "booking_cancelled",
        "booking_made",
        "form_submitted",
        "payment_received",
        "report_approved",
    ];
    assert_eq!(told, expected);
}
