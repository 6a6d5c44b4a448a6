//! One replay: how far it is, and commands about it.

use axum::extract::State;
use maud::{Markup, html};

use super::replays::ListedReplay;
use crate::SharedState;
use crate::frame::{self, PageContent};
use crate::parts;
use crate::visit::{PageAnswer, PageVisit};

/// Shows a replay.
pub(crate) async fn show(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let api = visit.api(&format!("/replays/{}", visit.part("id")?));
    visit.shown(&state, &api, |found: &ListedReplay| content(&visit, found)).await
}

fn content(visit: &PageVisit, found: &ListedReplay) -> PageContent {
    let waiting = found.outcomes.get("waiting").copied().unwrap_or_default();
    let outcomes = html! {
        @for (outcome, count) in &found.outcomes { (outcome) " " (count) " " }
        @if found.outcomes.is_empty() { (parts::none()) }
    };
    let firm = format!("/console/firms/{}", found.firm_id);
    let facts = [
        ("State", parts::state(&found.state)),
        ("Firm", parts::id(&firm, &found.firm_id)),
        ("Done", parts::share(found.selected - waiting, found.selected)),
        ("Outcomes", outcomes),
        ("Rate", html! { (found.rate_per_second) " a second" }),
        ("Delivered ones too", html! { (if found.force { "yes" } else { "no" }) }),
        ("Ordered", parts::time(found.requested_at, visit.now)),
        ("Ended", parts::time_or_none(found.ended_at, visit.now)),
        ("Reason", parts::foreign(&found.reason)),
    ];
    let content = html! {
        (parts::facts(&facts))
        @if visit.may_act() && found.ended_at.is_none() { (commands(visit, found)) }
    };
    PageContent::of(&format!("Replay {}", found.id), content).with_data()
}

fn commands(visit: &PageVisit, found: &ListedReplay) -> Markup {
    let action = format!("/console/replays/{}/change", found.id);
    let buttons: &[[&str; 2]] = if found.state == "paused" {
        &[["resume", "Resume"], ["stop", "Stop for good"]]
    } else {
        &[["pause", "Pause"], ["stop", "Stop for good"]]
    };
    let content = html! {
        form.buttons method="post" action=(action) {
            (frame::hidden(visit))
            @for [word, name] in buttons { button name="change" value=(word) { (name) } }
        }
    };
    parts::section("commands", "Commands", &content)
}
