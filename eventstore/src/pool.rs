//! This module opens connections with the limits that keep transactions short, and runs the
//! migrations.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::migrate::{AppliedMigration, Migrate, MigrateError, Migration, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tokio::time::{sleep, timeout};

use crate::life::{LifeWatch, ServerLife, life_columns};
use crate::outage::{self, ACQUIRE_TIMEOUT};

/// A connection that was in use within this time is taken without a check. It was whole then.
pub(crate) const PING_AFTER_IDLE: Duration = Duration::from_millis(100);

/// A returning connection must answer its check within this time. A connection that does not answer
/// has lost the server without notice, so it is dropped.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection beside a pool looks this often whether the pool has moved to another server.
const MOVE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The wait between two looks for the end of another session's migrations.
const MIGRATION_LOCK_RETRY_AFTER: Duration = Duration::from_millis(100);

/// The number of statements that a connection keeps prepared. The service has fewer, so none is
/// prepared twice.
const STATEMENT_CACHE_SIZE: usize = 500;

/// The name of the service's connections in `pg_stat_activity`. Builds before 0.3.0 have another,
/// so a process knows that one is there.
pub const APPLICATION_NAME: &str = "firmforms 0.3";

/// The name of the connections of a build before 0.3.0.
pub const OLDER_APPLICATION_NAME: &str = "firmforms";

/// The server ends a connection whose far end has vanished within 25 s: after 10 s of silence it
/// asks three times, 5 s apart. The last setting is for answers that are not acknowledged (ruling
/// 57). The default would keep locks and connections of a lost machine for two hours.
const KEEPALIVES: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "25s"),
];

/// Sets the keepalives of a connection. They mean nothing to a Unix socket.
pub(crate) fn with_keepalives(options: PgConnectOptions) -> PgConnectOptions {
    options.options(KEEPALIVES)
}

/// The firms whose rows a new connection sees where the database has roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirmAtStart {
    /// All firms.
    All,
    /// No firm, until the user of the connection names one.
    None,
}

impl FirmAtStart {
    /// The value of the setting `firmforms.firm`.
    const fn setting_value(self) -> &'static str {
        match self {
            Self::All => "*",
            Self::None => "",
        }
    }
}

/// Makes a pool of at most this many connections, for rows of all firms. The first connection opens
/// when it is needed.
///
/// A statement may run for 30 s, wait for a lock for 5 s, and leave a transaction idle for 10 s.
/// The pool closes a connection that comes back inside a transaction. A cancelled `begin` leaves it
/// so, and the writes of its next user would never become visible.
#[must_use]
pub fn connect(options: PgConnectOptions, connections: u32) -> PgPool {
    LifeWatch::default().connect(options, connections)
}

/// Makes the same pool for rows of one firm at a time. A connection sees no firm until its user
/// names one, and no firm again after it is given back. The limit guards rows where the database
/// has roles (`migrate --roles`).
#[must_use]
pub fn connect_guarded(options: PgConnectOptions, connections: u32) -> PgPool {
    LifeWatch::default().connect_guarded(options, connections)
}

impl LifeWatch {
    /// Makes a pool like [`connect`] whose new connections tell this watch the life of the server.
    #[must_use]
    pub fn connect(&self, options: PgConnectOptions, connections: u32) -> PgPool {
        build_pool(options, connections, FirmAtStart::All, self)
    }

    /// Makes a pool like [`connect_guarded`] whose new connections tell this watch the life of the
    /// server.
    #[must_use]
    pub fn connect_guarded(&self, options: PgConnectOptions, connections: u32) -> PgPool {
        build_pool(options, connections, FirmAtStart::None, self)
    }
}

/// The options of a pool's connections.
pub(crate) fn session_options(options: PgConnectOptions, firm: FirmAtStart) -> PgConnectOptions {
    options
        .application_name(APPLICATION_NAME)
        .statement_cache_capacity(STATEMENT_CACHE_SIZE)
        .options([
            ("statement_timeout", "30s"),
            ("lock_timeout", "5s"),
            ("idle_in_transaction_session_timeout", "10s"),
            ("firmforms.firm", firm.setting_value()),
        ])
}

fn build_pool(
    options: PgConnectOptions,
    connections: u32,
    firm: FirmAtStart,
    watch: &LifeWatch,
) -> PgPool {
    let told = watch.clone();
    let asked = watch.clone();
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let watch = told.clone();
            Box::pin(async move {
                let life = begin_session(connection).await.inspect_err(|error| {
                    if !outage::explains(error) {
                        tracing::error!(%error, "a new connection to the database cannot be used");
                    }
                })?;
                watch.admit_life(life)
            })
        })
        .before_acquire(move |connection, meta| {
            let opened = Instant::now().checked_sub(meta.age);
            let is_of_this_life = opened.is_some_and(|opened| asked.had_begun_at(opened));
            Box::pin(async move {
                let is_checked = !is_of_this_life || meta.idle_for <= PING_AFTER_IDLE;
                // An error would be a line of the log. The pool closes the connection either way.
                Ok(is_of_this_life && (is_checked || connection.ping().await.is_ok()))
            })
        })
        .after_release(move |connection, _| {
            Box::pin(async move {
                let given_back = is_given_back_whole(connection, firm);
                Ok(matches!(timeout(RELEASE_TIMEOUT, given_back).await, Ok(Ok(true))))
            })
        })
        .connect_lazy_with(session_options(options, firm))
}

/// Makes the commits of a new connection durable, and returns the life of its server.
///
/// A login or a database may have `synchronous_commit` off by default, and a crash then loses
/// commits that callers were told of. An operator's `remote_write` or `remote_apply` stays.
pub(crate) async fn begin_session(
    connection: &mut PgConnection,
) -> Result<ServerLife, sqlx::Error> {
    sqlx::query_as(concat!(
        "select ",
        life_columns!(),
        ", case when current_setting('synchronous_commit') in ('off', 'local')
                then set_config('synchronous_commit', 'on', false) end as raised"
    ))
    .fetch_one(connection)
    .await
}

/// Waits so long for a statement. A connection that has fallen silent neither answers nor ends.
///
/// # Errors
/// The statement's error, or a timeout.
pub async fn answer_within<T>(
    limit: Duration,
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    timeout(limit, statement).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

/// Waits until a pool's new connections go elsewhere than to the server of these options.
pub(crate) async fn until_moved(pool: &PgPool, options: &Arc<PgConnectOptions>) {
    while Arc::ptr_eq(options, &pool.connect_options()) {
        sleep(MOVE_CHECK_INTERVAL).await;
    }
}

/// Resets the connection to the pool's firm and returns whether it is outside a transaction. Every
/// answer of the server carries that state. An empty query has such an answer and costs the server
/// next to nothing. The crate sqlx shows the state only through its check of a `begin`.
async fn is_given_back_whole(
    connection: &mut PgConnection,
    firm: FirmAtStart,
) -> Result<bool, sqlx::Error> {
    let whole = match firm {
        FirmAtStart::All => "",
        FirmAtStart::None => "reset firmforms.firm",
    };
    match connection.begin_with(whole).await {
        Err(sqlx::Error::BeginFailed) => Ok(true),
        Ok(_) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) static MAIN_MIGRATIONS: Migrator = sqlx::migrate!("../migrations/main");

/// The migrations of the main database.
#[must_use]
pub fn main_migrations() -> &'static Migrator {
    &MAIN_MIGRATIONS
}

/// Brings the main database to this build's schema.
///
/// # Errors
/// As [`bring_up`].
pub async fn migrate(pool: &PgPool) -> Result<(), MigrateError> {
    bring_up(pool, &MAIN_MIGRATIONS).await
}

/// Brings a database to the schema of these migrations. It reads the applied migrations first. A
/// login that serves may not change the schema, and need not if the schema is there.
///
/// # Errors
/// If a migration fails, or another build made the database.
/// [`MigrateError::VersionMismatch`] means a build from before the first release.
/// [`MigrateError::VersionMissing`] means a newer build.
pub async fn bring_up(pool: &PgPool, migrator: &Migrator) -> Result<(), MigrateError> {
    let applied = applied_migrations(pool).await?;
    refuse_other_builds(&applied, migrator)?;
    if applied.len() == migrator.iter().count() {
        return Ok(());
    }
    let mut connection = pool.acquire().await?.detach();
    // An index of a large table takes longer than a statement of the service may.
    connection.execute("set statement_timeout = 0").await?;
    lock_migrations(&mut connection).await?;
    drop_unfinished_indexes(&mut connection, migrator).await?;
    connection.ensure_migrations_table().await?;
    let applied = connection.list_applied_migrations().await?;
    let is_missing = |one: &&Migration| applied.iter().all(|done| done.version != one.version);
    for migration in migrator.iter().filter(is_missing) {
        let limit = if migration.sql.contains(" concurrently ") {
            WAIT_FOR_OTHERS
        } else {
            "reset lock_timeout"
        };
        connection.execute(limit).await?;
        connection.apply(migration).await?;
    }
    connection.close().await.ok();
    Ok(())
}

/// An index that is made beside writers waits for older snapshots, and nobody waits for it. Any
/// other change of a table must not wait for long, because everybody waits behind it.
const WAIT_FOR_OTHERS: &str = "set lock_timeout = 0";

/// Waits until no other session migrates this database. A wait inside a statement would hold a
/// snapshot, and an index that is made beside writers would wait for that snapshot.
async fn lock_migrations(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let lock = "select pg_try_advisory_lock(hashtext('firmforms migrations'))";
    while !sqlx::query_scalar::<_, bool>(lock).fetch_one(&mut *connection).await? {
        sleep(MIGRATION_LOCK_RETRY_AFTER).await;
    }
    Ok(())
}

/// Drops indexes of these migrations that a stopped run left unfinished, so that it can run again.
async fn drop_unfinished_indexes(
    connection: &mut PgConnection,
    migrator: &Migrator,
) -> Result<(), sqlx::Error> {
    let unfinished: Vec<String> = sqlx::query_scalar(
        "select c.relname::text from pg_index i join pg_class c on c.oid = i.indexrelid
          where not i.indisvalid and c.relkind = 'i'
            and c.relnamespace = 'public'::regnamespace",
    )
    .fetch_all(&mut *connection)
    .await?;
    connection.execute(WAIT_FOR_OTHERS).await?;
    // Another index may be one that an operator is making.
    let is_ours = |name: &String| {
        migrator.iter().any(|one| one.sql.contains(&format!("concurrently if not exists {name} ")))
    };
    for name in unfinished.iter().filter(|name| is_ours(name)) {
        connection.execute(format!("drop index concurrently {name}").as_str()).await?;
    }
    Ok(())
}

/// Refuses a database that another build made.
///
/// A released migration never changes. So a checksum that differs is from before the first release.
/// Such a checksum decides alone, because that database may also have versions unknown to this
/// build.
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

/// Returns the migrations that have succeeded here. A database without the migrations table has
/// none.
async fn applied_migrations(pool: &PgPool) -> Result<Vec<AppliedMigration>, sqlx::Error> {
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
