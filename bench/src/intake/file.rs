//! From a file, as `firmforms ingest` does it: line by line, in chunks that are full, one after the
//! other.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use api::Service;
use api::intake::{Accepted, Format, accept, parse};
use domain::activity::{BATCH_MAX_BYTES, BATCH_MAX_EVENTS};
use domain::context::Actor;
use uuid::Uuid;

/// Takes in a file.
pub(super) async fn take_in(service: &Service, file: &Path) -> anyhow::Result<Accepted> {
    let mut done = Accepted { accepted: 0, duplicates: 0 };
    let mut chunk = Chunk::default();
    for line in BufReader::new(File::open(file)?).split(b'\n') {
        let line = line?;
        if chunk.is_full(&line) {
            chunk.take_in(service, &mut done).await?;
        }
        chunk.push(&line);
    }
    chunk.take_in(service, &mut done).await?;
    Ok(done)
}

/// Lines that are taken in together.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    lines: usize,
}

impl Chunk {
    fn is_full(&self, line: &[u8]) -> bool {
        self.lines == BATCH_MAX_EVENTS
            || (self.lines > 0 && self.bytes.len() + line.len() + 1 > BATCH_MAX_BYTES)
    }

    fn push(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        self.lines += 1;
    }

    async fn take_in(&mut self, service: &Service, done: &mut Accepted) -> anyhow::Result<()> {
        let events = parse(Format::Lines, &self.bytes)?;
        let taken = accept(service, events, Actor::Product(Uuid::nil())).await?;
        done.accepted += taken.accepted;
        done.duplicates += taken.duplicates;
        self.lines = 0;
        self.bytes.clear();
        Ok(())
    }
}
