//! From a file, as `firmforms ingest` does it: line by line, in chunks that are full, one after the
//! other.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use ::service::ingest;
use api::Service;
use api::intake::IntakeCounts;

/// Takes in a file.
pub(super) async fn take_in(service: &Service, file: &Path) -> anyhow::Result<IntakeCounts> {
    ingest::take_in_lines(service, BufReader::new(File::open(file)?)).await
}
