//! `keyring`: makes the wrapping key of a new installation, and changes it while the service is
//! stopped.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use cluster::Cluster;
use domain::operations::MaintenanceEvent;
use eventstore::{APPLICATION_NAME, OLDER_APPLICATION_NAME};
use serde_json::json;
use service::key_files::{key_of_file, make_key_file};
use service::{Databases, Installation, SERVICE_DATABASES, StorageSettings};
use sqlx::{Connection, PgConnection};
use vault::SystemEntropy;
use vault::rewrap::{Rewrap, RewrapResult, RewrapState};

use crate::confirm::{self, ConsentArgs};
use crate::databases::require_readable;
use crate::operator;
use crate::output::{
    Column, OutputArgs, RecordView, ReportArgs, print_json, print_line, print_note,
};

const CONSEQUENCES: &str = "every data key and secret is encrypted under the new key; from then on \
                            no process starts with the old one";

const MADE: RecordView = RecordView::new(&[Column::id("file")]);

#[derive(Debug, Subcommand)]
pub(crate) enum KeyringCommand {
    /// Make the wrapping key of a new installation.
    Init(OutputArgs),
    /// Encrypt all data keys, signing secrets and reply addresses under another wrapping key. Stop
    /// every process first. After an interruption, run it again.
    Rewrap(RewrapArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RewrapArgs {
    /// A file with the new key: 64 hexadecimal digits. The old key is the configured one.
    #[arg(long)]
    new_key_file: PathBuf,
    #[command(flatten)]
    consent: ConsentArgs,
    #[command(flatten)]
    how: ReportArgs,
}

pub(crate) async fn run(storage: &StorageSettings, command: &KeyringCommand) -> anyhow::Result<()> {
    match command {
        KeyringCommand::Init(how) => make_key(storage, *how).await,
        KeyringCommand::Rewrap(asked) => rewrap_keys(storage, asked).await,
    }
}

/// Makes the key where every process looks for it: in the named file, or in the data directory.
async fn make_key(storage: &StorageSettings, how: OutputArgs) -> anyhow::Result<()> {
    if storage.wrapping_key.is_some() {
        bail!("FIRMFORMS_WRAPPING_KEY has the wrapping key already");
    }
    cluster::check_owner(&storage.data_dir())?;
    require_new(storage).await?;
    let file = storage.wrapping_key_place();
    make_key_file(&file).map_err(|error| not_made(error, &file))?;
    MADE.print(how, &json!({"file": file.display().to_string()}));
    print_note(
        "every process of the installation needs this key: copy it, and keep it apart from the \
         databases; without it all answers are lost",
    );
    Ok(())
}

fn not_made(error: io::Error, file: &Path) -> anyhow::Error {
    let file = file.display();
    match error.kind() {
        ErrorKind::AlreadyExists => anyhow!("{file}: it exists already, and is not overwritten"),
        _ => anyhow::Error::from(error).context(file.to_string()),
    }
}

/// Refuses a keyring that was used with a key: with another one nothing in it can be read.
async fn require_new(storage: &StorageSettings) -> anyhow::Result<()> {
    let data_dir = storage.data_dir();
    let used = match storage.database_url {
        Some(_) => {
            let there = Installation::MustExist;
            let mut databases = Databases::open(storage, SERVICE_DATABASES, there).await?;
            require_readable(&mut databases).await?;
            let mut keyring = databases.keyring.connect().await?;
            let used = vault::is_in_use(&mut keyring).await.context("the keyring")?;
            keyring.close().await?;
            used
        }
        None => Cluster::has_data(&data_dir),
    };
    ensure!(!used, "the keyring has a wrapping key already: put its file back, or name it");
    Ok(())
}

async fn rewrap_keys(storage: &StorageSettings, asked: &RewrapArgs) -> anyhow::Result<()> {
    let RewrapArgs { new_key_file, consent, how } = asked;
    let from = storage.wrapping_key(Installation::MustExist)?;
    let to = key_of_file(new_key_file)?;
    let mut databases =
        Databases::open(storage, SERVICE_DATABASES, Installation::MustExist).await?;
    databases.require_primaries().await?;
    let mut main = databases.main.connect().await?;
    let mut keyring = databases.keyring.connect().await?;
    nobody_is_at_work(&mut main, &mut keyring).await?;
    confirm::require_consent(*consent, CONSEQUENCES, "rewrap")?;
    let rewrap = Rewrap { from: &from, to: &to, entropy: &SystemEntropy };
    begin_rewrap(&rewrap, &mut main, &mut keyring).await?;
    let ordered = MaintenanceEvent::KeyringRewrapOrdered {};
    operator::record_alone(storage, databases.main.options(), ordered).await?;
    let done = rewrap.rewrap_all(&mut main, &mut keyring).await.context("rewrapping")?;
    main.close().await?;
    keyring.close().await?;
    databases.release_cluster().await?;
    for row in &done.damaged {
        print_note(&format!("damaged: {row} opens under neither key, and is as it was"));
    }
    print_result(*how, &done);
    print_note("from now on the new key is the wrapping key: set it wherever the old one was");
    Ok(())
}

fn print_result(how: ReportArgs, done: &RewrapResult) {
    let RewrapResult { data_keys, firm_secrets, damaged } = done;
    let count = damaged.len();
    if how.json {
        return print_json(&json!({
            "data_keys": data_keys, "of_firms": firm_secrets, "damaged": count,
            "damaged_rows": damaged,
        }));
    }
    print_line(&format!(
        "rewrapped: {data_keys} data keys, {firm_secrets} secrets of firms; damaged rows: {count}"
    ));
}

/// Locks new processes out. A process that passed its check before is connected by now, so the
/// second look finds it.
async fn begin_rewrap(
    rewrap: &Rewrap<'_>,
    main: &mut PgConnection,
    keyring: &mut PgConnection,
) -> anyhow::Result<()> {
    let before = rewrap.begin(keyring).await.context("rewrapping")?;
    let alone = nobody_is_at_work(main, keyring).await;
    if alone.is_err() && before == RewrapState::Untouched {
        rewrap.call_off(keyring).await?;
    }
    alone
}

/// Requires that no process works. With the old key in memory it would write data that no key can
/// read.
async fn nobody_is_at_work(
    main: &mut PgConnection,
    keyring: &mut PgConnection,
) -> anyhow::Result<()> {
    nobody_works_on(main).await?;
    nobody_works_on(keyring).await
}

async fn nobody_works_on(connection: &mut PgConnection) -> anyhow::Result<()> {
    let connections: i64 = sqlx::query_scalar(
        "select count(*) from pg_stat_activity
          where datname = current_database() and application_name = any($1)",
    )
    .bind([APPLICATION_NAME, OLDER_APPLICATION_NAME])
    .fetch_one(connection)
    .await?;
    ensure!(connections == 0, "stop the service first: it has {connections} connections open");
    Ok(())
}
