//! `keyring`: changes the wrapping key while the service is stopped.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Subcommand;
use domain::maintenance::MaintenanceEvent;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use vault::SystemEntropy;
use vault::rewrap::{Rewrap, RewrapResult, RewrapState};

use crate::confirm::{self, ConsentArgs};
use crate::databases::key_of_file;
use crate::operator;
use crate::output::{ReportArgs, print_json, print_line, print_note};
use crate::wiring::{Databases, Installation, SERVICE_DATABASES, StorageArgs};

const CONSEQUENCES: &str = "every data key and secret is encrypted under the new key; from then on \
                            no process starts with the old one";

#[derive(Debug, Subcommand)]
pub(crate) enum KeyringCommand {
    /// Encrypt all data keys, signing secrets and reply addresses under another wrapping key. Stop
    /// every process first. After an interruption, run it again.
    Rewrap {
        /// A file with the new key: 64 hexadecimal digits. The old key is the configured one.
        #[arg(long)]
        new_key_file: PathBuf,
        #[command(flatten)]
        consent: ConsentArgs,
        #[command(flatten)]
        how: ReportArgs,
    },
}

pub(crate) async fn run(storage: &StorageArgs, command: &KeyringCommand) -> anyhow::Result<()> {
    let KeyringCommand::Rewrap { new_key_file, consent, how } = command;
    let from = storage.wrapping_key(Installation::MustExist)?;
    let to = key_of_file(new_key_file)?;
    let mut databases =
        Databases::open(storage, SERVICE_DATABASES, Installation::MustExist).await?;
    databases.require().await?;
    let mut main = databases.main.connect().await?;
    let mut keyring = databases.keyring.connect().await?;
    nobody_is_at_work(&mut main, &mut keyring).await?;
    confirm::require(*consent, CONSEQUENCES, "rewrap")?;
    let rewrap = Rewrap { from: &from, to: &to, entropy: &SystemEntropy };
    begin(&rewrap, &mut main, &mut keyring).await?;
    let ordered = MaintenanceEvent::KeyringRewrapOrdered {};
    operator::record_alone(storage, databases.main.options(), ordered).await?;
    let done = rewrap.run(&mut main, &mut keyring).await.context("rewrapping")?;
    main.close().await?;
    keyring.close().await?;
    databases.stop().await?;
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
async fn begin(
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
          where datname = current_database() and application_name = 'firmforms'",
    )
    .fetch_one(connection)
    .await?;
    ensure!(connections == 0, "stop the service first: it has {connections} connections open");
    Ok(())
}
