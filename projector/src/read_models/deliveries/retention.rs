//! The deliveries whose data the vault must keep, and those whose retention is over (ruling 21,
//! body).
//!
//! Nearly all deliveries arrive within a minute. The age of their bodies tells when the retention
//! ends. An index finds the few other deliveries by their body.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use eventstore::checkpoint;
use sqlx::PgConnection;
use uuid::Uuid;

use super::DeliveryProjection;
use crate::follow::Projection;

// `offset 0` makes the planner look up each row. A join reads the whole history if the planner
// takes it for short.

/// The times before which a delivery must have ended, for its retention to be over.
#[derive(Debug, Clone, Copy)]
pub struct EndedBefore {
    /// The time for delivered deliveries.
    pub delivered: DateTime<Utc>,
    /// The time for all others.
    pub failed: DateTime<Utc>,
}

/// Returns the bodies among these that a delivery still needs. It is pending, or its retention is
/// not over. A delivery that arrived within [`super::ENDED_LATER_MIN`] of its queuing is left out.
pub async fn bodies_needed(
    connection: &mut PgConnection,
    body_ids: &[Uuid],
    ended: EndedBefore,
) -> Result<HashSet<Uuid>, sqlx::Error> {
    let needed: Vec<Uuid> = sqlx::query_scalar(
        "select t.body_id from unnest($1::uuid[]) as t(body_id)
          where exists (
                select from deliveries d
                 where d.body_id = t.body_id and d.body_id is not null
                   and (d.state <> 'delivered' or d.ended_at - d.created_at > interval '1 minute')
                   and (d.ended_at is null
                        or d.ended_at > case when d.state = 'delivered' then $2 else $3 end)
                offset 0)",
    )
    .bind(body_ids)
    .bind(ended.delivered)
    .bind(ended.failed)
    .fetch_all(connection)
    .await?;
    Ok(needed.into_iter().collect())
}

/// Returns the workflow steps among these deliveries whose retention is over.
pub async fn steps_over(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
    ended: EndedBefore,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select t.delivery_id from unnest($1::uuid[]) as t(delivery_id)
          where exists (
                select from deliveries d
                 where d.delivery_id = t.delivery_id
                   and d.ended_at <= case when d.state = 'delivered' then $2 else $3 end
                offset 0)",
    )
    .bind(delivery_ids)
    .bind(ended.delivered)
    .bind(ended.failed)
    .fetch_all(connection)
    .await
}

/// Returns whether history has all events up to this position.
pub async fn has_followed(
    connection: &mut PgConnection,
    position: i64,
) -> Result<bool, sqlx::Error> {
    let reached = checkpoint::position(connection, DeliveryProjection::NAME).await?;
    Ok(reached.is_some_and(|reached| reached >= position))
}
