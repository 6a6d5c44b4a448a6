//! `find`: says what a piece of text is, and which commands tell more.

use api::queries::find;
use clap::Args;
use serde_json::{Value, json};
use service::StorageSettings;

use crate::archive::note_archived;
use crate::databases;
use crate::failure::terminal_error;
use crate::output::{Column, ListTable, OutputArgs};

const FOUND: ListTable = ListTable::new(
    &[
        Column::text("kind"),
        Column::id("id"),
        Column::text("firm"),
        Column::text("label"),
        Column::note("look"),
    ],
    "nothing was found",
);

/// The arguments of `find`.
#[derive(Debug, Args)]
pub(crate) struct FindArgs {
    /// An id or the beginning of one (4 digits at least), the beginning of a key, a host, the
    /// beginning of a firm's name, a position of the log, or the hash of an audit entry.
    text: String,
    #[command(flatten)]
    json: OutputArgs,
}

pub(crate) async fn run(storage: &StorageSettings, asked: FindArgs) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let found =
        find::find_text(&system.service, None, &asked.text).await.map_err(terminal_error)?;
    let items = found.items.iter().map(|one| json!(one)).collect::<Vec<Value>>();
    FOUND.print(asked.json, items);
    note_archived(None, found.archived_before);
    system.stop().await
}
