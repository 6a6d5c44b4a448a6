//! The definitions of the live tables. The shadow is made with the same definitions, and the swap
//! checks that they have not changed.

use std::collections::HashMap;

use sqlx::PgConnection;

use super::RebuildError;
use super::model::{ModelTable, ReadModel};

/// The definition of each live table at the time when the shadow was made.
#[derive(Default)]
pub(super) struct TableDefinitions(HashMap<&'static str, TableDefinition>);

impl TableDefinitions {
    pub(super) fn note_table(&mut self, table: &ModelTable, definition: TableDefinition) {
        self.0.insert(table.name, definition);
    }

    /// Refuses if a definition has changed, because the swap would undo a migration or new grants.
    pub(super) async fn check_unchanged(
        &self,
        connection: &mut PgConnection,
        model: ReadModel,
    ) -> Result<(), RebuildError> {
        for table in model.tables() {
            if self.0.get(table.name) != Some(&read_definition(connection, table).await?) {
                return Err(RebuildError::Redefined(model));
            }
        }
        Ok(())
    }
}

/// The statements that define a table like the live one, and its columns.
#[derive(PartialEq, Eq)]
pub(super) struct TableDefinition {
    pub(super) statements: Vec<String>,
    columns: Vec<String>,
}

/// Reads the statements that define a table like the live one. They cover the names of indexes and
/// constraints, which map to errors, the triggers, the owner, the grants and the row policies.
pub(super) async fn read_definition(
    connection: &mut PgConnection,
    table: &ModelTable,
) -> Result<TableDefinition, sqlx::Error> {
    let statements =
        sqlx::query_scalar(DEFINITION).bind(table.name).fetch_all(&mut *connection).await?;
    let columns = sqlx::query_scalar(COLUMNS).bind(table.name).fetch_all(connection).await?;
    Ok(TableDefinition { statements, columns })
}

/// The properties that `create table … like` copies by itself.
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
                             relname) || coalesce(' partition by ' || pg_get_partkeydef(oid), '')
           as statement from live
    union all
    select 2, format('alter table shadow.%I set (%s)', relname, array_to_string(reloptions, ', '))
      from live where reloptions is not null
    union all
    select 2, format('alter table shadow.%I alter column %I set statistics %s', relname, attname,
                     attstattarget)
      from live join pg_attribute on attrelid = live.oid
     where attnum > 0 and not attisdropped and attstattarget >= 0
    union all
    select 3, format('alter table shadow.%I add constraint %I %s', relname, conname,
                     pg_get_constraintdef(c.oid))
      from live join pg_constraint c on c.conrelid = live.oid and c.contype in ('p', 'u', 'x')
    union all
    select 4, replace(replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON '),
                      format(' ON public.%I ', relname), format(' ON shadow.%I ', relname))
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
