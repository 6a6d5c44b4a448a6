//! Full disks of databases. PostgreSQL refuses the writes that need room (SQLSTATE 53100), and
//! still answers questions (case E15).

use sqlx::{Connection, PgConnection};
use telemetry::metrics::DISK_FULL_REFUSALS;

/// Whether a trial write found room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskSpace {
    /// The write was possible.
    Free,
    /// The server refused the write because its disk is full.
    Full,
}

/// A trial event of 64 KiB. Digests do not compress, so it needs new pages.
const LOG_TRIAL: &str = "
    insert into events (aggregate_type, aggregate_id, sequence, event_type, event_version,
                        payload, metadata, firm_id, recorded_at, digest)
    select 'Trial', gen_random_uuid()::text, 1, 'Tried', '1',
           to_json(string_agg(md5(n::text), '')), '{}', '00000000-0000-0000-0000-000000000000',
           now(), sha256('')
      from generate_series(1, 2048) n";

/// Tries to write to the log, and takes the event back. The trial uses up a position, like every
/// append that is rolled back.
///
/// # Errors
/// If the database does not answer, or refuses for another reason.
pub async fn try_log_write(connection: &mut PgConnection) -> Result<DiskSpace, sqlx::Error> {
    try_write(connection, LOG_TRIAL).await
}

/// Carries this statement out, and takes it back.
///
/// # Errors
/// If the database does not answer, or refuses for another reason.
pub async fn try_write(
    connection: &mut PgConnection,
    statement: &'static str,
) -> Result<DiskSpace, sqlx::Error> {
    let mut transaction = connection.begin().await?;
    let written = sqlx::query(statement).execute(&mut *transaction).await;
    transaction.rollback().await?;
    match written {
        Ok(_) => Ok(DiskSpace::Free),
        Err(error) if is_disk_full(&error) => Ok(DiskSpace::Full),
        Err(error) => Err(error),
    }
}

/// Returns whether a write was refused because the server's disk is full.
#[must_use]
pub fn is_disk_full(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("53100"))
}

/// Counts an error if a full disk is its cause.
pub fn count_refusal(error: &(dyn std::error::Error + 'static)) {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut causes = causes.filter_map(|cause| cause.downcast_ref::<sqlx::Error>());
    if causes.any(is_disk_full) {
        DISK_FULL_REFUSALS.count(&[]);
    }
}
