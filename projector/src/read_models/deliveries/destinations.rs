//! Destinations of deliveries, which a caller asks for when a pause holds them.

use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// The destination of one delivery.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Destination {
    /// The delivery.
    pub delivery_id: Uuid,
    /// The subscription, unless the delivery is a workflow step.
    pub hook_id: Option<Uuid>,
    /// The target of the subscription.
    pub target_url: Option<String>,
    /// The host, for a workflow step.
    pub host: Option<String>,
}

/// Returns the destinations of these deliveries. A delivery of a subscription comes with the
/// subscription's id. The read model knows the host of a workflow step.
pub async fn destinations_of(
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
