//! The schemas of both databases, beside those that this build knows.

use anyhow::{anyhow, bail};
use eventstore::checkup::{self, SchemaStanding};
use eventstore::{connect, migrate};
use sqlx::PgPool;
use sqlx::migrate::{MigrateError, Migrator};
use vault::KEYRING_MIGRATIONS;

use crate::databases::{Databases, KEYRING, MAIN};

/// Brings both databases to this version's schema.
///
/// # Errors
///
/// If a database does not answer or cannot be migrated.
pub async fn migrate_both(databases: &Databases) -> anyhow::Result<()> {
    let main = connect(databases.main.options().clone(), 1);
    let keyring = connect(databases.keyring.options().clone(), 1);
    bring_up(&main, &keyring).await?;
    main.close().await;
    keyring.close().await;
    Ok(())
}

pub(crate) async fn bring_up(main: &PgPool, keyring: &PgPool) -> anyhow::Result<()> {
    migrate(main).await.map_err(|error| not_brought_up(MAIN, error))?;
    eventstore::bring_up(keyring, &KEYRING_MIGRATIONS)
        .await
        .map_err(|error| not_brought_up(KEYRING, error))
}

/// Requires both databases at this build's schema, or at a newer one. Only `serve`, `demo` and
/// `migrate` change a schema: a newer program on a laptop must not.
///
/// # Errors
///
/// If a database does not answer, or lacks a migration.
pub async fn require_schema(main: &PgPool, keyring: &PgPool) -> anyhow::Result<()> {
    let schemas = schema_standings(main, keyring).await?;
    for (name, SchemaStanding { found, needed, missing }) in schemas {
        if missing > 0 {
            bail!(
                "the schema of {name} is {found}, and this program needs {needed}: run `firmforms \
                 migrate`"
            );
        }
    }
    Ok(())
}

/// The newest migration of each database that this build knows.
#[must_use]
pub fn known_schemas() -> (i64, i64) {
    let newest = |migrator: &Migrator| migrator.iter().map(|one| one.version).max();
    let main = newest(eventstore::main_migrations()).unwrap_or_default();
    (main, newest(&KEYRING_MIGRATIONS).unwrap_or_default())
}

/// The schemas of both databases beside those of this build.
pub async fn schema_standings(
    main: &PgPool,
    keyring: &PgPool,
) -> Result<[(&'static str, SchemaStanding); 2], sqlx::Error> {
    Ok([
        (MAIN, checkup::main_schema(main).await?),
        (KEYRING, checkup::schema_standing(keyring, &KEYRING_MIGRATIONS).await?),
    ])
}

/// Explains to the operator why a database is not at this build's schema.
fn not_brought_up(database: &'static str, error: MigrateError) -> anyhow::Error {
    match &error {
        MigrateError::Execute(why) if is_denied(why) => anyhow!(
            "{database}: {why}: this login may not change the schema (run `firmforms migrate` as \
             one who may), or is in none of the service's groups"
        ),
        MigrateError::VersionMismatch(_) => anyhow!(
            "{database} was made by a build from before the first release; this build cannot read \
             it: start with an empty database"
        ),
        _ => anyhow::Error::from(error).context(database),
    }
}

/// Whether the error is SQLSTATE 42501, insufficient privilege.
#[must_use]
pub fn is_denied(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("42501"))
}
