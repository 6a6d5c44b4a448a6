//! The databases of the demo, new at each run.

use anyhow::bail;
use service::{DatabaseNames, Databases, Installation, SERVICE_DATABASES, StorageSettings};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor};

/// The names of the demo's databases in the private cluster.
const DEMO_DATABASES: DatabaseNames =
    DatabaseNames { main: "firmforms_demo", keyring: "firmforms_demo_keyring" };

/// Opens empty databases for one run. The private cluster makes them anew; named databases must be
/// empty.
pub(super) async fn open_empty(storage: &StorageSettings) -> anyhow::Result<Databases> {
    let begun = Installation::MayBegin;
    if storage.database_url.is_none() {
        let cluster = Databases::open_private(storage, SERVICE_DATABASES, begun).await?;
        for name in [DEMO_DATABASES.main, DEMO_DATABASES.keyring] {
            drop_database(cluster.main.options(), name).await?;
        }
    }
    let mut databases = Databases::open(storage, DEMO_DATABASES, begun).await?;
    databases.require_primaries().await?;
    let used = "select count(*) from pg_class where relname = 'events'";
    let mut connection = databases.main.connect().await?;
    let tables: i64 = sqlx::query_scalar(used).fetch_one(&mut connection).await?;
    connection.close().await?;
    if tables > 0 {
        bail!("the demo wants empty databases");
    }
    Ok(databases)
}

async fn drop_database(beside: &PgConnectOptions, name: &str) -> anyhow::Result<()> {
    let mut connection = beside.connect().await?;
    let statement = format!("drop database if exists {name} with (force)");
    connection.execute(statement.as_str()).await?;
    Ok(connection.close().await?)
}
