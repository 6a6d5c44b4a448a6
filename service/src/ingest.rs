//! Activities from a stream of lines, in chunks. A chunk is taken in whole or not at all.

use std::io::BufRead;

use anyhow::{Context, bail};
use api::Service;
use api::intake::{EventFormat, IntakeCounts, IntakeError, accept, parse_events};
use domain::activity::{BATCH_MAX_BYTES, BATCH_MAX_EVENTS};
use domain::event::Actor;
use uuid::Uuid;

/// Takes in lines, chunk by chunk.
///
/// # Errors
///
/// Names the refused line, and the first line of its chunk, which was not taken in either.
pub async fn take_in_lines(service: &Service, input: impl BufRead) -> anyhow::Result<IntakeCounts> {
    let mut done = IntakeCounts::default();
    let mut chunk = LineBatch::default();
    for line in input.split(b'\n') {
        let line = line.context("reading the input")?;
        if chunk.is_full(&line) {
            done += chunk.take_in(service).await?;
        }
        chunk.push(&line);
    }
    done += chunk.take_in(service).await?;
    Ok(done)
}

/// The lines of one chunk.
#[derive(Default)]
struct LineBatch {
    bytes: Vec<u8>,
    lines: usize,
    lines_before: usize,
}

impl LineBatch {
    fn is_full(&self, line: &[u8]) -> bool {
        self.lines == BATCH_MAX_EVENTS
            || (self.lines > 0 && self.bytes.len() + line.len() + 1 > BATCH_MAX_BYTES)
    }

    fn push(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        self.lines += 1;
    }

    async fn take_in(&mut self, service: &Service) -> anyhow::Result<IntakeCounts> {
        let taken = self.try_take_in(service).await;
        if let Err(IntakeError::BadEvent(bad)) = &taken {
            let line = self.lines_before + bad.line.unwrap_or(bad.index + 1);
            bail!(
                "line {line}: {}; nothing from line {} on was taken in",
                bad.why,
                self.lines_before + 1
            );
        }
        self.lines_before += self.lines;
        self.lines = 0;
        self.bytes.clear();
        Ok(taken?)
    }

    async fn try_take_in(&self, service: &Service) -> Result<IntakeCounts, IntakeError> {
        let events = parse_events(EventFormat::Lines, &self.bytes)?;
        // A process without a terminal takes in activities of its own, such as those of the demo.
        let own = Actor::Product(Uuid::nil());
        let actor = service.operator.as_ref().map_or(own, |_| service.operator());
        accept(service, events, actor).await
    }
}
