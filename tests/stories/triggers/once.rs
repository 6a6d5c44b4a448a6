//! What is told of once, and of whom: leads, plans, what waits in vain, two firms.

use super::*;

/// Once per person in the firm, whatever the response; used up where the plan does not have it.
#[rstest]
#[tokio::test]
async fn a_lead_becomes_hot_once_and_only_in_the_plan(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let story = Story::begin(first).await;
    story.report(&[story.submitted()]).await;
    let warm = story.event(
        "lead.scored",
        json!({"person": "zoe@example.com", "response_id": story.response, "band": "warm",
               "score": 40}),
    );
    assert_eq!(story.report(&[warm]).await, (1, 0));
    assert_eq!(story.report(&[story.hot("zoe@example.com")]).await, (1, 0));
    assert_eq!(story.report(&[story.hot("ZOE@Example.com")]).await, (0, 1));
    let without = json!({"plan": {"leads_in_full": false}});
    story.report(&[later(story.event("firm.changed", without), 1)]).await;
    assert_eq!(story.report(&[story.hot("bob@example.com")]).await, (1, 0));
    let with = json!({"plan": {"leads_in_full": true}});
    story.report(&[later(story.event("firm.changed", with), 2)]).await;
    assert_eq!(story.report(&[story.hot("bob@example.com")]).await, (0, 1), "used up");
    let arrived = story.arrived().await;
    assert_eq!(with_event(&arrived, "lead_hot").len(), 1);
}

/// What a batch says of the plan counts for the leads after it.
#[rstest]
#[tokio::test]
async fn a_plan_and_a_hot_lead_may_come_in_one_batch(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let mut story = Story::begin(first).await;
    let change = |story: &Story, leads: bool, second| {
        let plan = json!({"plan": {"leads_in_full": leads}});
        later(story.event("firm.changed", plan), second)
    };
    story.report(&[change(&story, false, 1), story.submitted(), story.hot("a@example.com")]).await;
    story.response = story.world.id();
    story.report(&[change(&story, true, 2), story.submitted(), story.hot("b@example.com")]).await;
    let arrived = story.arrived().await;
    assert_eq!(with_event(&arrived, "lead_hot").len(), 1);
}

/// Hot on a response that never comes, then on one that does: told of once.
#[rstest]
#[tokio::test]
async fn a_fact_that_waits_in_vain_stands_in_nobodys_way(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let mut story = Story::begin(first).await;
    story.report(&[story.hot("carl@example.com")]).await;
    story.response = story.world.id();
    story.report(&[story.hot("carl@example.com")]).await;
    story.report(&[story.submitted()]).await;
    let arrived = story.arrived().await;
    assert_eq!(with_event(&arrived, "lead_hot").len(), 1);
}

/// Two firms may use the same ids: each has its own.
#[rstest]
#[tokio::test]
async fn the_same_ids_in_two_firms_are_two_of_everything(
    #[values(FirstClaim::InAppend, FirstClaim::FromOutbox)] first: FirstClaim,
) {
    let story = Story::begin(first).await;
    let other = story.world.firm().await;
    let theirs = |event: Value| {
        let mut event = event;
        event["firmid"] = json!(other.id);
        if event["data"].get("form_id").is_some() {
            event["data"]["form_id"] = json!(other.form);
        }
        event
    };
    let created = || story.event("report.created", story.report_data("draft", false));
    let of_both = [
        theirs(story.submitted()),
        theirs(created()),
        created(),
        theirs(story.moved("report.approved")),
        story.moved("report.approved"),
    ];
    assert_eq!(story.report(&of_both).await, (5, 0));
    assert!(story.events().await.is_empty(), "the first firm's response is not known yet");
    story.report(&[story.submitted()]).await;
    assert_eq!(story.events().await.len(), 2);
}
