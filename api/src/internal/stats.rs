//! `/internal/v1/stats`: sizes of the tables and their growth.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::caller::Reader;
use crate::error::Error;
use crate::queries::stats::{self, Stats};
use crate::service::Service;

/// Shows sizes and growth. They are about all firms, so a token for some firms is refused.
pub(super) async fn show(
    reader: Reader,
    State(service): State<Arc<Service>>,
) -> Result<Json<Stats>, Error> {
    reader.check_reach()?;
    Ok(Json(stats::show(&service).await?))
}
