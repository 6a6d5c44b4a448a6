//! Sends a test to the target of a subscription, and shows the answer once.

use axum::extract::State;
use axum::http::Method;
use maud::html;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::SharedState;
use crate::act::SentForm;
use crate::ask::{ApiCommand, reread_answer};
use crate::frame::PageContent;
use crate::parts;
use crate::visit::{self, PageAnswer};

/// A test that was sent.
#[derive(Debug, Deserialize)]
struct SentTest {
    id: Uuid,
    target: String,
    trigger: String,
    status: Option<u16>,
    error: Option<String>,
    answer: Option<String>,
}

/// Sends a test. `find_firm` answers for a firm that is missing or no id.
pub(crate) async fn send_test(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let firm_id = form.visit.path_part("firm").ok().and_then(domain::values::parse_id);
    let firm = visit::find_firm(&state, &form.visit.session, firm_id).await?;
    let hook = form.visit.path_part("id")?;
    let path = format!("/internal/v1/firms/{}/hooks/{hook}/test", firm.id);
    let body = json!({ "reason": form.fields.reason()? });
    let command = ApiCommand { method: Method::POST, path: &path, body };
    let sent: SentTest = reread_answer(&state.send_command(&form.visit.session, command).await?)?;
    let status = sent.status.map_or("none".to_owned(), |status| status.to_string());
    let content = html! {
        (parts::fact_list(&[
            ("Test", parts::plain_id(&sent.id)),
            ("Trigger", html! { (sent.trigger) }),
            ("Target", parts::foreign_text(&sent.target)),
            ("Status", html! { (status) }),
            ("Error", html! { (sent.error.as_deref().unwrap_or("none")) }),
        ]))
        pre tabindex="0" { (parts::foreign_lines(sent.answer.as_deref().unwrap_or_default())) }
        p { a href=(format!("/console/firms/{}/hooks/{hook}", firm.id)) { "The subscription" } }
    };
    Ok(form.visit.page(&PageContent::new("Test of a subscription", content).of_firm(&firm)))
}
