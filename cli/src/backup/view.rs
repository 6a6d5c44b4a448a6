//! A backup as an operator sees it.

use std::path::Path;

use serde_json::{Value, json};

use super::manifest::{BackupManifest, WRAPPING_KEY};
use super::origin::{ProvedOrigin, UnprovedOrigin};
use crate::output::{Column, OutputArgs, RecordView};

const BACKUP: RecordView = RecordView::new(&[
    Column::text("backup"),
    Column::time("taken_at"),
    Column::number("position"),
    Column::number("bytes"),
    Column::number("checkpoint"),
    Column::text("keys"),
    Column::text("origin"),
    Column::text("version"),
])
.quiet_field("backup");

/// A backup as an operator sees it.
pub(super) struct BackupView<'a> {
    pub(super) manifest: &'a BackupManifest,
    pub(super) origin: Result<ProvedOrigin, UnprovedOrigin>,
}

pub(super) fn print_backup(how: OutputArgs, place: &Path, backup: BackupView<'_>) {
    BACKUP.print(how, &backup_json(place, backup));
}

fn backup_json(place: &Path, BackupView { manifest, origin }: BackupView<'_>) -> Value {
    let has_keys = manifest.find_member(WRAPPING_KEY).is_some();
    json!({
        "backup": place.display().to_string(),
        "taken_at": domain::values::Timestamp::from(manifest.taken_at),
        "position": manifest.position,
        "bytes": manifest.total_bytes(),
        "checkpoint": manifest.checkpoint,
        "keys": if has_keys { "inside" } else { "left out" },
        "origin": origin.map_or("not proved".to_owned(), |proved| proved.in_words()),
        "version": manifest.version,
    })
}
