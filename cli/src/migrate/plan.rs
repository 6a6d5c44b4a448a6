//! `migrate --plan`: the migrations that a database lacks, with the locks that they take.

use anyhow::ensure;
use domain::operations::migration::{MigrationStep, migration_steps};
use eventstore::checkup::SchemaStanding;
use eventstore::{checkup, connect, main_migrations};
use serde_json::{Value, json};
use service::schema::schema_standings;
use service::{Databases, Installation, KEYRING, MAIN, SERVICE_DATABASES, StorageSettings};
use sqlx::PgPool;
use sqlx::migrate::Migrator;

use crate::databases::require_readable;
use crate::output::{Column, ListTable, OutputArgs};

const STEPS: ListTable = ListTable::new(
    &[
        Column::text("database"),
        Column::number("migration"),
        Column::text("name"),
        Column::text("table"),
        Column::text("lock"),
        Column::number("rows"),
        Column::number("bytes"),
        Column::number("seconds"),
    ],
    "both databases are at this version's schema",
);

/// Prints the steps of all missing migrations, and changes nothing.
pub(super) async fn show(storage: &StorageSettings, how: OutputArgs) -> anyhow::Result<()> {
    let mut databases =
        Databases::open(storage, SERVICE_DATABASES, Installation::MustExist).await?;
    require_readable(&mut databases).await?;
    let main = connect(databases.main.options().clone(), 1);
    let keyring = connect(databases.keyring.options().clone(), 1);
    for (name, SchemaStanding { found, needed, .. }) in schema_standings(&main, &keyring).await? {
        ensure!(
            found <= needed,
            "the schema of {name} is {found}, and this program knows {needed}"
        );
    }
    let mut items = missing_steps(MAIN, &main, main_migrations()).await?;
    items.extend(missing_steps(KEYRING, &keyring, &vault::KEYRING_MIGRATIONS).await?);
    main.close().await;
    keyring.close().await;
    databases.release_cluster().await?;
    STEPS.print(how, items);
    Ok(())
}

async fn missing_steps(
    name: &'static str,
    pool: &PgPool,
    known: &'static Migrator,
) -> anyhow::Result<Vec<Value>> {
    let mut items = Vec::new();
    for migration in checkup::missing_migrations(pool, known).await? {
        for MigrationStep { table, effect } in migration_steps(&migration.sql) {
            let (rows, bytes) = checkup::table_size(pool, &table).await?;
            items.push(json!({
                "database": name, "migration": migration.version,
                "name": &*migration.description, "table": table, "lock": effect.lock(),
                "rows": rows, "bytes": bytes,
                "seconds": effect.estimated_seconds(bytes.unsigned_abs()),
            }));
        }
    }
    Ok(items)
}
