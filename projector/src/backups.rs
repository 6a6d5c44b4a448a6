//! The last backup that was finished. The command that takes backups writes it; it has no events.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection};

/// A finished backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct BackupNote {
    /// Time of the snapshot of the main database.
    pub taken_at: DateTime<Utc>,
    /// Position that the log had reached in this snapshot.
    pub position: i64,
    /// Bytes of all files.
    pub bytes: i64,
}

/// Returns the last backup. `None` if none was taken.
pub async fn last(connection: &mut PgConnection) -> Result<Option<BackupNote>, sqlx::Error> {
    sqlx::query_as("select taken_at, position, bytes from last_backup")
        .fetch_optional(connection)
        .await
}

/// Notes a finished backup.
pub async fn note(connection: &mut PgConnection, backup: BackupNote) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into last_backup (taken_at, position, bytes) values ($1, $2, $3)
         on conflict (single) do update set
             taken_at = excluded.taken_at, position = excluded.position, bytes = excluded.bytes",
    )
    .bind(backup.taken_at)
    .bind(backup.position)
    .bind(backup.bytes)
    .execute(connection)
    .await?;
    Ok(())
}
