//! The shadow is a schema with tables like the live ones. Its connection sees these tables and the
//! log, and no others. So a writer that touched another table would fail.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection, PgPool};

use super::RebuildError;
use super::definition::{TableDefinitions, read_definition};
use super::model::{ModelTable, ReadModel};

/// The schema of the shadow tables.
pub(super) const SCHEMA: &str = "shadow";

/// The time for which one attempt waits for the lock on the live tables. All other users wait
/// behind it. PostgreSQL looks for deadlocks after a second, so this wait ends before.
const LOCK_TIMEOUT: Duration = Duration::from_millis(400);

/// The wait of every tenth attempt. PostgreSQL ends an autovacuum in the way after one second.
const LONG_LOCK_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The connection on which read models are rebuilt.
pub(super) struct ShadowTables {
    pub(super) connection: PgConnection,
    pub(super) defined: TableDefinitions,
    options: PgConnectOptions,
}

impl ShadowTables {
    /// Opens the shadow with empty tables for these models. It drops the tables that a crash has
    /// left.
    pub(super) async fn open(pool: &PgPool, models: &[ReadModel]) -> Result<Self, RebuildError> {
        let options = PgConnectOptions::clone(&pool.connect_options()).options([
            // A comparison of all rows takes long and holds no lock.
            ("statement_timeout", "0"),
            ("idle_in_transaction_session_timeout", "0"),
            ("client_min_messages", "warning"),
            // PostgreSQL would keep a plan made for empty tables after they are full.
            ("plan_cache_mode", "force_custom_plan"),
            // A rebuild reads whole tables.
            ("enable_seqscan", "on"),
            ("enable_bitmapscan", "on"),
        ]);
        let mut connection = options.clone().options([("search_path", SCHEMA)]).connect().await?;
        if !is_alone(&mut connection).await? {
            return Err(RebuildError::Another);
        }
        let mut shadow = Self { connection, defined: TableDefinitions::default(), options };
        shadow.drop_schema().await?;
        shadow.make_tables(models).await?;
        Ok(shadow)
    }

    /// Opens another connection, which reads the live tables.
    pub(super) async fn connect_to_live(&self) -> Result<PgConnection, sqlx::Error> {
        self.options.connect().await
    }

    /// Checks that the live tables still have the definitions of the shadow's.
    pub(super) async fn check_definitions(&mut self, model: ReadModel) -> Result<(), RebuildError> {
        self.defined.check_unchanged(&mut self.connection, model).await
    }

    async fn drop_schema(&mut self) -> Result<(), sqlx::Error> {
        self.connection.execute("drop schema if exists shadow cascade").await?;
        Ok(())
    }

    async fn make_tables(&mut self, models: &[ReadModel]) -> Result<(), sqlx::Error> {
        let mut transaction = self.connection.begin().await?;
        transaction.execute("create schema shadow").await?;
        transaction.execute("create view shadow.events as table public.events").await?;
        for table in models.iter().flat_map(|model| model.tables()) {
            let definition = read_definition(&mut transaction, table).await?;
            if let Some(grant) = let_owner_in(&mut transaction, table).await? {
                transaction.execute(&*grant).await?;
            }
            for statement in &definition.statements {
                transaction.execute(&**statement).await?;
            }
            self.defined.note_table(table, definition);
        }
        transaction.commit().await
    }

    /// Drops the rest, and lets the next rebuild begin.
    pub(super) async fn close(mut self) -> Result<(), sqlx::Error> {
        self.drop_schema().await?;
        // The server ends a session a moment after its connection.
        self.connection.execute("select pg_advisory_unlock_all()").await?;
        self.connection.close().await
    }
}

/// Takes the lock of rebuilds, which lasts as long as the connection.
async fn is_alone(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select pg_try_advisory_lock(hashtext('firmforms rebuild'))")
        .fetch_one(connection)
        .await
}

/// Returns the grant that lets the owner of a table have one in the shadow. A table of the current
/// user needs none.
async fn let_owner_in(
    connection: &mut PgConnection,
    table: &ModelTable,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select format('grant usage, create on schema shadow to %I', pg_get_userbyid(relowner))
           from pg_class
          where oid = ('public.' || quote_ident($1))::regclass
            and pg_get_userbyid(relowner) <> current_user",
    )
    .bind(table.name)
    .fetch_optional(connection)
    .await
}

/// Locks the live tables of a model until the transaction ends. Returns whether the lock came in
/// time. Attempts are numbered from 1.
pub(super) async fn lock_live(
    connection: &mut PgConnection,
    model: ReadModel,
    number: u32,
) -> Result<bool, sqlx::Error> {
    let timeout = if number.is_multiple_of(10) { LONG_LOCK_TIMEOUT } else { LOCK_TIMEOUT };
    let timeout = format!("set local lock_timeout = {}", timeout.as_millis());
    connection.execute(&*timeout).await?;
    let names: Vec<String> =
        model.tables().iter().map(|table| format!("public.{}", table.name)).collect();
    let lock = format!("lock table {} in access exclusive mode", names.join(", "));
    match connection.execute(&*lock).await {
        Ok(_) => Ok(true),
        Err(sqlx::Error::Database(error)) if is_not_now(error.code().as_deref()) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether another transaction holds the table, or waits for a lock of this one.
fn is_not_now(sqlstate: Option<&str>) -> bool {
    matches!(sqlstate, Some("55P03" | "40P01"))
}

/// Replaces the locked live tables with the shadow's.
pub(super) async fn replace_live(
    connection: &mut PgConnection,
    model: ReadModel,
) -> Result<(), sqlx::Error> {
    for ModelTable { name, .. } in model.tables() {
        connection.execute(&*format!("drop table public.{name}")).await?;
        connection.execute(&*format!("alter table shadow.{name} set schema public")).await?;
        for range in ranges_of(connection, name).await? {
            let moved = format!("alter table shadow.{range} set schema ranges");
            connection.execute(&*moved).await?;
        }
    }
    Ok(())
}

/// The ranges of a table that is in the schema `public`. Only history has any.
async fn ranges_of(connection: &mut PgConnection, table: &str) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select quote_ident(relname) from pg_inherits join pg_class on oid = inhrelid
          where inhparent = ('public.' || quote_ident($1))::regclass",
    )
    .bind(table)
    .fetch_all(connection)
    .await
}

/// Collects the planner's statistics for the tables of a model, before any caller asks them.
pub(super) async fn analyze_tables(
    connection: &mut PgConnection,
    model: ReadModel,
) -> Result<(), sqlx::Error> {
    for ModelTable { name, .. } in model.tables() {
        connection.execute(&*format!("analyze shadow.{name}")).await?;
    }
    Ok(())
}
