//! `partial_submission`: an hour after the last answer, unless somebody goes on.

use super::*;

/// The hour begins with the last answer, and the partial comes once.
#[rstest]
#[tokio::test]
async fn a_partial_follows_an_hours_silence(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let story = Story::begin(first).await;
    story.report(&[story.saved("2026-11-01T11:50:00Z")]).await;
    story.world.pass(HOUR / 2);
    story.report(&[story.saved("2026-11-01T12:20:00.500Z")]).await;
    story.world.pass(HOUR - Duration::from_millis(1));
    story.world.time_out().await;
    assert!(story.arrived().await.is_empty(), "an hour after the last answer, not the first");
    story.world.pass(Duration::from_millis(1));
    story.world.time_out().await;
    let arrived = story.arrived().await;
    let [partial] = &arrived[..] else { panic!("once") };
    assert_eq!(partial.header("x-service-event"), "partial_submission");
    let payload = partial.json();
    assert_eq!(payload["response"]["submitted_at"], "2026-11-01T12:20:00.500Z");
    assert_eq!(payload["response"]["ending"], "");
    let about = json!({"last_answer_at": "2026-11-01T12:20:00.500Z", "answered": 1});
    assert_eq!(payload["partial"], about);
    story.report(&[story.saved("2026-11-01T13:30:00Z")]).await;
    story.world.pass(2 * HOUR);
    story.world.time_out().await;
    assert_eq!(story.events().await, ["partial_submission"], "once");
    story.report(&[story.submitted()]).await;
    assert_eq!(story.events().await, ["partial_submission", "form_submitted"]);
}

/// A response without an answer, or finished in time, leaves nothing unfinished.
#[rstest]
#[tokio::test]
async fn finished_and_empty_responses_are_no_partials(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let story = Story::begin(first).await;
    let opened = json!({"response_id": story.world.id(), "form_id": story.firm.form,
                        "saved_at": "2026-11-01T11:50:00Z"});
    story.report(&[story.event("response.saved", opened)]).await;
    story.report(&[story.saved("2026-11-01T11:50:00Z")]).await;
    story.world.pass(HOUR - Duration::from_millis(1));
    story.report(&[story.submitted()]).await;
    story.world.pass(2 * HOUR);
    story.world.time_out().await;
    assert_eq!(story.events().await, ["form_submitted"]);
}

/// Ruling 27: the response is submitted after the timer and before the first attempt. The cause is
/// `finished_later`.
#[rstest]
#[tokio::test]
async fn a_partial_finished_meanwhile_is_cancelled(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let story = Story::begin(first).await;
    story.report(&[story.saved("2026-11-01T11:50:00Z")]).await;
    story.world.pass(HOUR);
    story.world.time_out().await;
    story.report(&[story.submitted()]).await;
    assert_eq!(story.events().await, ["form_submitted"]);
    let causes: Vec<(String, String)> =
        sqlx::query_as("select trigger, cause from deliveries where state = 'cancelled'")
            .fetch_all(story.world.pool())
            .await
            .unwrap();
    assert_eq!(causes, [("partial_submission".to_owned(), "finished_later".to_owned())]);
}

/// The timer and the submission race 500 times. The partial counts only if its commit came first,
/// and then it is cancelled before its first attempt. The winner starts later the next time, so
/// that both keep about level on any machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_racing_submission_always_counts() {
    let mut story = Story::begin(FirstClaim::FromOutbox).await;
    let mut firsts = 0;
    let mut handicap = Handicap::default();
    for race in 0..500_u32 {
        story.response = story.world.id();
        story.report(&[story.saved("2026-11-01T11:50:00Z")]).await;
        story.world.pass(HOUR);
        let timer = async {
            handicap.first().await;
            story.world.time_out().await;
        };
        let submission = async {
            handicap.second().await;
            story.report(&[story.submitted()]).await;
        };
        tokio::join!(timer, submission);
        let order: Vec<String> = sqlx::query_scalar(
            "select payload -> 'OccurrenceRecorded' ->> 'trigger' from events
              where aggregate_type = 'Occurrence'
                and payload -> 'OccurrenceRecorded' ->> 'response_id' = $1 order by position",
        )
        .bind(story.response.to_string())
        .fetch_all(story.world.pool())
        .await
        .unwrap();
        let partial_first = order.len() == 2;
        firsts += usize::from(partial_first);
        handicap.after(partial_first);
        assert!(
            order == ["form_submitted"] || order == ["partial_submission", "form_submitted"],
            "race {race}, {handicap:?}: {order:?}"
        );
    }
    assert!((1..500).contains(&firsts), "both came about: {firsts}");
    story.world.deliver().await;
    let told: Vec<(String, String, i64)> = sqlx::query_as(
        "select trigger, state, count(*) from deliveries group by 1, 2 order by 1, 2",
    )
    .fetch_all(story.world.pool())
    .await
    .unwrap();
    let partials = i64::try_from(firsts).unwrap();
    let expected = [
        ("form_submitted".to_owned(), "delivered".to_owned(), 500),
        ("partial_submission".to_owned(), "cancelled".to_owned(), partials),
    ];
    assert_eq!(told, expected);
}
