//! `audit mend`: adds the entries that a firm's audit log lacks at the end of its chain, under
//! statements that say why.

use api::commands::late_entries;
use auditor::{MissingEntry, missing_entries};
use serde_json::{Value, json};
use service::StorageSettings;

use super::args::AuditMendArgs;
use crate::confirm;
use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable, print_note};

const MISSING: ListTable = ListTable::new(
    &[
        Column::number("position"),
        Column::time("at"),
        Column::id("action"),
        Column::id("event_id"),
        Column::state("state"),
    ],
    "the audit log has the entry of each event of this firm",
);

pub(crate) async fn run(storage: &StorageSettings, asked: AuditMendArgs) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let firm_id = names::find_id(system.main_pool(), NamedKind::Firm, &asked.firm).await?;
    let missing = missing_entries(system.main_pool(), firm_id).await?;
    let is_mended = !asked.dry_run && !missing.is_empty();
    if is_mended {
        let consequences = format!(
            "{} missing entries are added at the end of the chain of firm {firm_id}. The statements \
             with your name and reason stay in the audit log for good",
            missing.len()
        );
        confirm::require_consent(asked.consent, &consequences, "mend")?;
        let added = late_entries::add(&system.service, firm_id, &missing, &asked.reason).await;
        added.map_err(terminal_error)?;
    }
    let state = if is_mended { "added" } else { "missing" };
    MISSING.print(asked.json, missing.iter().map(|entry| entry_json(entry, state)).collect());
    if is_mended && asked.json.is_text() {
        print_note(
            "a projector of this version adds them now; `firmforms audit checkpoint` signs them",
        );
    }
    system.stop().await
}

fn entry_json(entry: &MissingEntry, state: &str) -> Value {
    let MissingEntry { position, firm_id, event_id, at, action } = entry;
    json!({
        "position": position, "firm_id": firm_id, "event_id": event_id, "at": at,
        "action": action, "state": state,
    })
}
