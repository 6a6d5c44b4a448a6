//! `ingest`: activities from a file or standard input.

use std::fs::File;
use std::io::{BufReader, IsTerminal, Read, stdin};
use std::path::Path;

use anyhow::Context;
use api::Service;
use api::intake::IntakeCounts;
use indicatif::{ProgressBar, ProgressStyle};
use service::{StorageSettings, ingest};

use crate::args::IngestArgs;
use crate::databases;
use crate::output::print_line;

pub(crate) async fn run(storage: &StorageSettings, asked: &IngestArgs) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let done = take_in(&system.service, &asked.file).await;
    system.stop().await?;
    let IntakeCounts { accepted, duplicates, stale } = done?;
    print_line(&format!("{accepted} accepted, {duplicates} duplicates, {stale} stale"));
    Ok(())
}

async fn take_in(service: &Service, file: &Path) -> anyhow::Result<IntakeCounts> {
    let bar = progress_bar(file);
    let reader = bar.wrap_read(open_input(file).with_context(|| file.display().to_string())?);
    let done = ingest::take_in_lines(service, BufReader::new(reader)).await;
    bar.finish_and_clear();
    done
}

fn open_input(file: &Path) -> std::io::Result<Box<dyn Read>> {
    if file == Path::new("-") {
        return Ok(Box::new(stdin()));
    }
    Ok(Box::new(File::open(file)?))
}

/// A progress bar over the bytes of the file, if a person watches.
fn progress_bar(file: &Path) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = match std::fs::metadata(file) {
        Ok(metadata) if metadata.is_file() => ProgressBar::new(metadata.len()),
        Ok(_) | Err(_) => ProgressBar::new_spinner(),
    };
    let style = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    bar.with_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}
