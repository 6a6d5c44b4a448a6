//! `/internal/v1/tokens`: tokens of this API. They are made at the terminal only.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use domain::values::Timestamp;
use projector::tokens::TokenRow;
use serde::Serialize;
use uuid::Uuid;

use super::ListBody;
use super::caller::Reader;
use crate::error::Error;
use crate::queries::inventory;
use crate::service::Service;

/// A token in an answer of the internal API.
#[derive(Debug, Serialize)]
pub(super) struct TokenBody {
    id: Uuid,
    name: String,
    role: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    firm_ids: Option<Vec<Uuid>>,
    last_used_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

/// Lists tokens, revoked ones too.
pub(super) async fn list(
    reader: Reader,
    State(service): State<Arc<Service>>,
) -> Result<Json<ListBody<TokenBody>>, Error> {
    Ok(Json(ListBody::new(inventory::tokens(&service, reader.holder().reached_firms()).await?)))
}

impl From<TokenRow> for TokenBody {
    fn from(row: TokenRow) -> Self {
        Self {
            id: row.token_id,
            name: row.name,
            role: row.role,
            created_at: row.created_at.into(),
            expires_at: row.expires_at.map(Timestamp::from),
            firm_ids: row.firm_ids,
            last_used_at: row.last_used_at.map(Timestamp::from),
            revoked_at: row.revoked_at.map(Timestamp::from),
        }
    }
}
