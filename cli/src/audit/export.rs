//! `audit export`: the export is recorded first, then written.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use api::commands::readings;
use auditor::bundle::{self, CheckpointSigning, ExportSelection};
use auditor::lines;
use domain::reading::{ReadAs, ReadingDetails, ReadingSubject};
use indicatif::ProgressBar;
use nix::fcntl::OFlag;
use serde_json::json;
use vault::SystemEntropy;

use super::args::{ExportArgs, ExportFormat};
use super::terminal_error;
use crate::names::{self, NamedKind, TimeRange};
use crate::output::{Column, Output, OutputArgs, RecordView, print_note};
use crate::wiring::{self, StorageArgs, System};

const WRITTEN: RecordView =
    RecordView::new(&[Column::text("file"), Column::id("format"), Column::number("entries")]);

pub(crate) async fn run(storage: &StorageArgs, export: &ExportArgs) -> anyhow::Result<()> {
    let system = wiring::open(storage).await?;
    let firm_id = names::id(system.pool(), NamedKind::Firm, &export.firm).await?;
    let TimeRange { since, until } = export.time.at(system.service.clock.now());
    let asked = ExportSelection { firm_id, since, until };
    let how = match export.format {
        ExportFormat::Csv => ReadAs::Csv,
        ExportFormat::Ndjson => ReadAs::Ndjson,
        ExportFormat::Bundle => ReadAs::Bundle,
    };
    let look = ReadingDetails { since, until, ..ReadingDetails::at(ReadingSubject::Audit, how) };
    let actor = system.service.operator();
    readings::record(&system.service, firm_id, actor, look).await.map_err(terminal_error)?;
    let order = ExportOrder { storage, system: &system, export };
    let written = match &export.out {
        Some(path) => {
            let named = || path.display().to_string();
            let file = own_file(path).with_context(named)?;
            let to = BufWriter::new(file);
            order.write(asked, to).await.with_context(named)
        }
        None => order.write(asked, BufWriter::new(Output::new())).await,
    };
    system.stop().await?;
    tell(export, written?);
    Ok(())
}

/// Tells what was written: beside the export, if the export itself is the output.
fn tell(export: &ExportArgs, entries: u64) {
    let Some(file) = &export.out else {
        return print_note(&format!("{entries} entries written"));
    };
    let how = OutputArgs { json: export.json, quiet: false };
    let file = file.display().to_string();
    let format = export.format.name();
    WRITTEN.print(how, &json!({"file": file, "format": format, "entries": entries}));
}

/// Opens the file for the export. An audit log is for its reader: no other user may read it, and no
/// link leads elsewhere.
fn own_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    let file = options.open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.set_len(0)?;
    Ok(file)
}

/// An export and its place.
struct ExportOrder<'a> {
    storage: &'a StorageArgs,
    system: &'a System,
    export: &'a ExportArgs,
}

impl ExportOrder<'_> {
    /// Writes the entries. Returns their number.
    async fn write(
        &self,
        asked: ExportSelection,
        mut to: impl Write + Send,
    ) -> anyhow::Result<u64> {
        let Self { storage, system, export } = self;
        let bar = bar(export);
        let entries = AtomicU64::new(0);
        let progress = |done, all| {
            entries.store(all, Ordering::Relaxed);
            bar.set_length(all);
            bar.set_position(done);
        };
        let pool = system.pool();
        match export.format {
            ExportFormat::Csv => {
                to.write_all(lines::CSV_HEADER.as_bytes())?;
                lines::export(pool, asked, lines::csv, to, progress).await?;
            }
            ExportFormat::Ndjson => lines::export(pool, asked, lines::ndjson, to, progress).await?,
            ExportFormat::Bundle => {
                let notary = storage.signing_notary()?;
                let at = system.service.clock.now();
                let signing = CheckpointSigning { notary: &notary, entropy: &SystemEntropy, at };
                bundle::export(pool, signing, asked, to, progress).await?;
            }
        }
        bar.finish_and_clear();
        Ok(entries.into_inner())
    }
}

/// A progress bar, if a file is written and a person watches.
fn bar(export: &ExportArgs) -> ProgressBar {
    if export.out.is_some() && io::stderr().is_terminal() {
        ProgressBar::new(0)
    } else {
        ProgressBar::hidden()
    }
}
