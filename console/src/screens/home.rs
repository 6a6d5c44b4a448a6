//! Home: first all that needs a decision, then the numbers of a day. Each leads to its list.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};

use super::firms::{self, ListedFirm};
use super::pauses::{self, ListedPause};
use super::proof::ProofState;
use super::receivers::ListedReceiver;
use super::replays::{self, ListedReplay};
use crate::SharedState;
use crate::ask::ListAnswer;
use crate::parts::{self, EmptyList};
use crate::visit::{PageAnswer, PageVisit};

/// Everything on the page.
struct HomeFindings {
    /// Absent for a token that reaches some firms only.
    receivers: Option<Vec<ListedReceiver>>,
    replays: Vec<ListedReplay>,
    pauses: Vec<ListedPause>,
    proof: ProofState,
    firms: Vec<ListedFirm>,
}

/// Shows the home.
pub(crate) async fn show(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let session = &visit.session;
    let reaches_all = session.holder().reaches_all();
    let receivers = if reaches_all {
        let all: ListAnswer<ListedReceiver> =
            state.ask_json(session, "/internal/v1/receivers?limit=500").await?;
        Some(all.items)
    } else {
        None
    };
    let replays = if reaches_all {
        let all: ListAnswer<ListedReplay> =
            state.ask_json(session, "/internal/v1/replays?limit=20").await?;
        all.items.into_iter().filter(|replay| replay.ended_at.is_none()).collect()
    } else {
        Vec::new()
    };
    let pauses: ListAnswer<ListedPause> = state.ask_json(session, "/internal/v1/pauses").await?;
    let firms: ListAnswer<ListedFirm> =
        state.ask_json(session, "/internal/v1/firms?limit=20").await?;
    let found = HomeFindings {
        receivers,
        replays,
        pauses: pauses.items,
        proof: state.ask_json(session, "/internal/v1/audit/verification").await?,
        firms: firms.items,
    };
    let content = html! {
        (parts::section("decisions", "Needs a decision", &decision_list(&visit, &found)))
        @if let Some(receivers) = &found.receivers {
            (parts::section("day", "The last 24 hours", &day_summary(&visit, receivers)))
        }
        (parts::section("proof", "Proof", &proof_summary(&visit, &found.proof)))
        (parts::section("firms", "Firms", &html! {
            (firms::firm_table(&found.firms))
            p { a href="/console/firms" { "All firms" } }
        }))
    };
    Ok(visit.plain_page("Home", content))
}

fn decision_list(visit: &PageVisit, found: &HomeFindings) -> Markup {
    let receivers = found.receivers.as_deref().unwrap_or_default();
    let failing: Vec<_> = receivers.iter().filter(|one| one.failing_since.is_some()).collect();
    let flaw = found.proof.ended.as_ref().filter(|ended| ended.outcome != "intact");
    let is_calm = failing.is_empty() && found.pauses.is_empty() && flaw.is_none();
    html! {
        ul.decisions {
            @if let Some(ended) = flaw {
                li { (parts::state(&ended.outcome)) " "
                    a href="/console/proof" { "the last verification of the log" } }
            }
            @for one in failing { li { (failing_line(visit, one)) } }
            @for pause in &found.pauses {
                li { (parts::state("paused")) " " (pauses::pause_scope(pause)) " since "
                    (parts::time(pause.paused_at, visit.now)) ": " (parts::foreign_text(&pause.reason))
                    " " a href="/console/pauses" { "pauses" } }
            }
        }
        (parts::empty_note(&EmptyList(is_calm && found.replays.is_empty())))
        @if !found.replays.is_empty() { (replays::replay_table(visit, &found.replays)) }
    }
}

fn failing_line(visit: &PageVisit, one: &ListedReceiver) -> Markup {
    let word = if one.failing { "failing" } else { "warned" };
    let host = parts::encode_query(&one.host);
    html! {
        (parts::state(word)) " "
        a href=(format!("/console/receivers?host={host}")) { (parts::foreign_text(&one.host)) }
        ": " (one.failures) " failures without a success"
        @if let Some(since) = one.failing_since { ", since " (parts::time(since, visit.now)) }
        ", " (one.waiting) " waiting"
    }
}

fn day_summary(visit: &PageVisit, receivers: &[ListedReceiver]) -> Markup {
    let sum = |count: fn(&ListedReceiver) -> i64| receivers.iter().map(count).sum::<i64>();
    let attempts = sum(|one| one.attempts);
    let delivered = sum(|one| one.delivered);
    let oldest: Option<Timestamp> = receivers.iter().filter_map(|one| one.oldest_due_at).min();
    html! {
        dl.figures {
            (figure_box("Tries", &attempts.to_string()))
            (figure_box("Arrived", &delivered.to_string()))
            (figure_box("Not arrived", &(attempts - delivered).to_string()))
            (figure_box("Waiting", &sum(|one| one.waiting).to_string()))
            (figure_box("Oldest due", &oldest.map_or("none".to_owned(), |at| {
                parts::time_distance(at, visit.now)
            })))
        }
        p { (parts::share_bar(delivered, attempts)) " tries arrived, at "
            a href="/console/receivers" { (receivers.len()) " receivers" }
            @if receivers.len() == 500 { " (the first 500)" } "." }
    }
}

fn figure_box(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { a href="/console/receivers" { (value) } } } }
}

fn proof_summary(visit: &PageVisit, found: &ProofState) -> Markup {
    html! {
        p {
            @match &found.ended {
                Some(ended) => {
                    "Verified to position " (ended.position) ": " (parts::state(&ended.outcome)) ", "
                    (parts::time(ended.at, visit.now)) ". "
                },
                None => { "The service has not verified its log yet. " },
            }
            @match &found.last_signature {
                Some(last) => {
                    "Signed to position " (last.position) " by checkpoint " (last.number) ", "
                    (parts::time(last.at, visit.now)) ". "
                },
                None => { "No checkpoint is signed yet. " },
            }
            a href="/console/proof" { "Proof" }
        }
    }
}
