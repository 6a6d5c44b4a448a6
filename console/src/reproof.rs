//! The proof of the person again, before an act that cuts off (ruling 62).
//!
//! The holder of a token enters it again. A user of the provider is led there, and confirms the act
//! on the way back. Either way the act has all that was typed.

use api::sessions;
use api::sign_in::{FlowPurpose, SignInFlow};
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Response};
use domain::access::sign_in::{FLOW_TIME, PROOF_TIME};
use maud::{Markup, html};

use crate::SharedState;
use crate::act::SentForm;
use crate::flow::{flow_cookie, refused_page};
use crate::form::{FORM_TOKEN, FormFields};
use crate::frame::PageContent;
use crate::refusal::Refusal;
use crate::sign_in::TokenRefusal;

/// The field with the token.
const PROOF_TOKEN: &str = "proof_token";

/// The proofs in a form, which no later form repeats.
const PROOFS: [&str; 2] = [FORM_TOKEN, PROOF_TOKEN];

/// Longest fields that the cookie of the way keeps. It has 4 KiB, and a reason 200 characters.
const FIELDS_BYTES_MAX: usize = 2_500;

/// The result of asking for a proof.
pub(crate) enum ProofOutcome {
    /// The person proved who it is, so the act goes on.
    Given,
    /// The page that asks for a proof.
    Asked(Response),
}

impl SentForm {
    /// Asks for a proof of the person if the last one is old.
    pub(crate) async fn require_proof(&self, state: &SharedState) -> Result<ProofOutcome, Refusal> {
        if self.visit.session.is_proven(self.visit.now) {
            return Ok(ProofOutcome::Given);
        }
        if self.visit.session.user().is_some() {
            return self.lead_to_provider(state).await.map(ProofOutcome::Asked);
        }
        let Some(token) = self.fields.optional_text(PROOF_TOKEN) else {
            return Ok(ProofOutcome::Asked(self.ask_for_token(None)));
        };
        match sessions::begin(&state.service, token, self.visit.address).await {
            Ok(session) if session.has_token_of(&self.visit.session) => {
                self.visit.used_cookie.note_use(&state.service, &session, self.visit.channel);
                Ok(ProofOutcome::Given)
            }
            Ok(_) => {
                let why = "This is not the token of your session.";
                Ok(ProofOutcome::Asked(self.ask_for_token(Some(why))))
            }
            Err(error) => {
                let refused = TokenRefusal::new(&error)?;
                let page = self.ask_for_token(Some(&refused.sentence));
                Ok(ProofOutcome::Asked(refused.with_wait((refused.status, page).into_response())))
            }
        }
    }

    /// The page that asks for the token. Its form is the act, with all that was typed.
    fn ask_for_token(&self, fault: Option<&str>) -> Response {
        let content = html! {
            @if let Some(fault) = fault { p.refused role="alert" { (fault) } }
            (proof_reason())
            form.sign-in method="post" action=(self.visit.path) {
                (hidden_fields(&self.fields))
                input type="hidden" name=(FORM_TOKEN) value=(self.visit.form_token);
                label for="token" { "Token" }
                input #token type="password" name=(PROOF_TOKEN) required autocomplete="off"
                    autofocus spellcheck="false" autocapitalize="off";
                button { "Go on" }
            }
        };
        self.proof_page(content)
    }

    /// The page that leads to the provider. The cookie of the way keeps the act.
    async fn lead_to_provider(&self, state: &SharedState) -> Result<Response, Refusal> {
        let Some(provider) = state.service.settings.provider.as_deref() else {
            return Err(Refusal::no_page());
        };
        let path = self.visit.path.clone();
        let fields = self.fields.to_json(&PROOFS);
        if fields.len() > FIELDS_BYTES_MAX {
            return Err(Refusal::invalid("the form is too long to be kept on the way"));
        }
        let replaced = self.visit.session.user_cookie();
        let purpose = FlowPurpose::Act { path, fields, replaced };
        let flow = SignInFlow::begin(&state.service, purpose);
        let address = match flow.provider_address(&state.service, provider).await {
            Ok(address) => address,
            Err(error) => return Ok(refused_page(state, "/console", &error)),
        };
        let seconds = FLOW_TIME.num_seconds();
        let cookie = flow_cookie(provider, &flow.cookie(&state.service), seconds);
        let content = html! {
            (proof_reason())
            p.buttons { a href=(address) { "Sign in again by " (provider.host()) } }
        };
        Ok(([(SET_COOKIE, cookie)], self.proof_page(content)).into_response())
    }

    fn proof_page(&self, content: Markup) -> Response {
        let page = self.visit.page(&PageContent::new("Prove that it is you", content));
        (StatusCode::FORBIDDEN, page).into_response()
    }
}

fn proof_reason() -> Markup {
    let minutes = PROOF_TIME.num_minutes();
    html! {
        p { "This action revokes or stops something, and you last signed in more than " (minutes)
            " minutes ago. Nothing is done yet, and nothing that you typed is lost." }
    }
}

/// The fields of an act as hidden ones, without the proofs of the former form.
fn hidden_fields(fields: &FormFields) -> Markup {
    html! {
        @for (name, value) in fields.fields_without(&PROOFS) {
            input type="hidden" name=(name) value=(value);
        }
    }
}

/// The page after the way to the provider, which asks to confirm the act that waits.
pub(crate) fn confirm_form(path: &str, fields: &FormFields, form_token: &str) -> Markup {
    html! {
        p { "Confirm this action." }
        dl {
            @for (name, value) in fields.fields_without(&PROOFS) {
                dt { (name) } dd { bdi { (domain::values::printable_text(value)) } }
            }
        }
        form method="post" action=(path) {
            (hidden_fields(fields))
            input type="hidden" name=(FORM_TOKEN) value=(form_token);
            button autofocus { "Go on" }
        }
    }
}
