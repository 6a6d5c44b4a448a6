//! Begins and ends pauses.

use axum::extract::State;
use axum::http::Method;
use serde_json::{Value, json};

use crate::SharedState;
use crate::act::{FormFields, SentForm};
use crate::ask::ApiCommand;
use crate::refusal::Refusal;
use crate::reproof::ProofOutcome;
use crate::visit::PageAnswer;

/// Begins a pause of a host, a firm, a subscription or everything. Before a pause of everything the
/// person has proved who it is a short time ago.
pub(crate) async fn begin(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let body = order(&form.fields)?;
    if form.fields.optional("all").is_some()
        && let ProofOutcome::Asked(page) = form.prove(&state).await?
    {
        return Ok(page);
    }
    let command = ApiCommand { method: Method::POST, path: "/internal/v1/pauses", body };
    state.send(&form.visit.session, command).await?;
    Ok(form.back("paused"))
}

fn order(fields: &FormFields) -> Result<Value, Refusal> {
    let mut order = json!({ "reason": fields.reason()? });
    for name in ["host", "firm_id", "hook_id"] {
        if let Some(value) = fields.optional(name) {
            order[name] = value.into();
        }
    }
    match fields.optional("all") {
        Some("ALL") => order["all"] = true.into(),
        Some(_) => return Err(Refusal::invalid("write ALL to pause all deliveries")),
        None => {}
    }
    Ok(order)
}

/// Ends a pause.
pub(crate) async fn end(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let path = format!("/internal/v1/pauses/{}", form.visit.part("id")?);
    let body = json!({ "reason": form.fields.reason()? });
    let command = ApiCommand { method: Method::DELETE, path: &path, body };
    state.send(&form.visit.session, command).await?;
    Ok(form.back("resumed"))
}
