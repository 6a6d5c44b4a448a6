//! The tables of the proof must be plain tables, or plain tables in ranges. A view in the place of
//! one can show a verifier other rows than everybody else, and a policy can hide rows from the
//! verifier's login.

use sqlx::{FromRow, PgConnection};

use crate::flaw::{Flaw, FlawLocation};

/// The tables that the proof reads.
const PROOF_TABLES: [&str; 5] = ["events", "audit_log", "audit_heads", "seals", "checkpoints"];

/// The conditions that `migrate --roles` writes into policies, without spaces, parentheses and
/// casts: versions of PostgreSQL print these differently.
const KNOWN_POLICIES: [&str; 2] = [
    "SELECTcurrent_setting'firmforms.firm',trueAScurrent_setting='*'",
    "SELECTcurrent_setting'firmforms.firm',trueAScurrent_setting='*'\
     ORSELECTcurrent_setting'firmforms.firm',trueAScurrent_setting=firm_id",
];

/// A table, as the catalogue of the database describes it.
#[derive(FromRow)]
struct CatalogRow {
    name: String,
    is_plain: bool,
    has_rules: bool,
    has_relatives: bool,
    /// Policies that hold for this login.
    policies: Vec<String>,
    restricts: bool,
}

/// Finds the first table of the proof that is no plain table or hides rows from this login.
pub(crate) async fn first_flaw(connection: &mut PgConnection) -> Result<Option<Flaw>, sqlx::Error> {
    let rows = catalog_rows(connection).await?;
    Ok(PROOF_TABLES.into_iter().find_map(|name| {
        let why = match rows.iter().find(|row| row.name == name) {
            None => "there is no such table",
            Some(row) => row.fault()?,
        };
        Some(Flaw { location: FlawLocation::Table { name }, why: why.to_owned() })
    }))
}

impl CatalogRow {
    fn fault(&self) -> Option<&'static str> {
        let is_known = |policy: &String| KNOWN_POLICIES.contains(&bare_condition(policy).as_str());
        if !self.is_plain {
            Some("it is no plain table, and can show other rows than it keeps")
        } else if self.has_rules {
            Some("it has rules, which can change what is written to it")
        } else if self.has_relatives {
            Some("it inherits rows from another table, or gives rows to one")
        } else if self.restricts || !self.policies.iter().all(is_known) {
            Some("it has a row policy that `migrate --roles` does not make, and that can hide rows")
        } else {
            None
        }
    }
}

/// The condition of a policy without spaces, parentheses and casts.
fn bare_condition(policy: &str) -> String {
    policy.replace("::text", "").replace([' ', '(', ')', '\n'], "")
}

async fn catalog_rows(connection: &mut PgConnection) -> Result<Vec<CatalogRow>, sqlx::Error> {
    // A range is a table of its own: the whole tree must be as plain as a table is.
    sqlx::query_as(
        "select c.relname::text as name,
                tree.is_plain, tree.has_rules,
                exists (select from pg_inherits
                         where inhrelid = c.oid or inhparent = c.oid and c.relkind <> 'p')
                    as has_relatives,
                array(select pg_get_expr(polqual, polrelid) from pg_policy
                       where polrelid = c.oid and polqual is not null
                         and row_security_active(c.oid)) as policies,
                exists (select from pg_policy
                         where polrelid = c.oid and not polpermissive
                           and row_security_active(c.oid)) as restricts
           from pg_class c
          cross join lateral (
                select bool_and(part.relpersistence = 'p' and part.relkind in ('r', 'p'))
                           as is_plain,
                       bool_or(exists (select from pg_rewrite where ev_class = part.oid))
                           as has_rules
                  from pg_class part
                 where part.oid = c.oid or part.oid in (
                           select relid from pg_partition_tree(c.oid))) tree
          where c.relnamespace = 'public'::regnamespace and c.relname = any($1)",
    )
    .bind(PROOF_TABLES)
    .fetch_all(connection)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_roles_policies_are_known() {
        let all = "(( SELECT current_setting('firmforms.firm'::text, true) AS current_setting) \
                   = '*'::text)";
        let mine = "(( SELECT current_setting('firmforms.firm'::text, true) AS current_setting) \
                    = (firm_id)::text)";
        assert_eq!(bare_condition(all), KNOWN_POLICIES[0]);
        assert_eq!(bare_condition(&format!("({all} OR {mine})")), KNOWN_POLICIES[1]);
        assert!(!KNOWN_POLICIES.contains(&bare_condition(&format!("({all} AND {mine})")).as_str()));
        assert!(!KNOWN_POLICIES.contains(&bare_condition("\"position\" <> 5").as_str()));
    }
}
