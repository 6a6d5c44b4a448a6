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
    if let ProofOutcome::Asked(page) = form.prove(&state).await? {
        return Ok(page);
    }
    let path =
        format!("/internal/v1/firms/{}/keys/{}", form.visit.part("firm")?, form.visit.part("id")?);
    let session = &form.visit.session;
    let key: KeyPrefix = state.asked(session, &format!("{path}/history")).await?;
    if form.fields.text("prefix")? != key.prefix {
        return Err(Refusal::invalid("this is not the prefix of the key"));
    }
    let body = json!({ "reason": form.fields.reason()? });
    state.send(session, ApiCommand { method: Method::DELETE, path: &path, body }).await?;
    Ok(form.back("revoked"))
}
