//! `audit` and `hooks`: reads, exports and verifies the audit log, and records each reading.

pub(crate) mod args;
mod checkpoint;
mod export;
mod hooks;
mod mend;
pub(crate) mod new_file;
mod verify;

use std::process::ExitCode;

use anyhow::bail;
use api::commands::readings;
use auditor::{PublicKey, lines};
use domain::audit::{Action, AuditPeriod};
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::values::Timestamp;
use projector::audit::{self, AuditFilter};
use serde_json::{Value, json};
use service::StorageSettings;
use vault::SystemEntropy;

use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable, RecordView, print_line};
use args::{AuditCommand, AuditKeysCommand, AuditListArgs};

pub(crate) use hooks::run as hooks;
pub(crate) use verify::public_keys;

const ENTRIES: ListTable = ListTable::new(
    &[
        Column::number("sequence"),
        Column::time("at"),
        Column::id("action"),
        Column::text("reason"),
        Column::id("actor"),
        Column::id("subject"),
        Column::text("evidence"),
    ],
    "the audit log has no such entries of this firm",
);

const KEY_FIELDS: &[Column] = &[Column::id("id"), Column::id("public_key")];

pub(crate) async fn run(
    storage: &StorageSettings,
    command: AuditCommand,
) -> anyhow::Result<ExitCode> {
    match command {
        AuditCommand::List(list) => list_entries(storage, list).await?,
        AuditCommand::Export(export) => export::run(storage, &export).await?,
        AuditCommand::Verify(verify) => return Ok(verify::run(storage, &verify).await),
        AuditCommand::Mend(asked) => mend::run(storage, asked).await?,
        AuditCommand::Checkpoint(asked) => checkpoint::run(storage, &asked).await?,
        AuditCommand::Keys(command) => keys_command(storage, &command)?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list_entries(storage: &StorageSettings, list: AuditListArgs) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let firm_id = names::find_id(system.main_pool(), NamedKind::Firm, &list.firm).await?;
    let AuditPeriod { since, until } = list.time.period(system.service.clock.now())?;
    let look =
        ReadingDetails { since, until, ..ReadingDetails::at(ReadingSubject::Audit, ReadAs::Page) };
    let actor = system.service.operator();
    readings::record(&system.service, firm_id, actor, look).await.map_err(terminal_error)?;
    let filter = AuditFilter {
        actions: Action::action_words(&list.action, list.no_reads),
        actor: list.actor,
        subject: list.subject,
        since: since.map(Timestamp::get),
        until: until.map(Timestamp::get),
        before: list.after,
    };
    let rows = audit::list_entries(system.main_pool(), firm_id, &filter, list.limit).await?;
    let flat = |mut item: Value| {
        if list.json.is_text() {
            for party in ["actor", "subject"] {
                let of = item[party].take();
                let id = of["id"].as_str().map_or(String::new(), |id| format!(":{id}"));
                item[party] = format!("{}{id}", of["kind"].as_str().unwrap_or_default()).into();
            }
            item["evidence"] = item["evidence"].to_string().into();
        }
        item
    };
    let items = rows.iter().map(lines::entry_json).map(flat).collect();
    ENTRIES.print(list.json, items);
    system.stop().await
}

fn keys_command(storage: &StorageSettings, command: &AuditKeysCommand) -> anyhow::Result<()> {
    let keys = storage.signing_notary()?.keys;
    let item = |key: &PublicKey| json!({"id": key.id(), "public_key": key.hex()});
    match command {
        AuditKeysCommand::List(how) => {
            let items = keys.public_keys()?.iter().map(item).collect();
            ListTable::new(KEY_FIELDS, "no key signs here").print(*how, items);
        }
        AuditKeysCommand::Rotate(how) => {
            if keys.public_keys()?.is_empty() {
                // A key here would be trusted by verifications on this machine, and sign nothing.
                bail!(
                    "{}: no key signs here; name the signer's folder by --audit-keys-dir",
                    keys.folder().display()
                );
            }
            let made = keys.rotate(&SystemEntropy)?;
            RecordView::new(KEY_FIELDS).print(*how, &item(&made));
        }
        AuditKeysCommand::Publish { pem } => {
            for key in keys.public_keys()? {
                print_line(if *pem { key.pem() } else { key.hex() }.trim_end());
            }
        }
    }
    Ok(())
}
