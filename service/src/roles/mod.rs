//! The roles of the databases: the owner of the tables, and the rights on them (case B16, G1).
//! `migrate --roles` makes them.
//!
//! An administrator makes groups without a login. `firmforms_owner` owns everything, and no serving
//! login is in it. `firmforms_api`, `_projector`, `_deliverer` and `_auditor` have the rights of
//! `grants`. `firmforms_service` joins the three serving groups, for `serve` with all roles and for
//! operators' commands. The operator makes logins and puts each into one group. A repeated run
//! changes nothing.

mod grants;

use anyhow::{Context, bail};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection};

use grants::{
    GROUPS, KEYRING_GRANTS, KNOWN_FUNCTIONS, MAIN_GRANTS, MAKE_RANGES, SERVICE_GRANTS, TableGrants,
};

/// The name of a table of the main database, if this build knows the table.
pub(crate) fn known_table(name: &str) -> Option<&'static str> {
    MAIN_GRANTS.iter().map(|(table, _)| *table).find(|table| *table == name)
}

/// Makes the roles for a main database and its keyring, both at this version's schema.
///
/// # Errors
///
/// If a table has no grants decided, or the connection lacks a right.
pub async fn make_roles(
    main: &PgConnectOptions,
    keyring: &PgConnectOptions,
    prefix: &str,
) -> anyhow::Result<()> {
    make_in_database(main, prefix, MAIN_GRANTS).await.context("the main database")?;
    make_in_database(keyring, prefix, KEYRING_GRANTS).await.context("the keyring")
}

/// Makes everything in one transaction. A running process sees the old grants or the new ones.
async fn make_in_database(
    database: &PgConnectOptions,
    prefix: &str,
    grants: &[TableGrants],
) -> anyhow::Result<()> {
    let mut connection = database.connect().await?;
    let mut transaction = connection.begin().await?;
    // An empty search path keeps functions and operators in `public` from running with an
    // administrator's rights.
    let careful = "set local lock_timeout = '5s'; set local search_path = pg_catalog, pg_temp";
    transaction.execute(careful).await?;
    require_decided(&mut transaction, grants).await?;
    require_known(&mut transaction).await?;
    make_groups(&mut transaction, prefix).await?;
    let tables = grants.iter().map(|(table, _)| *table).collect();
    give_to_owner(&mut transaction, prefix, tables).await?;
    for (table, rights) in grants {
        grant_rights(&mut transaction, prefix, table, rights).await?;
    }
    guard_rows(&mut transaction, prefix).await?;
    grant_functions(&mut transaction, prefix).await?;
    transaction.commit().await?;
    Ok(connection.close().await?)
}

/// Requires grants for every table, and a table for every grant. Tables of extensions are not ours.
async fn require_decided(
    connection: &mut PgConnection,
    grants: &[TableGrants],
) -> anyhow::Result<()> {
    let tables: Vec<String> = sqlx::query_scalar(
        "select relname::text from pg_class c
          where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
            and not exists (select from pg_depend d
                             where d.classid = 'pg_class'::regclass and d.objid = c.oid
                               and d.deptype = 'e')
          order by relname",
    )
    .fetch_all(connection)
    .await?;
    let decided: Vec<&str> = grants.iter().map(|(table, _)| *table).collect();
    if let Some(table) = tables.iter().find(|table| !decided.contains(&table.as_str())) {
        bail!("nobody has decided who may use the table {table}");
    }
    if let Some(table) = decided.iter().find(|table| !tables.iter().any(|there| there == *table)) {
        bail!("there is no table {table}");
    }
    Ok(())
}

/// Requires that a function with its owner's rights is ours or an extension's.
async fn require_known(connection: &mut PgConnection) -> anyhow::Result<()> {
    let unknown: Option<String> = sqlx::query_scalar(
        "select p.oid::regprocedure::text from pg_proc p
          where pronamespace = 'public'::regnamespace and prosecdef
            and format('%s(%s)', proname, oidvectortypes(proargtypes)) <> all ($1)
            and not exists (select from pg_depend d
                             where d.classid = 'pg_proc'::regclass and d.objid = p.oid
                               and d.deptype = 'e')
          order by 1 limit 1",
    )
    .bind(KNOWN_FUNCTIONS)
    .fetch_optional(connection)
    .await?;
    if let Some(function) = unknown {
        bail!(
            "{function} runs with its owner's rights (security definer), and is not ours: drop it"
        );
    }
    Ok(())
}

/// Makes the missing groups. An existing one must have no special right.
async fn make_groups(connection: &mut PgConnection, prefix: &str) -> anyhow::Result<()> {
    for group in GROUPS.iter().chain(&["owner", "service"]) {
        let name = format!("{prefix}_{group}");
        let there: Option<(bool, bool)> = sqlx::query_as(
            "select rolsuper or rolbypassrls, rolcanlogin from pg_roles where rolname = $1",
        )
        .bind(&name)
        .fetch_optional(&mut *connection)
        .await?;
        match there {
            Some((false, false)) => {}
            Some(_) => bail!("the role {name} is there, and can log in or overrule grants"),
            None => {
                let made = connection.execute(format!("create role {name} nologin").as_str()).await;
                made.with_context(|| format!("making the role {name}: it takes CREATEROLE"))?;
            }
        }
    }
    let serve =
        format!("grant {prefix}_api, {prefix}_projector, {prefix}_deliverer to {prefix}_service");
    connection.execute(serve.as_str()).await?;
    Ok(())
}

/// Gives all tables to the owner, which no serving login is in. Only a member of the owner may give
/// it a table, so the administrator joins it first.
async fn give_to_owner(
    connection: &mut PgConnection,
    prefix: &str,
    tables: Vec<&str>,
) -> anyhow::Result<()> {
    let owner = format!("{prefix}_owner");
    let joined: bool = sqlx::query_scalar("select pg_has_role(current_user, $1, 'usage')")
        .bind(&owner)
        .fetch_one(&mut *connection)
        .await?;
    if !joined {
        connection.execute(format!("grant {owner} to current_user").as_str()).await?;
    }
    let mine = format!(
        "revoke create on schema public from public;
         grant usage, create on schema public to {owner};
         grant usage on schema public to {}",
        group_list(prefix)
    );
    connection.execute(mine.as_str()).await?;
    let moved: Vec<String> = sqlx::query_scalar(
        // Only who may make tables in a schema can own one there.
        "select format('alter schema ranges owner to %I', $1)
           from pg_namespace where nspname = 'ranges' and nspowner <> $1::regrole
          union all
         select format('alter table ranges.%I owner to %I', relname, $1)
           from pg_class
          where relnamespace = to_regnamespace('ranges') and relkind in ('r', 'p')
            and relowner <> $1::regrole
          union all
         select format('alter table public.%I owner to %I', relname, $1)
           from pg_class
          where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
            and relname = any ($2) and relowner <> $1::regrole
          union all
         select format('alter function %s owner to %I', oid::regprocedure, $1)
           from pg_proc
          where pronamespace = 'public'::regnamespace and proowner <> $1::regrole
            and format('%s(%s)', proname, oidvectortypes(proargtypes)) = any ($3)",
    )
    .bind(&owner)
    .bind(tables)
    .bind(KNOWN_FUNCTIONS)
    .fetch_all(&mut *connection)
    .await?;
    for statement in moved {
        connection.execute(statement.as_str()).await.with_context(|| statement.clone())?;
    }
    Ok(())
}

/// Grants exactly these rights. All earlier rights go.
async fn grant_rights(
    connection: &mut PgConnection,
    prefix: &str,
    table: &str,
    rights: &[&str; 4],
) -> anyhow::Result<()> {
    let revoke = format!(
        "revoke all on public.{table} from public, {prefix}_service, {}",
        group_list(prefix)
    );
    connection.execute(revoke.as_str()).await?;
    for (group, right) in GROUPS.iter().zip(rights).filter(|(_, right)| !right.is_empty()) {
        let grant = format!("grant {right} on public.{table} to {prefix}_{group}");
        connection.execute(grant.as_str()).await.with_context(|| grant.clone())?;
    }
    for (_, right) in SERVICE_GRANTS.iter().filter(|(of, _)| *of == table) {
        let grant = format!("grant {right} on public.{table} to {prefix}_service");
        connection.execute(grant.as_str()).await.with_context(|| grant.clone())?;
    }
    // The fence reads the sequence of positions. After a fault every process that appends may leave
    // positions out, and none may move the sequence back.
    if table == "events" {
        let [api, projector, deliverer, auditor] = GROUPS.map(|group| format!("{prefix}_{group}"));
        let sequence = format!(
            "grant select on sequence public.events_position_seq to {auditor};
             grant select, usage on sequence public.events_position_seq
                to {api}, {projector}, {deliverer}"
        );
        connection.execute(sequence.as_str()).await?;
    }
    Ok(())
}

/// Grants functions with the owner's rights to the group that needs them. Only the doors ask for a
/// key's owner, and only the projector makes ranges.
async fn grant_functions(connection: &mut PgConnection, prefix: &str) -> anyhow::Result<()> {
    let functions: Vec<(String, bool)> = sqlx::query_as(
        "select oid::regprocedure::text,
                format('%s(%s)', proname, oidvectortypes(proargtypes)) = any ($2)
           from pg_proc
          where pronamespace = 'public'::regnamespace and prosecdef
            and format('%s(%s)', proname, oidvectortypes(proargtypes)) = any ($1)",
    )
    .bind(KNOWN_FUNCTIONS)
    .bind(MAKE_RANGES)
    .fetch_all(&mut *connection)
    .await?;
    for (function, makes_ranges) in functions {
        let group = if makes_ranges { "projector" } else { "api" };
        let grant = format!(
            "revoke all on function {function} from public, {prefix}_service, {};
             grant execute on function {function} to {prefix}_{group}",
            group_list(prefix)
        );
        connection.execute(grant.as_str()).await.with_context(|| function.clone())?;
    }
    Ok(())
}

/// Limits rows by firm. `api` and `auditor` see and write rows of the connection's own firm, or of
/// all firms if it says `*`. A connection that names no firm sees no row. A serving group without a
/// door says `*`. Policies of all groups of a login add up, and `service` is in all serving groups.
/// The owner sees all rows.
async fn guard_rows(connection: &mut PgConnection, prefix: &str) -> anyhow::Result<()> {
    let tables: Vec<String> = sqlx::query_scalar(
        "select c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid
          where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
            and a.attname = 'firm_id' and not a.attisdropped and c.relname <> 'data_keys'
          order by c.relname",
    )
    .fetch_all(&mut *connection)
    .await?;
    for table in tables {
        // The subselect makes PostgreSQL evaluate the setting once per statement, not once per row.
        let all = "(select current_setting('firmforms.firm', true)) = '*'";
        let mine =
            format!("{all} or (select current_setting('firmforms.firm', true)) = firm_id::text");
        let guard = format!(
            "alter table public.{table} enable row level security;
             drop policy if exists firm_guard on public.{table};
             create policy firm_guard on public.{table} to {prefix}_api, {prefix}_auditor
                 using ({mine}) with check ({mine});
             drop policy if exists all_firms on public.{table};
             create policy all_firms on public.{table} to {prefix}_projector, {prefix}_deliverer
                 using ({all}) with check ({all})"
        );
        connection.execute(guard.as_str()).await.with_context(|| table.clone())?;
    }
    Ok(())
}

fn group_list(prefix: &str) -> String {
    GROUPS.map(|group| format!("{prefix}_{group}")).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nor may a role change the proof.
    #[test]
    fn g1_no_role_may_change_the_log() {
        for table in ["events", "audit_log", "seals"] {
            let (_, rights) = MAIN_GRANTS.iter().find(|(name, _)| *name == table).unwrap();
            let changes = |right: &&str| right.contains("update") || right.contains("delete");
            assert!(!rights.iter().any(changes), "{table}");
        }
    }

    #[test]
    fn b16_the_auditor_reads_and_nothing_else() {
        let all = MAIN_GRANTS.iter().chain(KEYRING_GRANTS);
        let writes = |right: &str| ["insert", "update", "delete"].iter().any(|w| right.contains(w));
        assert!(!all.clone().any(|(_, [.., auditor])| writes(auditor)));
        assert!(KEYRING_GRANTS.iter().all(|(_, [.., auditor])| auditor.is_empty()));
    }
}
