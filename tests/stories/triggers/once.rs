//! Occurrences that come once: leads, plans, facts that wait in vain, two firms.

use super::*;

/// A person becomes hot once in the firm, on any response. The lead is used up if the plan does not
/// have it.
#[rstest]
#[tokio::test]
async fn a_lead_becomes_hot_once(
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

#[rstest]
#[tokio::test]
async fn a_batchs_plan_counts_for_later_leads(
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

/// A lead is hot on a response that never comes, then on one that does. One occurrence is recorded.
#[rstest]
#[tokio::test]
async fn a_stranded_fact_blocks_no_other(
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

/// Each firm has its own response, report and occurrences.
#[rstest]
#[tokio::test]
async fn two_firms_may_share_all_ids(
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
