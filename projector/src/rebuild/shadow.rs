//! The shadow: tables like the live ones in a schema of their own, on a connection that sees them and
//! the log, and nothing else. A writer that touched any other table would fail.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection, PgPool};

use super::RebuildError;
use super::model::{Model, Table};

/// What the tables are made and kept in.
pub(super) const SCHEMA: &str = "shadow";

/// How long the live tables are waited for at a time: meanwhile everybody else waits behind. Deadlocks,
/// which PostgreSQL looks for after a second, end before that.
const LOCK_TIMEOUT: Duration = Duration::from_millis(400);

/// And each tenth time: after its second, PostgreSQL ends an autovacuum that is in the way.
const LONG_LOCK_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The connection on which read models are made anew.
pub(super) struct Shadow {
    pub(super) connection: PgConnection,
    pub(super) defined: Defined,
    options: PgConnectOptions,
}

impl Shadow {
    /// Opens it with empty tables for these models; what a crash left of an earlier one is dropped.
    pub(super) async fn open(pool: &PgPool, models: &[Model]) -> Result<Self, RebuildError> {
        let options = PgConnectOptions::clone(&pool.connect_options()).options([
            // Comparing all rows takes its time, and no lock.
            ("statement_timeout", "0"),
            ("idle_in_transaction_session_timeout", "0"),
            ("client_min_messages", "warning"),
            // A plan made for empty tables would be kept when they are full.
            ("plan_cache_mode", "force_custom_plan"),
        ]);
        let mut connection = options.clone().options([("search_path", SCHEMA)]).connect().await?;
        if !is_alone(&mut connection).await? {
            return Err(RebuildError::Another);
        }
        let mut shadow = Self { connection, defined: Defined::default(), options };
        shadow.clear().await?;
        shadow.make(models).await?;
        Ok(shadow)
    }

    /// Another connection, to look at the live tables by.
    pub(super) async fn beside(&self) -> Result<PgConnection, sqlx::Error> {
        self.options.connect().await
    }

    /// Whether the live tables are still what the shadow was made like.
    pub(super) async fn check(&mut self, model: Model) -> Result<(), RebuildError> {
        self.defined.check(&mut self.connection, model).await
    }

    async fn clear(&mut self) -> Result<(), sqlx::Error> {
        self.connection.execute("drop schema if exists shadow cascade").await?;
        Ok(())
    }

    async fn make(&mut self, models: &[Model]) -> Result<(), sqlx::Error> {
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
            self.defined.0.insert(table.name, definition);
        }
        transaction.commit().await
    }

    /// Drops what is left, and lets the next one come.
    pub(super) async fn close(mut self) -> Result<(), sqlx::Error> {
        self.clear().await?;
        self.connection.close().await
    }
}

/// How each live table was defined when the shadow was made like it.
#[derive(Default)]
pub(super) struct Defined(HashMap<&'static str, Definition>);

impl Defined {
    /// A migration, or new grants, in the meantime would be undone by the swap.
    pub(super) async fn check(
        &self,
        connection: &mut PgConnection,
        model: Model,
    ) -> Result<(), RebuildError> {
        for table in model.tables() {
            if self.0.get(table.name) != Some(&definition(connection, table).await?) {
                return Err(RebuildError::Redefined(model));
            }
        }
        Ok(())
    }
}

/// What makes a table like the live one, and what its columns are.
#[derive(PartialEq, Eq)]
struct Definition {
    statements: Vec<String>,
    columns: Vec<String>,
}

/// Held as long as the connection.
async fn is_alone(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select pg_try_advisory_lock(hashtext('firmforms rebuild'))")
        .fetch_one(connection)
        .await
}

/// What makes a table like the live one, to the names of its indexes and constraints (errors are told
/// by them), its triggers, its owner, who may do what, and which rows.
async fn definition(
    connection: &mut PgConnection,
    table: &Table,
) -> Result<Definition, sqlx::Error> {
    let statements =
        sqlx::query_scalar(DEFINITION).bind(table.name).fetch_all(&mut *connection).await?;
    let columns = sqlx::query_scalar(COLUMNS).bind(table.name).fetch_all(connection).await?;
    Ok(Definition { statements, columns })
}

/// What lets the owner of a table have one in the shadow, if that is somebody else than who makes it.
async fn let_owner_in(
    connection: &mut PgConnection,
    table: &Table,
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

/// What `like` takes over by itself.
const COLUMNS: &str = "
select format('%s %s %s %s %s %s %s %s', attnum, attname, format_type(atttypid, atttypmod),
              attcollation, attnotnull, attidentity, attgenerated,
              pg_get_expr(adbin, adrelid))
  from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
 where attrelid = ('public.' || quote_ident($1))::regclass and attnum > 0 and not attisdropped
 union all
select format('%s %s', conname, pg_get_constraintdef(oid))
  from pg_constraint
 where conrelid = ('public.' || quote_ident($1))::regclass
 order by 1";

const DEFINITION: &str = "
with live as (
    select oid, relname, reloptions, relowner, relacl, relrowsecurity, relforcerowsecurity
      from pg_class where oid = ('public.' || quote_ident($1))::regclass
), roles as (
    select 0::oid as oid, 'public' as name union all select oid, quote_ident(rolname) from pg_roles
)
select statement from (
    select 1 as step, format('create table shadow.%I (like public.%1$I including all excluding indexes)',
                             relname) as statement from live
    union all
    select 2, format('alter table shadow.%I set (%s)', relname, array_to_string(reloptions, ', '))
      from live where reloptions is not null
    union all
    select 3, format('alter table shadow.%I add constraint %I %s', relname, conname,
                     pg_get_constraintdef(c.oid))
      from live join pg_constraint c on c.conrelid = live.oid and c.contype in ('p', 'u', 'x')
    union all
    select 4, replace(pg_get_indexdef(indexrelid), format(' ON public.%I ', relname),
                      format(' ON shadow.%I ', relname))
      from live join pg_index on indrelid = live.oid
     where not exists (select 1 from pg_constraint where conindid = indexrelid)
    union all
    select 5, replace(pg_get_triggerdef(t.oid), format(' ON public.%I ', relname),
                      format(' ON shadow.%I ', relname))
      from live join pg_trigger t on tgrelid = live.oid and not tgisinternal
    union all
    select 6, format('comment on table shadow.%I is %L', relname, obj_description(oid, 'pg_class'))
      from live
    union all
    select 7, format('grant %s on shadow.%I to %s%s', privilege_type, relname, name,
                     case when is_grantable then ' with grant option' else '' end)
      from live cross join aclexplode(relacl) join roles on roles.oid = grantee
     where grantee <> relowner
    union all
    select 7, format('grant %s (%I) on shadow.%I to %s', privilege_type, attname, relname, name)
      from live join pg_attribute a on attrelid = live.oid and attacl is not null
     cross join aclexplode(attacl) join roles on roles.oid = grantee
    union all
    select 8, format('create policy %I on shadow.%I as %s for %s to %s%s%s', policyname, relname,
                     permissive, cmd, (select string_agg(case role when 'public' then 'public'
                                                         else quote_ident(role) end, ', ')
                                         from unnest(roles) as r(role)),
                     ' using (' || qual || ')', ' with check (' || with_check || ')')
      from live join pg_policies on schemaname = 'public' and tablename = relname
    union all
    select 9, format('alter table shadow.%I enable row level security', relname)
      from live where relrowsecurity
    union all
    select 9, format('alter table shadow.%I force row level security', relname)
      from live where relforcerowsecurity
    union all
    select 10, format('alter table shadow.%I owner to %s', relname, name)
      from live join roles on roles.oid = relowner
     where relowner <> (select oid from pg_roles where rolname = current_user)
) s order by step, statement";

/// Holds the live tables of a model, so that nobody writes or reads them until the transaction ends.
/// Whether they could be held in time; tries are counted from 1.
pub(super) async fn hold(
    connection: &mut PgConnection,
    (model, number): (Model, u32),
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
    model: Model,
) -> Result<(), sqlx::Error> {
    for Table { name, .. } in model.tables() {
        connection.execute(&*format!("drop table public.{name}")).await?;
        connection.execute(&*format!("alter table shadow.{name} set schema public")).await?;
    }
    Ok(())
}

/// Tells the planner what is in the tables of a model, before anybody asks them.
pub(super) async fn analyze(
    connection: &mut PgConnection,
    model: Model,
) -> Result<(), sqlx::Error> {
    for Table { name, .. } in model.tables() {
        connection.execute(&*format!("analyze shadow.{name}")).await?;
    }
    Ok(())
}
