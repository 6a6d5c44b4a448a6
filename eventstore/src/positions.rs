//! Two nets below the fence (ruling 56). A follower never reads an event at or below its cursor, so
//! positions are drawn above all cursors, and an append that is not above them is refused.
//!
//! No healthy server draws such a position. A process that trusted an earlier life of the server
//! could move a cursor too far. The cursor of the seals moves with each seal, so it stands for all.

use sqlx::PgConnection;

use crate::error::AppendError;

/// The highest cursor, as a column of the insert. It is read once for each statement.
macro_rules! cursor_column {
    () => {
        "(select max(position) from checkpoints)"
    };
}
pub(crate) use cursor_column;

/// Moves the sequence of positions above every cursor. Returns the number of positions left out.
/// It only draws from the sequence, so others may draw at the same time.
pub(crate) async fn leave_out_passed(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let left_out = sqlx::query_scalar(concat!(
        "select count(nextval('events_position_seq'))
           from generate_series(
                    (select case when is_called then last_value else 0 end
                       from events_position_seq) + 1,
                    ",
        cursor_column!(),
        ")"
    ))
    .fetch_one(connection)
    .await?;
    if left_out > 0 {
        tracing::error!(
            left_out,
            "cursors were above the end of the log: the next event comes after them"
        );
    }
    Ok(left_out)
}

/// Refuses an append whose first position is not above the highest cursor. Decided again, it draws
/// higher positions.
pub(crate) async fn require_above(
    connection: &mut PgConnection,
    first: i64,
    highest_cursor: Option<i64>,
) -> Result<(), AppendError> {
    let Some(cursor) = highest_cursor.filter(|cursor| first <= *cursor) else { return Ok(()) };
    tracing::error!(first, cursor, "a follower has passed an append: it is decided again");
    leave_out_passed(connection).await?;
    Err(AppendError::Conflict)
}

/// Returns the highest cursor.
pub(crate) async fn highest_cursor(
    connection: &mut PgConnection,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(concat!("select ", cursor_column!())).fetch_one(connection).await
}
