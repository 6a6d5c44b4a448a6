//! `POST /forms/{id}/send`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::form::{FormStatus, PrefilledLink, UNUSABLE_URL};
use domain::invite::{FIRST_NAME_MAX, MESSAGE_MAX, NAME_MAX};
use domain::values::{EmailAddress, Lang};
use inviter::{InviteOutcome, NewInvite};
use mailer::greeting_name;
use projector::forms::{self, FormRow};
use serde::Serialize;
use uuid::Uuid;

use super::Caller;
use super::hidden::{take_hidden, take_lang};
use super::path::PathId;
use crate::Service;
use crate::body::fields::at_most;
use crate::body::{BodyFields, JsonBody};
use crate::commands::invites;
use crate::error::Error;

/// The contract's FormInvite.
#[derive(Debug, Serialize)]
pub(super) struct FormInvite {
    ok: bool,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email_id: Option<Uuid>,
    url: String,
    ignored: Vec<String>,
}

/// A requested invite.
#[derive(Debug, PartialEq, Eq)]
struct InviteRequest {
    to: EmailAddress,
    greeting: Option<String>,
    hidden: BTreeMap<String, String>,
    lang: Option<Lang>,
    message: Option<String>,
}

/// Emails a link to a published form.
pub(super) async fn create(
    caller: Caller,
    id: PathId,
    State(service): State<Arc<Service>>,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<FormInvite>), Error> {
    let asked = parse_invite(body)?;
    let form_id = id.id_or(Error::FormNotFound)?;
    let form = forms::find(service.store.pool(), caller.firm_id, form_id).await?;
    let form = form.ok_or(Error::FormNotFound)?;
    if form.status != FormStatus::Published.name() || form.url == UNUSABLE_URL {
        return Err(Error::FormNotPublished);
    }
    let (new, ignored) = asked.invite_to(form);
    let invited = invites::send(&service, &caller, &new).await?;
    Ok((StatusCode::ACCEPTED, Json(FormInvite::new(invited, new.url, ignored))))
}

fn parse_invite(mut body: BodyFields) -> Result<InviteRequest, Error> {
    let to = body.string("email")?;
    let name = at_most("name", NAME_MAX, body.nullable_string("name")?)?;
    let first = at_most("first_name", FIRST_NAME_MAX, body.nullable_string("first_name")?)?;
    let asked = InviteRequest {
        to: to.parse().map_err(|_| Error::invalid("`email` must be an email address"))?,
        greeting: greeting_name(first.as_deref(), name.as_deref()),
        hidden: take_hidden(&mut body)?,
        lang: take_lang(&mut body)?,
        message: at_most("message", MESSAGE_MAX, body.nullable_string("message")?)?,
    };
    body.refuse_unknown()?;
    Ok(asked)
}

impl InviteRequest {
    /// The invite to this form, with the hidden keys that the form ignores.
    fn invite_to(self, form: FormRow) -> (NewInvite, Vec<String>) {
        let link = PrefilledLink::build(&form.url, &form.hidden_fields.0, self.hidden, self.lang);
        let new = NewInvite {
            form_id: form.form_id,
            form_title: form.title,
            url: link.url,
            to: self.to,
            greeting: self.greeting,
            lang: self.lang.unwrap_or_default(),
            message: self.message,
        };
        (new, link.ignored)
    }
}

impl FormInvite {
    fn new(invited: InviteOutcome, url: String, ignored: Vec<String>) -> Self {
        let (status, reason, email_id) = match invited {
            InviteOutcome::Sent { email_id } => ("sent", None, Some(email_id)),
            InviteOutcome::Skipped(skip) => ("skipped", Some(skip.reason()), None),
        };
        Self { ok: true, status, reason, email_id, url, ignored }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::json::parse_object;
    use inviter::InviteSkip;
    use rstest::rstest;

    fn read(json: &str) -> Result<InviteRequest, Error> {
        parse_invite(parse_object(json.as_bytes()).unwrap())
    }

    #[test]
    fn an_invite_request_is_read_whole() {
        let asked = read(
            r#"{"email":"Ann@Example.com","name":"Ann B. Smith","first_name":null,"lang":"fr",
                "hidden":{"ref":7},"message":"Hi\nthere"}"#,
        )
        .unwrap();
        assert_eq!(asked.to.to_string(), "Ann@example.com");
        assert_eq!(asked.greeting.as_deref(), Some("Ann"));
        assert_eq!((asked.lang, asked.message.as_deref()), (Some(Lang::Fr), Some("Hi\nthere")));
        assert_eq!(asked.hidden["ref"], "7");
    }

    #[rstest]
    #[case::nothing("{}")]
    #[case::null_email(r#"{"email":null}"#)]
    #[case::no_address(r#"{"email":"a@b"}"#)]
    #[case::a4_another_property(r#"{"email":"a@b.co","subject":"x"}"#)]
    #[case::a5_name(r#"{"email":"a@b.co","name":5}"#)]
    #[case::a5_message(r#"{"email":"a@b.co","message":["x"]}"#)]
    #[case::a5_lang(r#"{"email":"a@b.co","lang":null}"#)]
    #[case::a5_hidden(r#"{"email":"a@b.co","hidden":null}"#)]
    fn a5_a_malformed_invite_is_refused(#[case] json: &str) {
        assert!(matches!(read(json), Err(Error::InvalidRequest(_))), "{json}");
    }

    #[rstest]
    #[case("name", 200)]
    #[case("first_name", 100)]
    #[case("message", 1_000)]
    fn a16_texts_have_their_greatest_length(#[case] field: &str, #[case] most: usize) {
        let with = |chars: usize| {
            read(&format!(r#"{{"email":"a@b.co","{field}":"{}"}}"#, "é".repeat(chars)))
        };
        assert!(with(most).is_ok());
        assert!(with(most + 1).is_err());
    }

    #[test]
    fn a_form_invite_is_the_contracts() {
        let of = |invited| {
            let invite = FormInvite::new(invited, "https://f".into(), vec!["x".into()]);
            serde_json::to_string(&invite).unwrap()
        };
        assert_eq!(
            of(InviteOutcome::Sent { email_id: Uuid::from_u128(0xABCD) }),
            concat!(
                r#"{"ok":true,"status":"sent","email_id":"00000000-0000-0000-0000-00000000abcd","#,
                r#""url":"https://f","ignored":["x"]}"#,
            )
        );
        assert_eq!(
            of(InviteOutcome::Skipped(InviteSkip::AlreadySentToday)),
            concat!(
                r#"{"ok":true,"status":"skipped","reason":"already_sent_today","#,
                r#""url":"https://f","ignored":["x"]}"#,
            )
        );
    }
}
