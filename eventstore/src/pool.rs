//! Connections to the database, with the limits that keep transactions short, and the migrations.

use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::timeout;

/// How long a caller waits for a free connection before it is told to come back.
const ACQUIRE: Duration = Duration::from_secs(3);

/// A connection that was in use so short a time ago is taken as it is: it said that it was whole.
const FRESH: Duration = Duration::from_secs(1);

/// How long a connection may take to say that it is whole when it comes back. One that says nothing is
/// cut off from the server, which nothing else would tell: it is dropped.
const RELEASE: Duration = Duration::from_secs(5);

/// A pool of at most this many connections. Opens the first one when it is needed.
///
/// No statement runs for more than 30 s, no lock is awaited for more than 5 s, and no transaction
/// idles for more than 10 s. A connection that comes back inside a transaction is closed: a cancelled
/// `begin` leaves it so, and what its next user writes would never be seen.
#[must_use]
pub fn connect(options: PgConnectOptions, connections: u32) -> PgPool {
    let options = options.application_name("firmforms").options([
        ("statement_timeout", "30s"),
        ("lock_timeout", "5s"),
        ("idle_in_transaction_session_timeout", "10s"),
    ]);
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE)
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > FRESH {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_release(|connection, _| {
            Box::pin(async {
                timeout(RELEASE, is_outside_a_transaction(connection))
                    .await
                    .map_err(|_| sqlx::Error::PoolTimedOut)?
            })
        })
        .connect_lazy_with(options)
}

/// Every answer says whether the connection is inside a transaction, the one to an empty query too: it
/// costs the server next to nothing. The library tells nobody but its own check of a `begin`.
async fn is_outside_a_transaction(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    match connection.begin_with("").await {
        Err(sqlx::Error::BeginFailed) => Ok(true),
        Ok(_) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) static MAIN: Migrator = sqlx::migrate!("../migrations/main");

/// Brings the main database to this build's schema.
///
/// # Errors
/// If a migration fails, or the database is ahead of this build.
pub async fn migrate(pool: &PgPool) -> Result<(), MigrateError> {
    MAIN.run(pool).await
}
