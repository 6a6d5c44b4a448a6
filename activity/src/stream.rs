//! The generator makes the lines of firms and responses, in their order of arrival. It makes the
//! lines of a response only when the response begins, so its memory does not grow with the number
//! of responses.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::event::{EventLine, EventTime};
use super::firms::{self, GeneratedFirm};
use super::period::RunPeriod;
use super::queue::LineQueue;
use super::random::Random;
use super::story;

/// The row of draws for the beginnings of responses.
const BEGINNING_DRAWS: u64 = 3;

/// The state of a run.
pub(super) struct EventGenerator {
    seed: u64,
    /// The number of responses.
    responses: u64,
    span: RunPeriod,
    firms: Vec<GeneratedFirm>,
    /// Lines of firms that have not arrived yet.
    lives: Peekable<IntoIter<EventLine>>,
    queue: LineQueue,
    /// The number of the next response.
    number: u64,
    begins: EventTime,
}

impl EventGenerator {
    pub(super) fn new(seed: u64, firms: u32, responses: u64, span: RunPeriod) -> Self {
        let (firms, mut lives) = firms::generate_firms(seed, firms, span);
        lives.retain(|line| line.arrives_at <= span.until);
        let lives = lives.into_iter().peekable();
        let queue = LineQueue::default();
        let begins = EventTime::NEVER;
        let mut stream = Self { seed, responses, span, firms, lives, queue, number: 0, begins };
        stream.begins = stream.next_begin();
        stream
    }

    /// The begin of the next response. It lies in that response's share of the period, so the
    /// begins are in order.
    fn next_begin(&self) -> EventTime {
        if self.number == self.responses {
            return EventTime::NEVER;
        }
        let [from, to] = [self.number, self.number + 1]
            .map(|number| self.span.time_at_part(number, self.responses));
        EventTime(Random::new(self.seed, BEGINNING_DRAWS, self.number).draw_between(from.0, to.0))
    }

    /// Queues the lines of the next response.
    fn queue_next_response(&mut self) {
        let lines = story::tell_response(self.seed, self.number, self.begins, &self.firms);
        for line in lines.into_iter().filter(|line| line.arrives_at <= self.span.until) {
            self.queue.push(line);
        }
        self.number += 1;
        self.begins = self.next_begin();
    }
}

impl Iterator for EventGenerator {
    type Item = EventLine;

    /// Lines of forms arrive before a response to them is told.
    fn next(&mut self) -> Option<EventLine> {
        loop {
            while let Some(line) = self.lives.next_if(|line| line.arrives_at <= self.begins) {
                self.queue.push(line);
            }
            if let Some(line) = self.queue.pop_due(self.begins) {
                return Some(line);
            }
            if self.begins == EventTime::NEVER {
                return None;
            }
            self.queue_next_response();
        }
    }
}
