//! Connections to the database, with the limits that keep transactions short, and the migrations.

use std::time::Duration;

use sqlx::migrate::{AppliedMigration, MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tokio::time::timeout;

/// How long a caller waits for a free connection before it is told to come back.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// A connection that was in use so short a time ago is taken as it is: it said that it was whole.
pub(crate) const PING_AFTER_IDLE: Duration = Duration::from_millis(100);

/// How long a connection may take to say that it is whole when it comes back. One that says nothing is
/// cut off from the server, which nothing else would tell: it is dropped.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Statements that a connection keeps prepared: more than there are, so that none is prepared again.
const STATEMENT_CACHE_SIZE: usize = 500;

/// A pool of at most this many connections, for rows of all firms. Opens the first one when it is
/// needed.
///
/// No statement runs for more than 30 s, no lock is awaited for more than 5 s, and no transaction
/// idles for more than 10 s. A connection that comes back inside a transaction is closed: a cancelled
/// `begin` leaves it so, and what its next user writes would never be seen.
#[must_use]
pub fn connect(options: PgConnectOptions, connections: u32) -> PgPool {
    pool(options, connections, "*")
}

/// The same, for rows of one firm at a time: of none, until a connection is told which, and of none
/// again when it is given back. It is a guard where the database has roles (`migrate --roles`).
#[must_use]
pub fn connect_guarded(options: PgConnectOptions, connections: u32) -> PgPool {
    pool(options, connections, "")
}

fn pool(options: PgConnectOptions, connections: u32, firm: &'static str) -> PgPool {
    let options = options
        .application_name("firmforms")
        .statement_cache_capacity(STATEMENT_CACHE_SIZE)
        .options([
            ("statement_timeout", "30s"),
            ("lock_timeout", "5s"),
            ("idle_in_transaction_session_timeout", "10s"),
            ("firmforms.firm", firm),
        ]);
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > PING_AFTER_IDLE {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_release(move |connection, _| {
            Box::pin(async move {
                timeout(RELEASE_TIMEOUT, is_given_back_whole(connection, firm))
                    .await
                    .map_err(|_| sqlx::Error::PoolTimedOut)?
            })
        })
        .connect_lazy_with(options)
}

/// Makes it for the pool's firm again, and says whether it is outside a transaction. Every answer says
/// that, the one to an empty query too: it costs the server next to nothing. The library tells nobody
/// but its own check of a `begin`.
async fn is_given_back_whole(
    connection: &mut PgConnection,
    firm: &'static str,
) -> Result<bool, sqlx::Error> {
    let whole = if firm.is_empty() { "reset firmforms.firm" } else { "" };
    match connection.begin_with(whole).await {
        Err(sqlx::Error::BeginFailed) => Ok(true),
        Ok(_) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) static MAIN_MIGRATIONS: Migrator = sqlx::migrate!("../migrations/main");

/// Brings the main database to this build's schema.
///
/// # Errors
/// As [`bring_up`].
pub async fn migrate(pool: &PgPool) -> Result<(), MigrateError> {
    bring_up(pool, &MAIN_MIGRATIONS).await
}

/// Brings a database to the schema of these migrations. It looks first: a login that serves may not
/// change the schema, and need not when it is there.
///
/// # Errors
/// If a migration fails, or another build made the database: [`MigrateError::VersionMismatch`] for a
/// build from before the first release, [`MigrateError::VersionMissing`] for a newer build.
pub async fn bring_up(pool: &PgPool, migrator: &Migrator) -> Result<(), MigrateError> {
    let applied = applied(pool).await?;
    refuse_other_builds(&applied, migrator)?;
    if applied.len() == migrator.iter().count() {
        return Ok(());
    }
    let mut connection = pool.acquire().await?.detach();
    // An index of a large table takes longer than a statement of the service may.
    connection.execute("set statement_timeout = 0").await?;
    migrator.run(&mut connection).await?;
    connection.close().await.ok();
    Ok(())
}

/// Refuses a database that another build made.
///
/// A released migration never changes. A checksum that differs is therefore from before the first
/// release, and decides alone: such a database may also have versions that this build does not know.
fn refuse_other_builds(
    applied: &[AppliedMigration],
    migrator: &Migrator,
) -> Result<(), MigrateError> {
    let mut newer = None;
    for one in applied {
        match migrator.iter().find(|ours| ours.version == one.version) {
            Some(ours) if ours.checksum != one.checksum => {
                return Err(MigrateError::VersionMismatch(one.version));
            }
            Some(_) => {}
            None => newer = newer.or(Some(one.version)),
        }
    }
    newer.map_or(Ok(()), |version| Err(MigrateError::VersionMissing(version)))
}

/// The migrations that have succeeded here; none of a database that has never seen one.
async fn applied(pool: &PgPool) -> Result<Vec<AppliedMigration>, sqlx::Error> {
    let there: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(pool)
        .await?;
    if !there {
        return Ok(Vec::new());
    }
    let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(
        "select version, checksum from _sqlx_migrations where success order by version",
    )
    .fetch_all(pool)
    .await?;
    let applied = |(version, checksum): (i64, Vec<u8>)| AppliedMigration {
        version,
        checksum: checksum.into(),
    };
    Ok(rows.into_iter().map(applied).collect())
}
