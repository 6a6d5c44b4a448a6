//! `audit export`: the export is recorded first, then written.

use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use api::commands::readings;
use auditor::bundle::{self, BundleSummary, CheckpointSigning, ExportSelection};
use auditor::cover::CoverPage;
use auditor::lines;
use domain::audit::AuditPeriod;
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use projector::firms;
use serde_json::json;
use service::{StorageSettings, System};
use vault::SystemEntropy;

use super::args::{ExportArgs, ExportFormat};
use super::new_file::NewFile;
use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, Output, OutputArgs, RecordView, print_note};
use crate::progress::Progress;

const WRITTEN: RecordView =
    RecordView::new(&[Column::text("file"), Column::id("format"), Column::number("entries")]);

pub(crate) async fn run(storage: &StorageSettings, export: &ExportArgs) -> anyhow::Result<()> {
    if export.cover.is_some() && export.format != ExportFormat::Bundle {
        bail!("--cover is a page about a bundle: it needs --format bundle");
    }
    let system = databases::open(storage).await?;
    let firm_id = names::find_id(system.main_pool(), NamedKind::Firm, &export.firm).await?;
    let AuditPeriod { since, until } = export.time.period(system.service.clock.now())?;
    let out = export.out.as_deref().map(NewFile::create).transpose()?;
    let cover = export.cover.as_deref().map(NewFile::create).transpose()?;
    let read_as = match export.format {
        ExportFormat::Csv => ReadAs::Csv,
        ExportFormat::Ndjson => ReadAs::Ndjson,
        ExportFormat::Bundle => ReadAs::Bundle,
    };
    let reading =
        ReadingDetails { since, until, ..ReadingDetails::at(ReadingSubject::Audit, read_as) };
    let actor = system.service.operator();
    readings::record(&system.service, firm_id, actor, reading).await.map_err(terminal_error)?;
    let asked = ExportSelection { firm_id, since, until };
    let order = ExportOrder { storage, system: &system, export, asked };
    let written = match &out {
        Some(file) => {
            order.write_export(BufWriter::new(file)).await.with_context(|| order.file_name())?
        }
        None => order.write_export(BufWriter::new(Output::new())).await?,
    };
    if let (Some(mut file), Some(bundle)) = (cover.as_ref(), &written.bundle) {
        file.write_all(order.cover_page(bundle).await?.as_bytes())?;
    }
    for file in [out, cover].into_iter().flatten() {
        file.move_into_place()?;
    }
    system.stop().await?;
    report_written(export, written.entries);
    Ok(())
}

/// Tells what was written: beside the export, if the export itself is the output.
fn report_written(export: &ExportArgs, entries: u64) {
    let Some(file) = &export.out else {
        return print_note(&format!("{entries} entries written"));
    };
    let how = OutputArgs { json: export.json, quiet: false };
    let file = file.display().to_string();
    let format = export.format.name();
    WRITTEN.print(how, &json!({"file": file, "format": format, "entries": entries}));
}

/// One export: its arguments, the selected entries and the system that has them.
struct ExportOrder<'a> {
    storage: &'a StorageSettings,
    system: &'a System,
    export: &'a ExportArgs,
    asked: ExportSelection,
}

/// The content of a written export.
struct Written {
    entries: u64,
    /// The counts and the hashes of a bundle.
    bundle: Option<BundleSummary>,
}

impl ExportOrder<'_> {
    async fn write_export(&self, mut to: impl Write + Send) -> anyhow::Result<Written> {
        let Self { storage, system, export, asked } = self;
        // Progress goes to standard error, so it is shown beside an export to standard output.
        let how = OutputArgs { json: export.json, quiet: false };
        let bar = Progress::new("entries", how);
        let entries = AtomicU64::new(0);
        let progress = |done, all| {
            entries.store(all, Ordering::Relaxed);
            bar.advance_to(done, all);
        };
        let pool = system.main_pool();
        let bundle = match export.format {
            ExportFormat::Csv => {
                to.write_all(lines::CSV_HEADER.as_bytes())?;
                lines::export(pool, *asked, lines::csv, to, progress).await?;
                None
            }
            ExportFormat::Ndjson => {
                lines::export(pool, *asked, lines::ndjson, to, progress).await?;
                None
            }
            ExportFormat::Bundle => {
                let notary = storage.signing_notary()?;
                let at = system.service.clock.now();
                let signing = CheckpointSigning { notary: &notary, entropy: &SystemEntropy, at };
                Some(bundle::export(pool, signing, *asked, to, progress).await?)
            }
        };
        bar.finish();
        // A bundle of a period also has the entry before and the entry after the period. Only the
        // entries of the period count.
        let entries = bundle.as_ref().map_or(entries.into_inner(), |bundle| bundle.proved.entries);
        Ok(Written { entries, bundle })
    }

    async fn cover_page(&self, bundle: &BundleSummary) -> anyhow::Result<String> {
        let Self { system, export, asked, .. } = self;
        let firm_name = firms::name(system.main_pool(), asked.firm_id).await?;
        let name = export.out.as_deref().and_then(|path| path.file_name());
        let file = name.map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let made_at = system.service.clock.now();
        Ok(CoverPage { bundle, file: &file, firm_name: firm_name.as_deref(), made_at }.html())
    }

    fn file_name(&self) -> String {
        self.export.out.as_deref().map_or(String::new(), |path| path.display().to_string())
    }
}
