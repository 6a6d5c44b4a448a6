//! A hot lead is told of, or used up, by what the firm paid for when the person was first reported hot
//! (rulings, section Occurrences), however long that report waits for its response.

use super::*;

fn plan(story: &Story, leads_in_full: bool, second: u32) -> Value {
    let plan = json!({"plan": {"leads_in_full": leads_in_full}});
    later(story.event("firm.changed", plan), second)
}

/// A person reported hot twice, the firm's plan changed in between: on a response that is not known
/// yet, and on one that is. How many hot leads were told of when both are known.
async fn told(in_plan_at_first: bool, in_one_batch: bool) -> usize {
    let mut story = Story::begin(FirstClaim::FromOutbox).await;
    story.report(&[plan(&story, in_plan_at_first, 1), story.submitted()]).await;
    let there = std::mem::replace(&mut story.response, story.world.id());
    let unknown = story.hot("zoe@example.com");
    let not_there_yet = std::mem::replace(&mut story.response, there);
    let reports = [unknown, plan(&story, !in_plan_at_first, 2), story.hot("zoe@example.com")];
    if in_one_batch {
        story.report(&reports).await;
    } else {
        for report in reports {
            story.report(&[report]).await;
        }
    }
    story.response = not_there_yet;
    story.report(&[story.submitted()]).await;
    let arrived = story.arrived().await;
    with_event(&arrived, "lead_hot").len()
}

#[tokio::test]
async fn a_hot_lead_that_waited_was_lost_with_the_plan() {
    assert_eq!((told(true, false).await, told(true, true).await), (1, 1));
}

#[tokio::test]
async fn a_hot_lead_that_was_used_up_while_it_waited_was_told_of() {
    assert_eq!((told(false, false).await, told(false, true).await), (0, 0));
}
