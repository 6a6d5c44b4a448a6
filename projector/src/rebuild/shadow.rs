//! The shadow: tables like the live ones in a schema of their own, on a connection that sees them and
//! the log, and nothing else. A writer that touched any other table would fail.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection, PgPool};

use super::RebuildError;
use super::definition::{TableDefinitions, definition};
use super::model::{ModelTable, ReadModel};

/// What the tables are made and kept in.
pub(super) const SCHEMA: &str = "shadow";

/// How long the live tables are waited for at a time: meanwhile everybody else waits behind. Deadlocks,
/// which PostgreSQL looks for after a second, end before that.
const LOCK_TIMEOUT: Duration = Duration::from_millis(400);

/// And each tenth time: after its second, PostgreSQL ends an autovacuum that is in the way.
const LONG_LOCK_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The connection on which read models are made anew.
pub(super) struct ShadowTables {
    pub(super) connection: PgConnection,
    pub(super) defined: TableDefinitions,
    options: PgConnectOptions,
}

impl ShadowTables {
    /// Opens it with empty tables for these models; what a crash left of an earlier one is dropped.
    pub(super) async fn open(pool: &PgPool, models: &[ReadModel]) -> Result<Self, RebuildError> {
        let options = PgConnectOptions::clone(&pool.connect_options()).options([
            // Comparing all rows takes its time, and no lock.
            ("statement_timeout", "0"),
            ("idle_in_transaction_session_timeout", "0"),
            ("client_min_messages", "warning"),
            // A plan made for empty tables would be kept when they are full.
            ("plan_cache_mode", "force_custom_plan"),
            // Here tables are read whole.
            ("enable_seqscan", "on"),
            ("enable_bitmapscan", "on"),
        ]);
        let mut connection = options.clone().options([("search_path", SCHEMA)]).connect().await?;
        if !is_alone(&mut connection).await? {
            return Err(RebuildError::Another);
        }
        let mut shadow = Self { connection, defined: TableDefinitions::default(), options };
        shadow.clear().await?;
        shadow.make(models).await?;
        Ok(shadow)
    }

    /// Another connection, to look at the live tables by.
    pub(super) async fn connect_to_live(&self) -> Result<PgConnection, sqlx::Error> {
        self.options.connect().await
    }

    /// Whether the live tables are still what the shadow was made like.
    pub(super) async fn check(&mut self, model: ReadModel) -> Result<(), RebuildError> {
        self.defined.check(&mut self.connection, model).await
    }

    async fn clear(&mut self) -> Result<(), sqlx::Error> {
        self.connection.execute("drop schema if exists shadow cascade").await?;
        Ok(())
    }

    async fn make(&mut self, models: &[ReadModel]) -> Result<(), sqlx::Error> {
        let mut transaction = self.connection.begin().await?;
        transaction.execute("create schema shadow").await?;
        transaction.execute("create view shadow.events as table public.events").await?;
        for table in models.iter().flat_map(|model| model.tables()) {
            let definition = definition(&mut transaction, table).await?;
            if let Some(grant) = let_owner_in(&mut transaction, table).await? {
                transaction.execute(&*grant).await?;
            }
            for statement in &definition.statements {
                transaction.execute(&**statement).await?;
            }
            self.defined.note(table, definition);
        }
        transaction.commit().await
    }

    /// Drops what is left, and lets the next one come.
    pub(super) async fn close(mut self) -> Result<(), sqlx::Error> {
        self.clear().await?;
        self.connection.close().await
    }
}

/// Held as long as the connection.
async fn is_alone(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select pg_try_advisory_lock(hashtext('firmforms rebuild'))")
        .fetch_one(connection)
        .await
}

/// What lets the owner of a table have one in the shadow, if that is somebody else than who makes it.
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

/// Holds the live tables of a model, so that nobody writes or reads them until the transaction ends.
/// Whether they could be held in time; tries are counted from 1.
pub(super) async fn hold(
    connection: &mut PgConnection,
    (model, number): (ReadModel, u32),
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

/// Somebody else holds it, or waits for us elsewhere.
fn is_not_now(sqlstate: Option<&str>) -> bool {
    matches!(sqlstate, Some("55P03" | "40P01"))
}

/// Puts the tables of a model in the place of the live ones, which are held.
pub(super) async fn replace(
    connection: &mut PgConnection,
    model: ReadModel,
) -> Result<(), sqlx::Error> {
    for ModelTable { name, .. } in model.tables() {
        connection.execute(&*format!("drop table public.{name}")).await?;
        connection.execute(&*format!("alter table shadow.{name} set schema public")).await?;
    }
    Ok(())
}

/// Tells the planner what is in the tables of a model, before anybody asks them.
pub(super) async fn analyze(
    connection: &mut PgConnection,
    model: ReadModel,
) -> Result<(), sqlx::Error> {
    for ModelTable { name, .. } in model.tables() {
        connection.execute(&*format!("analyze shadow.{name}")).await?;
    }
    Ok(())
}
