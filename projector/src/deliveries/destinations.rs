//! Where deliveries go: asked when something is held.

use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// Where one goes.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Destination {
    /// The delivery.
    pub delivery_id: Uuid,
    /// Its subscription, unless it is a workflow step's.
    pub hook_id: Option<Uuid>,
    /// The subscription's target.
    pub target_url: Option<String>,
    /// The host of a workflow step's.
    pub host: Option<String>,
}

/// Where these deliveries go.
///
/// # Errors
/// If the database does not answer.
pub async fn destinations(
    pool: &PgPool,
    delivery_ids: &[Uuid],
) -> Result<Vec<Destination>, sqlx::Error> {
    sqlx::query_as(
        "select d.delivery_id, d.hook_id, h.target_url, d.host
           from deliveries d left join hooks h on h.hook_id = d.hook_id
          where d.delivery_id = any($1)",
    )
    .bind(delivery_ids)
    .fetch_all(pool)
    .await
}
