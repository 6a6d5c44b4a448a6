//! `audit` and `hooks`: reads, exports and verifies the audit log, and records each reading.

pub(crate) mod args;
mod checkpoint;
mod export;
mod hooks;
mod new_file;
mod verify;

use std::process::ExitCode;

use anyhow::bail;
use api::commands::readings;
use auditor::{PublicKey, lines};
use domain::audit::{Action, AuditPeriod};
use domain::reading::{ReadAs, ReadingDetails, ReadingSubject};
use domain::time::Timestamp;
use projector::audit::{self, AuditFilter};
use serde_json::{Value, json};
use vault::SystemEntropy;

use crate::operate::terminal_error;
use crate::output::{print, print_line};
use crate::wiring::{self, StorageArgs};
use args::{AuditCommand, AuditKeysCommand, AuditListArgs};

pub(crate) use hooks::run as hooks;

pub(crate) async fn run(storage: &StorageArgs, command: AuditCommand) -> anyhow::Result<ExitCode> {
    match command {
        AuditCommand::List(list) => show(storage, list).await?,
        AuditCommand::Export(export) => export::run(storage, &export).await?,
        AuditCommand::Verify(verify) => return Ok(verify::run(storage, &verify).await),
        AuditCommand::Checkpoint(asked) => checkpoint::run(storage, &asked).await?,
        AuditCommand::Keys(command) => keys(storage, &command)?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(storage: &StorageArgs, list: AuditListArgs) -> anyhow::Result<()> {
    let system = wiring::open(storage).await?;
    let AuditPeriod { since, until } = list.time.period(system.service.clock.now())?;
    let look =
        ReadingDetails { since, until, ..ReadingDetails::at(ReadingSubject::Audit, ReadAs::Page) };
    let actor = system.service.operator();
    readings::record(&system.service, list.firm, actor, look).await.map_err(terminal_error)?;
    let filter = AuditFilter {
        actions: list.action.into_iter().map(Action::name).collect(),
        without: list.no_reads.then(|| Action::AuditRead.name()),
        actor: list.actor,
        subject: list.subject,
        since: since.map(Timestamp::get),
        until: until.map(Timestamp::get),
        before: list.after,
    };
    let rows = audit::list(system.pool(), list.firm, &filter, list.limit).await?;
    let flat = |mut item: Value| {
        if !list.json.json {
            for party in ["actor", "subject"] {
                let of = item[party].take();
                let id = of["id"].as_str().map_or(String::new(), |id| format!(":{id}"));
                item[party] = format!("{}{id}", of["kind"].as_str().unwrap_or_default()).into();
            }
        }
        item
    };
    let items = rows.iter().map(lines::entry_json).map(flat).collect();
    print(
        list.json,
        items,
        &["sequence", "at", "action", "reason", "actor", "subject", "evidence"],
    );
    system.stop().await
}

fn keys(storage: &StorageArgs, command: &AuditKeysCommand) -> anyhow::Result<()> {
    let keys = storage.signing_notary()?.keys;
    let item = |key: &PublicKey| json!({"id": key.id(), "public_key": key.hex()});
    match command {
        AuditKeysCommand::List(how) => {
            print(*how, keys.list()?.iter().map(item).collect(), &["id", "public_key"]);
        }
        AuditKeysCommand::Rotate(how) => {
            if keys.list()?.is_empty() {
                // A key here would be trusted by verifications on this machine, and sign nothing.
                bail!(
                    "{}: no key signs here; name the signer's folder by --audit-keys-dir",
                    keys.folder().display()
                );
            }
            let made = keys.rotate(&SystemEntropy)?;
            print(*how, vec![item(&made)], &["id", "public_key"]);
        }
        AuditKeysCommand::Publish { pem } => {
            for key in keys.list()? {
                print_line(if *pem { key.pem() } else { key.hex() }.trim_end());
            }
        }
    }
    Ok(())
}
