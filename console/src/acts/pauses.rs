//! Begins and ends pauses.

use axum::extract::State;
use axum::http::Method;
use serde_json::{Value, json};

use crate::SharedState;
use crate::act::SentForm;
use crate::ask::ApiCommand;
use crate::form::FormFields;
use crate::refusal::Refusal;
use crate::reproof::ProofOutcome;
use crate::visit::PageAnswer;

/// Begins a pause of a host, a firm, a subscription or everything. Before a pause of everything the
/// person has proved who it is a short time ago.
pub(crate) async fn begin(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let body = pause_order(&form.fields)?;
    if form.fields.optional_text("all").is_some()
        && let ProofOutcome::Asked(page) = form.require_proof(&state).await?
    {
        return Ok(page);
    }
    let command = ApiCommand { method: Method::POST, path: "/internal/v1/pauses", body };
    state.send_command(&form.visit.session, command).await?;
    Ok(form.redirect_back("paused"))
}

fn pause_order(fields: &FormFields) -> Result<Value, Refusal> {
    let mut order = json!({ "reason": fields.reason()? });
    for name in ["host", "firm_id", "hook_id"] {
        if let Some(value) = fields.optional_text(name) {
            order[name] = value.into();
        }
    }
    match fields.optional_text("all") {
        Some("ALL") => order["all"] = true.into(),
        Some(_) => return Err(Refusal::invalid("write ALL to pause all deliveries")),
        None => {}
    }
    Ok(order)
}

/// Ends a pause.
pub(crate) async fn end(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let path = format!("/internal/v1/pauses/{}", form.visit.path_part("id")?);
    let body = json!({ "reason": form.fields.reason()? });
    let command = ApiCommand { method: Method::DELETE, path: &path, body };
    state.send_command(&form.visit.session, command).await?;
    Ok(form.redirect_back("resumed"))
}
