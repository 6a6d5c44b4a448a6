//! The signing secret: shown for a minute, and rotated.

use api::commands::secrets::{RevealedSecret, RotationOutcome};
use api::portal::acts;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use maud::html;

use super::visit::{PortalAnswer, PortalForm, PortalVisit};
use super::{SharedPortal, look};
use crate::parts;

/// After a minute the browser goes on to the page without the secret.
const FOR_A_MINUTE: &str = "60; url=/portal/secret";

/// Shows the two commands, and no secret.
pub(super) async fn show(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let since = visit.or_refusal(acts::secret_since(&state.service, &visit.session).await)?;
    let words = visit.words;
    let content = html! {
        p { (words.secret_use) }
        (parts::section("reveal", words.reveal, &html! {
            form.stacked method="post" action="/portal/secret/reveal" {
                (look::token_field(&visit))
                p { (words.a_minute) }
                button { (words.reveal) }
            }
        }))
        (parts::section("rotate", words.rotate, &html! {
            form.stacked method="post" action="/portal/secret/rotate" {
                (look::token_field(&visit))
                (parts::hidden_field("since", &since))
                p { (words.rotate_effect) }
                label { (words.reason) " "
                    input name="reason" maxlength="200" autocomplete="off"; }
                label.check { input type="checkbox" name="sure" value="yes" required;
                    " " (words.rotate_sure) }
                button { (words.rotate) }
            }
        }))
    };
    Ok(visit.page(words.secret, content))
}

/// Shows the secret. The look is recorded first.
pub(super) async fn reveal(State(state): State<SharedPortal>, form: PortalForm) -> PortalAnswer {
    let PortalForm { visit, .. } = &form;
    let secret = visit.or_refusal(acts::reveal_secret(&state.service, &visit.session).await)?;
    Ok(secret_page(visit, &secret, None))
}

/// Makes a new secret, and shows it. The same form sent again makes no second one.
pub(super) async fn rotate(State(state): State<SharedPortal>, form: PortalForm) -> PortalAnswer {
    let PortalForm { visit, fields } = &form;
    if fields.optional_text("sure") != Some("yes") {
        return Err(visit.refusal_page(StatusCode::BAD_REQUEST, visit.words.missing));
    }
    let reason = fields.optional_text("reason");
    let since = form.required_text("since")?.parse().map_err(|_| visit.not_accepted("since"))?;
    let rotated = acts::rotate_secret(&state.service, &visit.session, since, reason).await;
    let RotationOutcome::New(secret) = visit.or_refusal(rotated)? else {
        return Err(visit.refusal_page(StatusCode::CONFLICT, visit.words.secret_changed));
    };
    Ok(secret_page(visit, &secret, Some(visit.words.rotated)))
}

fn secret_page(visit: &PortalVisit, secret: &RevealedSecret, news: Option<&str>) -> Response {
    let words = visit.words;
    let content = html! {
        @if let Some(news) = news { p.done role="status" { (news) } }
        pre.shown tabindex="0" { (secret.secret.as_str()) }
        p { (words.since) " " (parts::plain_time(secret.rotated_at)) }
        p { (words.a_minute) " " a href="/portal/secret" { (words.hide) } }
    };
    let mut response = visit.page(words.secret, content);
    let refresh = HeaderName::from_static("refresh");
    response.headers_mut().insert(refresh, HeaderValue::from_static(FOR_A_MINUTE));
    response
}
