//! Orders a replay: first a dry run that says how many, then a confirmation by that number.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect};
use domain::values::{Timestamp, When};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::SharedState;
use crate::act::SentForm;
use crate::ask::{ApiCommand, reread_answer};
use crate::form::FormFields;
use crate::frame::{self, PageContent};
use crate::parts;
use crate::refusal::Refusal;
use crate::visit::{self, FirmHead, FirmVisit, PageAnswer, PageVisit};

/// The fields that select deliveries.
const SELECTING: [&str; 6] = ["delivery_ids", "hook_id", "trigger", "state", "since", "until"];

/// The selection of a dry run, or a replay that began.
#[derive(Debug, Deserialize)]
struct SelectedReplay {
    id: Option<Uuid>,
    selected: usize,
    skipped_counts: BTreeMap<String, usize>,
    sample: Vec<Uuid>,
    seconds: u64,
}

/// Asks for a selection.
pub(crate) async fn ask(visit: FirmVisit) -> PageAnswer {
    let content = html! {
        p { "A dry run comes first: it says how many deliveries are sent again." }
        form.stacked method="post" action=(visit.firm_page("/replay")) {
            (frame::form_fields(&visit.visit))
            @for name in SELECTING {
                label { (name) " " input name=(name) value=[visit.visit.query_value(name)]
                    placeholder=(field_example(name)) autocomplete="off" spellcheck="false"; }
            }
            label { "rate_per_second " input name="rate_per_second" type="number" min="1"
                max="5000" value="50"; }
            label.check { input type="checkbox" name="force" value="true";
                " Delivered ones, too" }
            (parts::reason_field())
            button { "Dry run" }
        }
    };
    Ok(visit.page(PageContent::new("Replay deliveries", content)))
}

fn field_example(name: &str) -> &'static str {
    match name {
        "delivery_ids" => "ids, with commas between",
        "state" => "failed, or delivered",
        "since" | "until" => "2h, 2026-03-01, or an instant",
        _ => "any",
    }
}

/// Shows the selection, or begins the replay whose number was confirmed.
pub(crate) async fn order(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let firm_id = form.visit.path_part("firm").ok().and_then(domain::values::parse_id);
    let firm = visit::find_firm(&state, &form.visit.session, firm_id).await?;
    let mut body = selection_order(&form.fields, firm.id, form.visit.now)?;
    let Some(number) = form.fields.optional_text("number") else {
        body["dry_run"] = true.into();
        let found: SelectedReplay = send_order(&state, &form.visit, body.clone()).await?;
        let content = selected_content(&form.visit, &firm, &body, &found);
        return Ok(form.visit.page(&PageContent::new("Dry run", content).of_firm(&firm)));
    };
    let no_number = |_| Refusal::invalid("write the number of deliveries with digits");
    body["expected"] = number.parse::<u32>().map_err(no_number)?.into();
    body["request_id"] = form.fields.required_text("request_id")?.into();
    let begun: SelectedReplay = send_order(&state, &form.visit, body).await?;
    let id = begun.id.ok_or_else(|| Refusal::broken("a replay without an id"))?;
    Ok(Redirect::to(&format!("/console/replays/{id}?done=ordered")).into_response())
}

async fn send_order(
    state: &SharedState,
    visit: &PageVisit,
    body: Value,
) -> Result<SelectedReplay, Refusal> {
    let command = ApiCommand { method: Method::POST, path: "/internal/v1/replays", body };
    reread_answer(&state.send_command(&visit.session, command).await?)
}

/// The order as the API takes it. Distances become instants and an open end is now, so that both
/// steps mean one time.
fn selection_order(fields: &FormFields, firm_id: Uuid, now: Timestamp) -> Result<Value, Refusal> {
    let rate = fields.optional_text("rate_per_second").unwrap_or("50").parse::<u32>();
    let rate = rate.map_err(|_| Refusal::invalid("`rate_per_second` must be a whole number"))?;
    let mut order = json!({
        "firm_id": firm_id, "reason": fields.reason()?, "rate_per_second": rate,
        "force": fields.optional_text("force") == Some("true"), "until": now.to_string(),
    });
    for name in SELECTING {
        let Some(text) = fields.optional_text(name) else { continue };
        order[name] = match name {
            "delivery_ids" => text.split([',', ' ']).filter(|id| !id.is_empty()).collect(),
            "since" | "until" => parse_instant(text, now)?.into(),
            _ => text.into(),
        };
    }
    Ok(order)
}

fn parse_instant(text: &str, now: Timestamp) -> Result<String, Refusal> {
    let when: When = text
        .parse()
        .map_err(|error: domain::values::NoTime| Refusal::invalid(&error.to_string()))?;
    Ok(when.instant_before(now).to_string())
}

/// The number, a sample and the duration, with a form that asks for the number.
fn selected_content(
    visit: &PageVisit,
    firm: &FirmHead,
    body: &Value,
    found: &SelectedReplay,
) -> Markup {
    let base = format!("/console/firms/{}", firm.id);
    html! {
        p.why {
            strong { (found.selected) " deliveries" } " are sent again, in about "
            (parts::duration_text(found.seconds)) "."
        }
        @if !found.skipped_counts.is_empty() {
            p { "Skipped: " @for (why, count) in &found.skipped_counts { (count) " " (why) " " } }
        }
        @if !found.sample.is_empty() {
            p { "Among them: " @for id in &found.sample {
                (parts::id_link(&format!("{base}/deliveries/{id}"), id)) " "
            } }
        }
        @if found.selected > 0 { (confirmation_form(visit, &base, body, found.selected)) }
        p { a href=(format!("{base}/replay")) { "Another selection" } }
    }
}

fn confirmation_form(visit: &PageVisit, base: &str, body: &Value, number: usize) -> Markup {
    html! {
        form.stacked method="post" action=(format!("{base}/replay")) {
            (frame::form_fields(visit))
            @for (name, value) in body.as_object().into_iter().flatten() {
                @if name != "firm_id" && name != "dry_run" {
                    (parts::hidden_field(name, &field_value(value)))
                }
            }
            (parts::hidden_field("request_id", &visit.request_id))
            label { "Write the number " (number) ", to be sure "
                input name="number" required inputmode="numeric" autocomplete="off"; }
            button { "Begin the replay" }
        }
    }
}

/// A value as the field of a form.
fn field_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Pauses or resumes a replay. An end is for good, so it needs a word and a reason.
pub(crate) async fn change(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let path = format!("/internal/v1/replays/{}", form.visit.path_part("id")?);
    let mut body = json!({});
    let (method, end, done) = match form.fields.required_text("change")? {
        "pause" => (Method::POST, "/pause", "replay-paused"),
        "resume" => (Method::POST, "/resume", "replay-resumed"),
        "stop" if form.fields.optional_text("word") == Some("STOP") => {
            body["reason"] = form.fields.reason()?.into();
            (Method::DELETE, "", "replay-stopped")
        }
        "stop" => return Err(Refusal::invalid("write STOP to stop the replay for good")),
        _ => return Err(Refusal::invalid("`change` must be pause, resume or stop")),
    };
    let path = format!("{path}{end}");
    let command = ApiCommand { method, path: &path, body };
    state.send_command(&form.visit.session, command).await?;
    Ok(form.redirect_back(done))
}
