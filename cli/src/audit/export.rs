//! `audit export`: recorded first, then written.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write, stdout};

use anyhow::Context;
use api::commands::readings;
use auditor::bundle::{self, Asked};
use auditor::lines;
use domain::reading::{Look, Read, ReadAs};
use indicatif::ProgressBar;
use vault::SystemEntropy;

use super::args::{Export, Format};
use super::{OPERATOR, refused};
use crate::wiring::{self, Place, System};

pub(crate) async fn run(place: &Place, export: &Export) -> anyhow::Result<()> {
    let system = wiring::open(place).await?;
    let (since, until) = (export.time.since, export.time.until);
    let how = match export.format {
        Format::Csv => ReadAs::Csv,
        Format::Ndjson => ReadAs::Ndjson,
        Format::Bundle => ReadAs::Bundle,
    };
    let look = Look { since, until, ..Look::at(Read::Audit, how) };
    readings::record(&system.service, export.firm, OPERATOR, look).await.map_err(refused)?;
    let written = match &export.out {
        Some(path) => {
            let named = || path.display().to_string();
            let file = File::create(path).with_context(named)?;
            write(place, &system, export, BufWriter::new(file)).await.with_context(named)
        }
        None => write(place, &system, export, BufWriter::new(stdout())).await,
    };
    system.stop().await?;
    written
}

async fn write(
    place: &Place,
    system: &System,
    export: &Export,
    mut to: impl Write + Send,
) -> anyhow::Result<()> {
    let asked = Asked { firm_id: export.firm, since: export.time.since, until: export.time.until };
    let bar = bar(export);
    let progress = |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    };
    let pool = system.pool();
    match export.format {
        Format::Csv => {
            to.write_all(lines::CSV_HEADER.as_bytes())?;
            lines::export(pool, asked, lines::csv, to, progress).await?;
        }
        Format::Ndjson => lines::export(pool, asked, lines::ndjson, to, progress).await?,
        Format::Bundle => {
            let (notary, now) = (place.notary(), system.service.clock.now());
            let from = (pool, &notary);
            bundle::export(from, (&SystemEntropy, now), asked, to, progress).await?;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// A bar for a person who waits for a file.
fn bar(export: &Export) -> ProgressBar {
    if export.out.is_some() && std::io::stderr().is_terminal() {
        ProgressBar::new(0)
    } else {
        ProgressBar::hidden()
    }
}
