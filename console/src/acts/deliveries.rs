//! Reissues a delivery.

use axum::extract::State;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::SharedState;
use crate::act::SentForm;
use crate::ask::{ApiCommand, reread_answer};
use crate::visit::PageAnswer;

/// The answer to a reissue.
#[derive(Debug, Deserialize)]
struct NewDelivery {
    id: Uuid,
}

/// Reissues a delivery, and shows the new one. The same form sent again makes no other.
pub(crate) async fn reissue(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let firm = form.visit.path_part("firm")?;
    let delivery = form.visit.path_part("id")?;
    let path = format!("/internal/v1/firms/{firm}/deliveries/{delivery}/reissue");
    let request_id = form.fields.required_text("request_id")?;
    let body = json!({ "reason": form.fields.reason()?, "request_id": request_id });
    let command = ApiCommand { method: Method::POST, path: &path, body };
    let new: NewDelivery = reread_answer(&state.send_command(&form.visit.session, command).await?)?;
    let to = format!("/console/firms/{firm}/deliveries/{}?done=reissued", new.id);
    Ok(Redirect::to(&to).into_response())
}
