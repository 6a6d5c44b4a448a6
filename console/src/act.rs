//! A form that a page of this session sent. Nothing is done for a form of another origin.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Redirect, Response};

use crate::SharedState;
use crate::form::{BACK, FORM_TOKEN, FormFields, own_page};
use crate::refusal::Refusal;
use crate::visit::PageVisit;

/// A form with its session.
pub(crate) struct SentForm {
    pub(crate) visit: PageVisit,
    pub(crate) fields: FormFields,
}

impl FromRequest<SharedState> for SentForm {
    type Rejection = Response;

    async fn from_request(request: Request, state: &SharedState) -> Result<Self, Self::Rejection> {
        let (mut parts, body) = request.into_parts();
        let visit = PageVisit::from_request_parts(&mut parts, state).await?;
        let request = Request::from_parts(parts, body);
        let fields = FormFields::new(request).await;
        let fields = fields.map_err(|fault| Refusal::from(fault).into_response())?;
        if !visit.session.has_form_token(&state.service, fields.sent_text(FORM_TOKEN)) {
            return Err(Refusal::strange_form().into_response());
        }
        Ok(Self { visit, fields })
    }
}

impl SentForm {
    /// Back to the page of the form, which says what was done.
    pub(crate) fn redirect_back(&self, done: &str) -> Response {
        let to = own_page(self.fields.optional_text(BACK));
        let mark = if to.contains('?') { '&' } else { '?' };
        Redirect::to(&format!("{to}{mark}done={done}")).into_response()
    }
}
