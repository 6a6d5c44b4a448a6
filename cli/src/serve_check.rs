//! `serve --check`: looks at the settings, at the files they name and at the databases. It starts,
//! makes and changes nothing.

use cluster::Cluster;
use eventstore::checkup::SchemaStanding;
use eventstore::connect;
use service::schema::schema_standings;
use service::{Databases, Installation, SERVICE_DATABASES, StorageSettings};
use vault::Keyring;

use crate::descriptors;
use crate::door_setup::{door_pair, warn_of_clear_text};
use crate::output::print_line;
use crate::serve_args::ServeArgs;
use crate::setup::serve_setup;

pub(crate) async fn run(storage: &StorageSettings, serve: &ServeArgs) -> anyhow::Result<()> {
    let setup = serve_setup(storage, serve)?;
    let shares = descriptors::door_shares(descriptors::raise_limit(), serve);
    door_pair(serve, shares, &setup.base_url)?;
    warn_of_clear_text(serve);
    print_line("settings: good");
    if let Some(provider) = &setup.provider {
        let told = match provider.require_description().await {
            Ok(()) => "answers".to_owned(),
            Err(error) => format!("{error}; tokens sign in meanwhile"),
        };
        print_line(&format!("provider {}: {told}", provider.host()));
    }
    let told = match storage.database_url {
        Some(_) => describe_named(storage).await?,
        None => describe_private(storage)?,
    };
    print_line(&format!("databases: {told}"));
    Ok(())
}

/// Tells of databases that the settings name.
async fn describe_named(storage: &StorageSettings) -> anyhow::Result<String> {
    let there = Installation::MustExist;
    let mut databases = Databases::open(storage, SERVICE_DATABASES, there).await?;
    let wrapping = storage.wrapping_key(there)?;
    databases.require_primaries().await?;
    let main = connect(databases.main.options().clone(), 1);
    let keys = connect(databases.keyring.options().clone(), 1);
    let keyring = Keyring::new(keys.clone(), wrapping);
    let mut told = "both answer".to_owned();
    for (name, SchemaStanding { found, needed, missing }) in schema_standings(&main, &keys).await? {
        if missing > 0 {
            told.push_str(&format!("; {name} has schema {found}, and serve makes it {needed}"));
        }
    }
    // An empty keyring has no key to compare.
    if told == "both answer" {
        keyring.check_read_only().await?;
    }
    main.close().await;
    keyring.close().await;
    Ok(told)
}

/// Tells of the private cluster, which is not started.
fn describe_private(storage: &StorageSettings) -> anyhow::Result<String> {
    let data_dir = storage.data_dir();
    cluster::check_owner(&data_dir)?;
    let place = data_dir.display();
    if !Cluster::has_data(&data_dir) {
        return Ok(format!("none in {place}; serve makes them"));
    }
    storage.wrapping_key(Installation::MustExist)?;
    Ok(format!("a private cluster in {place}"))
}
