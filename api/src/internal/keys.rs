//! `/internal/v1/firms/{firm}/keys`: keys on the settings screen.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, StatusCode};
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::values::Timestamp;
use projector::keys::KeyRow;
use serde::Serialize;
use uuid::Uuid;

use super::ListBody;
use super::caller::{Product, Reader, Viewer};
use super::path::{PathFirm, PathParamId};
use crate::body::{self, BodyLimit, OptionalJsonBody, json};
use crate::commands::keys::{self, CreatedKey};
use crate::commands::readings;
use crate::error::Error;
use crate::queries::history::{self, KeyHistory};
use crate::service::Service;

/// A key in an answer of the internal API.
#[derive(Debug, Serialize)]
pub(super) struct KeyBody {
    id: Uuid,
    name: String,
    prefix: String,
    member_id: Uuid,
    created_at: Timestamp,
    revoked_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
    /// The key's text, only in the answer to its making.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// Answer to a revocation.
#[derive(Debug, Serialize)]
pub(super) struct KeyRevokedAnswer {
    ok: bool,
}

/// Makes a key. Only this answer has the text, and no cache may keep it.
pub(super) async fn create(
    caller: Product,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<(StatusCode, [(HeaderName, &'static str); 1], Json<KeyBody>), Error> {
    let (parts, body) = request.into_parts();
    let mut fields =
        json::parse_object(&body::read_bytes(&parts.headers, body, BodyLimit::PUBLIC).await?)?;
    let member_id = fields.id("member_id")?;
    let name = fields.string("name")?;
    fields.refuse_unknown()?;
    let actor = caller.for_member(member_id);
    let created = keys::create_by(&service, firm_id, member_id, actor, &name).await?;
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(created.into())))
}

/// Lists the firm's keys, revoked ones too.
pub(super) async fn list(
    _: Viewer,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
) -> Result<Json<ListBody<KeyBody>>, Error> {
    Ok(Json(ListBody::new(keys::list(&service, firm_id).await?)))
}

/// Explains a key's life and the reason of its end.
pub(super) async fn history(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    key_id: PathParamId,
    State(service): State<Arc<Service>>,
) -> Result<Json<KeyHistory>, Error> {
    let key_id = key_id.id_or(Error::NotFound)?;
    let found = history::of_key(&service, key_id).await?;
    if found.firm_id != firm_id {
        return Err(Error::NotFound);
    }
    let look = ReadingDetails {
        key_id: Some(key_id),
        ..ReadingDetails::at(ReadingSubject::Key, ReadAs::Page)
    };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    Ok(Json(found))
}

/// Revokes a key. A given reason is recorded right before.
pub(super) async fn revoke(
    caller: Product,
    PathFirm(firm_id): PathFirm,
    key_id: PathParamId,
    State(service): State<Arc<Service>>,
    OptionalJsonBody(mut body): OptionalJsonBody,
) -> Result<Json<KeyRevokedAnswer>, Error> {
    let key_id = key_id.id_or(Error::NotFound)?;
    let why = body.nullable_string("reason")?;
    body.refuse_unknown()?;
    if let Some(why) = why {
        keys::note_reason(&service, firm_id, key_id, caller.actor(), &why).await?;
    }
    keys::revoke(&service, firm_id, key_id, caller.actor()).await?;
    Ok(Json(KeyRevokedAnswer { ok: true }))
}

impl From<CreatedKey> for KeyBody {
    fn from(created: CreatedKey) -> Self {
        Self {
            id: created.id,
            name: created.name,
            prefix: created.key.prefix().to_owned(),
            member_id: created.member_id,
            created_at: created.created_at,
            revoked_at: None,
            last_used_at: None,
            key: Some(created.key.as_str().to_owned()),
        }
    }
}

impl From<KeyRow> for KeyBody {
    fn from(row: KeyRow) -> Self {
        Self {
            id: row.key_id,
            name: row.name,
            prefix: row.prefix,
            member_id: row.member_id,
            created_at: row.created_at.into(),
            revoked_at: row.revoked_at.map(Timestamp::from),
            last_used_at: row.last_used_at.map(Timestamp::from),
            key: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::access::ApiKey;

    #[test]
    fn only_a_keys_creation_shows_its_text() {
        let created = CreatedKey {
            id: Uuid::from_u128(1),
            key: ApiKey::from_bytes([0; 32]),
            name: "Zapier".into(),
            member_id: Uuid::from_u128(2),
            created_at: "2026-11-01T10:00:00Z".parse().unwrap(),
        };
        let row = KeyRow {
            key_id: created.id,
            name: created.name.clone(),
            prefix: created.key.prefix().to_owned(),
            member_id: created.member_id,
            created_at: created.created_at.get(),
            revoked_at: None,
            last_used_at: None,
        };
        let shared = concat!(
            r#"{"id":"00000000-0000-0000-0000-000000000001","name":"Zapier","#,
            r#""prefix":"ffk_AAAAAAAA","member_id":"00000000-0000-0000-0000-000000000002","#,
            r#""created_at":"2026-11-01T10:00:00.000Z","revoked_at":null,"last_used_at":null"#,
        );
        let text = created.key.as_str().to_owned();
        let json = |key: KeyBody| serde_json::to_string(&key).unwrap();
        assert_eq!(json(created.into()), format!(r#"{shared},"key":"{text}"}}"#));
        assert_eq!(json(row.into()), format!("{shared}}}"));
    }
}
