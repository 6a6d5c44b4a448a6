//! A hot lead makes an occurrence, or is used up, by the plan at the first hot report of the person
//! (rulings, section Occurrences). The wait of that report for its response does not matter.

use super::*;

fn plan(story: &Story, leads_in_full: bool, second: u32) -> Value {
    let plan = json!({"plan": {"leads_in_full": leads_in_full}});
    later(story.event("firm.changed", plan), second)
}

/// A person is reported hot twice, and the firm's plan changes in between: on a response that is
/// not known yet, and on one that is. Returns the number of hot leads that arrived when both are
/// known.
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

/// The waiting lead was once lost with the plan.
#[tokio::test]
async fn a_waiting_hot_lead_outlives_the_plan() {
    assert_eq!((told(true, false).await, told(true, true).await), (1, 1));
}

/// A lead that was used up while it waited was once sent.
#[tokio::test]
async fn a_used_up_lead_stays_used_up() {
    assert_eq!((told(false, false).await, told(false, true).await), (0, 0));
}
