//! Requests of replays, so that a repeated request begins no second replay (case G8). The rows are
//! in no event, and stay.

use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// Returns the replay that began for a request, if one did.
pub async fn find(
    executor: impl PgExecutor<'_>,
    firm_id: Uuid,
    request_id: Uuid,
) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select replay_id from replay_requests where firm_id = $1 and request_id = $2",
    )
    .bind(firm_id)
    .bind(request_id)
    .fetch_optional(executor)
    .await
}

/// Notes the replay of a request, in the transaction that begins the replay. Returns `false` if a
/// replay began for the request before. Waits for a concurrent transaction with the same request.
pub async fn insert(
    connection: &mut PgConnection,
    firm_id: Uuid,
    request_id: Uuid,
    replay_id: Uuid,
) -> Result<bool, sqlx::Error> {
    let noted = sqlx::query(
        "insert into replay_requests (firm_id, request_id, replay_id) values ($1, $2, $3)
             on conflict (firm_id, request_id) do nothing",
    )
    .bind(firm_id)
    .bind(request_id)
    .bind(replay_id)
    .execute(connection)
    .await?;
    Ok(noted.rows_affected() == 1)
}
