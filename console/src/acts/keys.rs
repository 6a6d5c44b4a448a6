//! Revokes a key whose prefix a person has repeated.

use axum::extract::State;
use axum::http::Method;
use serde::Deserialize;
use serde_json::json;

use crate::SharedState;
use crate::act::SentForm;
use crate::ask::ApiCommand;
use crate::refusal::Refusal;
use crate::reproof::ProofOutcome;
use crate::visit::PageAnswer;

/// The part of a key that is repeated.
#[derive(Deserialize)]
struct KeyPrefix {
    prefix: String,
}

/// Revokes a key. The person has proved who it is a short time ago.
pub(crate) async fn revoke(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    if let ProofOutcome::Asked(page) = form.require_proof(&state).await? {
        return Ok(page);
    }
    let path = format!(
        "/internal/v1/firms/{}/keys/{}",
        form.visit.path_part("firm")?,
        form.visit.path_part("id")?
    );
    let session = &form.visit.session;
    let key: KeyPrefix = state.ask_json(session, &format!("{path}/history")).await?;
    if form.fields.required_text("prefix")? != key.prefix {
        return Err(Refusal::invalid("this is not the prefix of the key"));
    }
    let body = json!({ "reason": form.fields.reason()? });
    state.send_command(session, ApiCommand { method: Method::DELETE, path: &path, body }).await?;
    Ok(form.redirect_back("revoked"))
}
