//! A checkpoint is the position that a follower has reached.
//!
//! A follower takes its checkpoint, reads events above the position, applies them, and moves the
//! checkpoint in the same transaction. So a batch is applied once or not at all. The lock of
//! [`lock_position`] lets one process follow at a time.

use sqlx::PgConnection;

use crate::joined::JoinedWrites;

/// Locks a follower's checkpoint and returns its position. Returns `None` if another process holds
/// it.
pub async fn lock_position(
    connection: &mut PgConnection,
    name: &str,
) -> Result<Option<i64>, sqlx::Error> {
    let locked = "select position from checkpoints where name = $1 for update skip locked";
    if let Some(position) =
        sqlx::query_scalar(locked).bind(name).fetch_optional(&mut *connection).await?
    {
        return Ok(Some(position));
    }
    make(connection, name).await?;
    sqlx::query_scalar(locked).bind(name).fetch_optional(connection).await
}

/// Makes a follower's checkpoint at position 0, before the first event. Returns whether there was
/// none.
pub async fn make(connection: &mut PgConnection, name: &str) -> Result<bool, sqlx::Error> {
    let made = sqlx::query(
        "insert into checkpoints (name, position) values ($1, 0) on conflict do nothing",
    )
    .bind(name)
    .execute(connection)
    .await?;
    Ok(made.rows_affected() == 1)
}

/// Returns a follower's position, if the follower has begun.
pub async fn position(
    connection: &mut PgConnection,
    name: &str,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("select position from checkpoints where name = $1")
        .bind(name)
        .fetch_optional(connection)
        .await
}

/// Adds the write that moves a locked checkpoint.
pub fn write_move(writes: &mut JoinedWrites, name: &'static str, position: i64) {
    writes
        .add("moved as (update checkpoints set position = $2 where name = $1)")
        .bind(name)
        .bind(position);
}

/// Moves a locked checkpoint.
pub async fn move_to(
    connection: &mut PgConnection,
    name: &'static str,
    position: i64,
) -> Result<(), sqlx::Error> {
    let mut writes = JoinedWrites::default();
    write_move(&mut writes, name, position);
    writes.execute(connection).await
}
