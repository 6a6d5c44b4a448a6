//! One replay: how far it is, and commands about it.

use axum::extract::State;
use maud::{Markup, html};

use super::replays::ListedReplay;
use crate::SharedState;
use crate::frame::{self, PageContent};
use crate::parts::{self, OfferedCommand};
use crate::visit::{PageAnswer, PageVisit};

/// Shows a replay.
pub(crate) async fn show(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let api = visit.api_path(&format!("/replays/{}", visit.path_part("id")?));
    visit.show_answer(&state, &api, |found: &ListedReplay| replay_content(&visit, found)).await
}

fn replay_content(visit: &PageVisit, found: &ListedReplay) -> PageContent {
    let waiting = found.outcomes.get("waiting").copied().unwrap_or_default();
    let outcomes = html! {
        @for (outcome, count) in &found.outcomes { (outcome) " " (count) " " }
        @if found.outcomes.is_empty() { (parts::no_value()) }
    };
    let firm = format!("/console/firms/{}", found.firm_id);
    let facts = [
        ("State", parts::state(&found.state)),
        ("Firm", parts::id_link(&firm, &found.firm_id)),
        ("Done", parts::share_bar(found.selected - waiting, found.selected)),
        ("Outcomes", outcomes),
        ("Rate", html! { (found.rate_per_second) " a second" }),
        ("Delivered ones too", html! { (if found.force { "yes" } else { "no" }) }),
        ("Ordered", parts::time(found.requested_at, visit.now)),
        ("Ended", parts::time_or_none(found.ended_at, visit.now)),
        ("Reason", parts::foreign_text(&found.reason)),
    ];
    let content = html! {
        (parts::fact_list(&facts))
        @if visit.may_act() && found.ended_at.is_none() { (command_section(visit, found)) }
    };
    PageContent::new(&format!("Replay {}", found.id), content).with_data()
}

fn command_section(visit: &PageVisit, found: &ListedReplay) -> Markup {
    let action = format!("/console/replays/{}/change", found.id);
    let is_paused = found.state == "paused";
    let [word, name] = if is_paused { ["resume", "Resume"] } else { ["pause", "Pause"] };
    let stop = OfferedCommand {
        action: &action,
        name: "Stop for good",
        effect: "Ends the replay. The waiting deliveries are not sent, and nobody can resume it.",
        fields: html! {
            (parts::hidden_field("change", "stop"))
            label { "Write STOP, to be sure " input name="word" required autocomplete="off"; }
        },
    };
    let content = html! {
        form.buttons method="post" action=(action) {
            (frame::form_fields(visit))
            button name="change" value=(word) { (name) }
        }
        (parts::command_form(visit, &stop))
    };
    parts::section("commands", "Commands", &content)
}
