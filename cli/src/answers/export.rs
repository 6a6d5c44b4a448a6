//! `deliveries export`: the deliveries of a firm with their attempts, as a file. The export is
//! recorded first, then written.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use api::Service;
use api::commands::readings;
use api::queries::export::{self, DeliveryExport, ExportFormat};
use clap::{Args, ValueEnum};
use domain::audit::AuditPeriod;
use domain::values::When;
use futures::TryStreamExt;
use serde_json::json;

use crate::archive::note_archived;
use crate::audit::new_file::NewFile;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, Output, OutputArgs, RecordView, print_note};
use crate::progress::Progress;

const WRITTEN: RecordView =
    RecordView::new(&[Column::text("file"), Column::id("format"), Column::number("rows")]);

/// The arguments of `deliveries export`.
#[derive(Debug, Args)]
pub(crate) struct DeliveryExportArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    firm: String,
    /// Only deliveries of this subscription: its id, or the beginning of its id.
    #[arg(long, conflicts_with = "host")]
    hook: Option<String>,
    /// Only deliveries to this host.
    #[arg(long)]
    host: Option<String>,
    /// Only attempts begun at this time or later, also of older deliveries: 2026-11-01,
    /// 2026-11-01T09:30:00Z, 2h, yesterday. A delivery without an attempt counts by its queuing.
    #[arg(long)]
    since: Option<When>,
    /// Only attempts begun before this time.
    #[arg(long)]
    until: Option<When>,
    /// The format: for a spreadsheet, or for programs.
    #[arg(long, value_enum, default_value = "csv")]
    format: DeliveryFormat,
    /// The file to write; by default standard output. A file that exists is not overwritten.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Tell as JSON the file that was written.
    #[arg(long, requires = "out", help_heading = "Output")]
    json: bool,
}

/// The format of an export of deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DeliveryFormat {
    /// Comma-separated values.
    Csv,
    /// JSON, one object a line.
    Ndjson,
}

impl DeliveryFormat {
    const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }
}

impl From<DeliveryFormat> for ExportFormat {
    fn from(format: DeliveryFormat) -> Self {
        match format {
            DeliveryFormat::Csv => Self::Csv,
            DeliveryFormat::Ndjson => Self::Ndjson,
        }
    }
}

pub(crate) async fn run(service: &Service, asked: DeliveryExportArgs) -> anyhow::Result<()> {
    let pool = service.store.pool();
    let firm = names::find_id(pool, NamedKind::Firm, &asked.firm).await?;
    let AuditPeriod { since, until } =
        names::past_period(asked.since, asked.until, service.clock.now())?;
    let hook_id = names::id_of_any(pool, NamedKind::Hook, asked.hook.as_deref()).await?;
    let format = asked.format.into();
    let order = DeliveryExport { format, hook_id, host: asked.host, since, until };
    let out = asked.out.as_deref().map(NewFile::create).transpose()?;
    // A refused export is no export. No line is read before the record.
    let lines = export::stream_lines(service, firm, &order).await.map_err(terminal_error)?;
    let actor = service.operator();
    readings::record(service, firm, actor, order.reading_details())
        .await
        .map_err(terminal_error)?;
    let mut to: Box<dyn Write + Send> = match &out {
        Some(file) => Box::new(BufWriter::new(file)),
        None => Box::new(BufWriter::new(Output::new())),
    };
    let named = || asked.out.as_deref().map_or(String::new(), |path| path.display().to_string());
    let how = OutputArgs { json: asked.json, quiet: false };
    let progress = Progress::new("rows", how);
    let mut rows: u64 = 0;
    futures::pin_mut!(lines);
    while let Some(part) = lines.try_next().await.map_err(terminal_error)? {
        rows += part.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        to.write_all(&part).with_context(named)?;
        progress.advance_to(rows, 0);
    }
    to.flush().with_context(named)?;
    drop(to);
    progress.finish();
    let border = export::archived_before(service, &order).await.map_err(terminal_error)?;
    note_archived(Some(firm), border);
    if asked.format == DeliveryFormat::Csv {
        // The first line names the columns.
        rows = rows.saturating_sub(1);
    }
    let Some(file) = out else {
        print_note(&format!("{rows} rows written"));
        return Ok(());
    };
    file.move_into_place()?;
    WRITTEN.print(how, &json!({"file": named(), "format": asked.format.name(), "rows": rows}));
    Ok(())
}
