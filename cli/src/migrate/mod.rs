//! `migrate`: brings the databases to this version's schema, and makes their roles.

mod plan;

use clap::Args;
use domain::operations::MaintenanceEvent;
use serde_json::json;
use service::roles::make_roles;
use service::{Databases, Installation, SERVICE_DATABASES, StorageSettings, schema};

use crate::output::{ReportArgs, print_json, print_line};
use crate::{databases, operator};

/// The arguments of `migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Also make the database roles and their grants. This needs an administrator's connection.
    #[arg(long)]
    roles: bool,
    /// The prefix of the roles' names. Roles belong to the whole server, so each installation on a
    /// server needs its own.
    #[arg(long, default_value = "firmforms", env = "FIRMFORMS_ROLE_PREFIX", value_parser = prefix)]
    role_prefix: String,
    /// Show the migrations that would run, with their locks and an estimate of their time, and
    /// change nothing.
    #[arg(long, conflicts_with = "roles")]
    plan: bool,
    #[command(flatten)]
    how: ReportArgs,
}

/// Accepts a name that needs no quotes and is short enough for its endings.
fn prefix(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = text.starts_with(|c: char| c.is_ascii_lowercase());
    if begins && text.chars().all(plain) && text.len() <= 40 && !text.starts_with("pg_") {
        return Ok(text.to_owned());
    }
    Err("up to 40 small letters, digits and _, a letter first".to_owned())
}

pub(crate) async fn run(storage: &StorageSettings, migrate: &MigrateArgs) -> anyhow::Result<()> {
    if migrate.plan {
        return plan::show(storage, migrate.how.into()).await;
    }
    if !migrate.roles {
        databases::open_installation(storage, Installation::MayBegin).await?.stop().await?;
        print_done(migrate);
        return Ok(());
    }
    let begun = Installation::MayBegin;
    let mut databases = Databases::open(storage, SERVICE_DATABASES, begun).await?;
    databases.require_primaries().await?;
    schema::migrate_both(&databases).await?;
    let prefix = &migrate.role_prefix;
    let ordered = MaintenanceEvent::RolesMigrationOrdered { prefix: prefix.clone() };
    operator::record_alone(storage, databases.main.options(), ordered).await?;
    make_roles(databases.main.options(), databases.keyring.options(), prefix).await?;
    databases.release_cluster().await?;
    print_done(migrate);
    Ok(())
}

fn print_done(MigrateArgs { roles, role_prefix, how, .. }: &MigrateArgs) {
    let roles = roles.then(|| format!("{role_prefix}_*"));
    if how.json {
        return print_json(&json!({"migrated": true, "roles": roles}));
    }
    let roles = roles.map(|roles| format!("; their roles are {roles}")).unwrap_or_default();
    print_line(&format!("both databases are at this version's schema{roles}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_needs_no_quotes() {
        for good in ["firmforms", "a", "ff_2"] {
            assert_eq!(prefix(good).as_deref(), Ok(good));
        }
        for bad in ["", "2a", "A", "a-b", "a b", "a\"", "pg_a", "é", &"a".repeat(41)] {
            assert!(prefix(bad).is_err(), "{bad}");
        }
    }
}
