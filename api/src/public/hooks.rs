//! `GET /hooks`, `POST /hooks` and `DELETE /hooks/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::values::Timestamp;
use projector::hooks::HookRow;
use serde::Serialize;
use uuid::Uuid;

use super::Caller;
use super::caller::{PresentedKey, check_admission};
use super::idempotency::IdempotencyHeader;
use super::path::PathId;
use crate::Service;
use crate::body::{BodyFields, JsonBody};
use crate::commands::hooks::{self as commands, NewHook};
use crate::error::Error;

/// The contract's Hook.
#[derive(Debug, Serialize)]
pub(super) struct HookBody {
    id: Uuid,
    trigger: String,
    target_url: String,
    form_id: Option<Uuid>,
    created_at: Timestamp,
}

/// Answer to a removal.
#[derive(Debug, Serialize)]
pub(super) struct HookRemovedAnswer {
    ok: bool,
}

/// Lists the subscriptions made with this key. One statement looks the key up and reads its rows.
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    presented: PresentedKey,
) -> Result<Json<Vec<HookBody>>, Error> {
    let listed = presented.look_up(&service, &service.admission.key_batchers.hooks).await?;
    check_admission(listed.admission, service.clock.now())?;
    Ok(Json(listed.hooks.into_iter().map(HookBody::from).collect()))
}

/// Subscribes a URL to a trigger, once per `Idempotency-Key`.
pub(super) async fn create(
    caller: Caller,
    IdempotencyHeader(key): IdempotencyHeader,
    State(service): State<Arc<Service>>,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<HookBody>), Error> {
    let new = parse_hook(body)?;
    let row = match key {
        Some(key) => commands::create_once(&service, &caller, new, key).await?,
        None => commands::create(&service, &caller, new).await?,
    };
    Ok((StatusCode::CREATED, Json(row.into())))
}

/// Removes a subscription made with this key.
pub(super) async fn delete(
    caller: Caller,
    id: PathId,
    State(service): State<Arc<Service>>,
) -> Result<Json<HookRemovedAnswer>, Error> {
    let hook_id = id.id_or(Error::NotFound)?;
    commands::delete(&service, &caller, hook_id).await?;
    Ok(Json(HookRemovedAnswer { ok: true }))
}

/// Reads the shape of a request. The command checks its meaning (ruling 10). Other properties are
/// ignored (ruling 7).
fn parse_hook(mut body: BodyFields) -> Result<NewHook, Error> {
    let target_url = body.optional_string("target_url")?;
    let trigger = body.optional_string("trigger")?;
    let event = body.optional_string("event")?;
    let form_id = body.optional_id("form_id")?;
    let target_url = target_url.ok_or_else(|| body.missing_field("target_url"))?;
    let trigger = one_of(trigger, event)?.ok_or_else(|| body.missing_field("trigger"))?;
    Ok(NewHook { target_url, trigger, form_id })
}

/// `event` may stand for `trigger`. If both are there, they must be equal (ruling 9).
fn one_of(trigger: Option<String>, event: Option<String>) -> Result<Option<String>, Error> {
    match (trigger, event) {
        (Some(trigger), Some(event)) if trigger != event => {
            Err(Error::invalid("`trigger` and `event` name different triggers"))
        }
        (trigger, event) => Ok(trigger.or(event)),
    }
}

impl From<HookRow> for HookBody {
    fn from(row: HookRow) -> Self {
        Self {
            id: row.hook_id,
            trigger: row.trigger,
            target_url: row.target_url,
            form_id: row.form_id,
            created_at: row.created_at.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const FORM: &str = "0b7a4c7e-93a1-4a65-8c0c-2f1f3a9d5e01";

    fn read(json: &str) -> Result<NewHook, String> {
        let body =
            crate::body::json::parse_object(json.as_bytes()).map_err(|error| error.to_string())?;
        parse_hook(body).map_err(|error| {
            assert!(matches!(error, Error::InvalidRequest(_)), "{error:?}");
            error.to_string()
        })
    }

    fn hook(form_id: Option<&str>) -> NewHook {
        NewHook {
            target_url: "https://a/".into(),
            trigger: "t".into(),
            form_id: form_id.map(|id| id.parse().unwrap()),
        }
    }

    #[rstest]
    #[case::trigger(r#"{"target_url":"https://a/","trigger":"t"}"#)]
    #[case::event(r#"{"target_url":"https://a/","event":"t"}"#)]
    #[case::both_equal(r#"{"target_url":"https://a/","event":"t","trigger":"t"}"#)]
    #[case::null_form(r#"{"target_url":"https://a/","trigger":"t","form_id":null}"#)]
    #[case::a4_others_are_ignored(r#"{"x":{"y":[1]},"target_url":"https://a/","trigger":"t"}"#)]
    fn a6_trigger_or_event_is_read(#[case] json: &str) {
        assert_eq!(read(json), Ok(hook(None)));
    }

    #[test]
    fn a_form_is_read_in_either_case() {
        for id in [FORM.to_owned(), FORM.to_uppercase()] {
            let json = format!(r#"{{"target_url":"https://a/","trigger":"t","form_id":"{id}"}}"#);
            assert_eq!(read(&json), Ok(hook(Some(FORM))));
        }
    }

    #[rstest]
    #[case(r#"{"target_url":"u"}"#, "`trigger` is missing")]
    #[case(r#"{"target_url":"u","trigger":"a","event":"b"}"#, "name different triggers")]
    #[case(r#"{"target_url":"u","trigger":"a","event":null}"#, "`event` must be a string")]
    #[case(r#"{"target_url":"u","trigger":null}"#, "`trigger` must be a string")]
    #[case(r#"{"target_url":"u","trigger":["x"]}"#, "`trigger` must be a string")]
    #[case(r#"{"target_url":"u","trigger":"a","event":5}"#, "`event` must be a string")]
    #[case(r#"{"trigger":"a"}"#, "`target_url` is missing")]
    #[case(r#"{"target_url":null,"trigger":"a"}"#, "`target_url` must be a string")]
    #[case(r#"{"target_url":5,"trigger":"a"}"#, "`target_url` must be a string")]
    #[case(r#"{"target_url":"u","trigger":"a","form_id":""}"#, "`form_id` must be a")]
    #[case(r#"{"target_url":"u","trigger":"a","form_id":"abc"}"#, "`form_id` must be a")]
    #[case(r#"{"target_url":"u","trigger":"a","form_id":5}"#, "`form_id` must be a")]
    #[case(
        r#"{"target_url":"u","trigger":"a","form_id":"{0b7a4c7e-93a1-4a65-8c0c-2f1f3a9d5e01}"}"#,
        "`form_id` must be a"
    )]
    #[case("{}", "`target_url` is missing")]
    fn a5_a6_a_wrong_property_is_named(#[case] json: &str, #[case] sentence: &str) {
        let refused = read(json).unwrap_err();
        assert!(refused.contains(sentence), "{refused}");
    }

    #[test]
    fn a_hook_is_the_contracts() {
        let row = HookRow {
            hook_id: Uuid::from_u128(0xABCD),
            trigger: "lead_hot".into(),
            target_url: "HTTPS-as-sent".into(),
            form_id: None,
            created_at: "2026-11-01T10:00:00Z".parse::<Timestamp>().unwrap().get(),
        };
        assert_eq!(
            serde_json::to_string(&HookBody::from(row)).unwrap(),
            concat!(
                r#"{"id":"00000000-0000-0000-0000-00000000abcd","trigger":"lead_hot","#,
                r#""target_url":"HTTPS-as-sent","form_id":null,"#,
                r#""created_at":"2026-11-01T10:00:00.000Z"}"#,
            )
        );
        assert_eq!(
            serde_json::to_string(&HookRemovedAnswer { ok: true }).unwrap(),
            r#"{"ok":true}"#
        );
    }
}
