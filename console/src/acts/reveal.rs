//! Shows bodies, answers and whole targets to somebody who gives a reason (ruling 50). The content
//! is in the answer to the form alone, and no URL shows it again.

use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;

use crate::SharedState;
use crate::act::SentForm;
use crate::frame::PageContent;
use crate::parts;
use crate::refusal::Refusal;
use crate::screens::delivery::{ShownText, shown_text};
use crate::visit::{self, FirmHead, PageAnswer};

/// A delivery with the contents that were asked for.
#[derive(Debug, Deserialize)]
struct OpenDelivery {
    target: Option<String>,
    body: Option<ShownText>,
    #[serde(default)]
    attempts: Vec<OpenAnswer>,
}

/// An answer to a try.
#[derive(Debug, Deserialize)]
struct OpenAnswer {
    number: u32,
    answer: Option<String>,
    answer_state: String,
}

/// A subscription with its whole target.
#[derive(Debug, Deserialize)]
struct OpenHook {
    target: Option<String>,
}

/// Shows a part of a delivery.
pub(crate) async fn of_delivery(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let firm = firm_of(&state, &form).await?;
    let id = form.visit.path_part("id")?;
    let what = match form.fields.required_text("what")? {
        "body" => "show_body",
        "answer" => "show_answer",
        "target" => "show_target",
        _ => return Err(Refusal::invalid("`what` must be body, answer or target")),
    };
    let query = [(what.to_owned(), form.fields.reason()?.to_owned())];
    let api = form.visit.api_with(&format!("/firms/{}/deliveries/{id}", firm.id), &query);
    let found: OpenDelivery = state.ask_json(&form.visit.session, &api).await?;
    let content = html! {
        @match what {
            "show_body" => { (shown_body(found.body.as_ref())) },
            "show_answer" => { (shown_answers(&found.attempts)) },
            _ => { pre { (parts::foreign_text(found.target.as_deref().unwrap_or("unknown"))) } },
        }
        p { a href=(format!("/console/firms/{}/deliveries/{id}", firm.id)) { "The delivery" } }
    };
    Ok(form.visit.page(&PageContent::new("Shown for a reason", content).of_firm(&firm)))
}

async fn firm_of(state: &SharedState, form: &SentForm) -> Result<FirmHead, Refusal> {
    let firm_id = form.visit.path_part("firm").ok().and_then(domain::values::parse_id);
    visit::find_firm(state, &form.visit.session, firm_id).await
}

fn shown_body(body: Option<&ShownText>) -> Markup {
    html! { @if let Some(body) = body { (shown_text(&body.state, body.text.as_deref())) } }
}

fn shown_answers(answers: &[OpenAnswer]) -> Markup {
    html! {
        @for one in answers {
            h2 { "Answer to try " (one.number) }
            (shown_text(&one.answer_state, one.answer.as_deref()))
        }
    }
}

/// Shows the whole target of a subscription.
pub(crate) async fn of_hook(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let firm = firm_of(&state, &form).await?;
    let id = form.visit.path_part("id")?;
    let query = [("show_target".to_owned(), form.fields.reason()?.to_owned())];
    let api = form.visit.api_with(&format!("/firms/{}/hooks/{id}/history", firm.id), &query);
    let found: OpenHook = state.ask_json(&form.visit.session, &api).await?;
    let content = html! {
        pre { (parts::foreign_text(found.target.as_deref().unwrap_or("unknown"))) }
        p { a href=(format!("/console/firms/{}/hooks/{id}", firm.id)) { "The subscription" } }
    };
    Ok(form.visit.page(&PageContent::new("Shown for a reason", content).of_firm(&firm)))
}
