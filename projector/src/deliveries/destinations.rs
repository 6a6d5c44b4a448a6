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

/// Where these deliveries go, each with its subscription, if it is one's. Of a step's the read model tells.
///
/// # Errors
/// If the database does not answer.
pub async fn destinations(
    pool: &PgPool,
    deliveries: &[(Uuid, Option<Uuid>)],
) -> Result<Vec<Destination>, sqlx::Error> {
    let (delivery_ids, hook_ids): (Vec<Uuid>, Vec<Option<Uuid>>) =
        deliveries.iter().copied().unzip();
    sqlx::query_as(
        "select t.delivery_id, t.hook_id, h.target_url, d.host
           from unnest($1::uuid[], $2::uuid[]) as t(delivery_id, hook_id)
           left join hooks h on h.hook_id = t.hook_id
           left join deliveries d on d.delivery_id = t.delivery_id",
    )
    .bind(delivery_ids)
    .bind(hook_ids)
    .fetch_all(pool)
    .await
}
