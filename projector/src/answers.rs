//! What receivers said, to be shown beside a delivery's tries. The deliverer alone writes it, in the
//! transaction that records the try; here it is only asked for.

use sqlx::PgPool;
use uuid::Uuid;

/// The kept answers to a delivery's tries: number of the try, and what was said.
///
/// # Errors
/// If the database does not answer.
pub async fn of_delivery(
    pool: &PgPool,
    delivery_id: Uuid,
) -> Result<Vec<(i32, String)>, sqlx::Error> {
    sqlx::query_as("select number, answer from answers where delivery_id = $1 order by number")
        .bind(delivery_id)
        .fetch_all(pool)
        .await
}
