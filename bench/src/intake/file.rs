//! From a file, as `firmforms ingest` does it: line by line, in chunks that are full, one after the
//! other.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use api::Service;
use api::intake::IntakeCounts;
use firmforms::ingest;

/// Takes in a file.
pub(super) async fn take_in(service: &Service, file: &Path) -> anyhow::Result<IntakeCounts> {
    ingest::lines(service, BufReader::new(File::open(file)?)).await
}
