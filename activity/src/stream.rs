//! The stream: the lines of firms and responses, in their order of arrival. A response is told when
//! it begins and not before, so memory does not grow with the number of responses.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::MadeUpActivity;
use super::event::{DAY, EventLine, EventTime};
use super::firms::{self, GeneratedFirm};
use super::queue::LineQueue;
use super::random::Random;
use super::responses;

/// The row of draws for beginnings.
const BEGINNING_DRAWS: u64 = 3;

/// The period of a run. Firms open in its first eighth, then responses arrive.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunPeriod {
    pub(super) from: EventTime,
    pub(super) settled: EventTime,
    until: EventTime,
}

impl RunPeriod {
    fn new(made_up: MadeUpActivity) -> Self {
        let until = EventTime(made_up.until.get().timestamp_millis());
        let length = i64::from(made_up.weeks) * 7 * DAY;
        Self { from: until.after(-length), settled: until.after(-length / 8 * 7), until }
    }

    /// The time between the last opening and the end.
    pub(super) const fn length(self) -> i64 {
        self.until.0 - self.settled.0
    }

    /// The time at which this part of the period has passed.
    pub(super) fn time_at_part(self, number: u64, of: u64) -> EventTime {
        let passed = i128::from(self.length()) * i128::from(number) / i128::from(of.max(1));
        self.settled.after(i64::try_from(passed).unwrap_or_default())
    }
}

/// The state of a run.
pub(super) struct EventGenerator {
    made_up: MadeUpActivity,
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
    pub(super) fn new(made_up: MadeUpActivity) -> Self {
        let span = RunPeriod::new(made_up);
        let (firms, mut lives) = firms::generate_firms(made_up.seed, made_up.firms, span);
        lives.retain(|line| line.arrives_at <= span.until);
        let lives = lives.into_iter().peekable();
        let queue = LineQueue::default();
        let mut stream =
            Self { made_up, span, firms, lives, queue, number: 0, begins: EventTime::NEVER };
        stream.begins = stream.next_begin();
        stream
    }

    /// The begin of the next response. It lies in that response's share of the period, so the
    /// begins are in order.
    fn next_begin(&self) -> EventTime {
        let MadeUpActivity { responses, seed, .. } = self.made_up;
        if self.number == responses {
            return EventTime::NEVER;
        }
        let [from, to] =
            [self.number, self.number + 1].map(|number| self.span.time_at_part(number, responses));
        EventTime(Random::new(seed, BEGINNING_DRAWS, self.number).draw_between(from.0, to.0))
    }

    /// Tells the next response. `None` if none is left.
    fn tell_next(&mut self) -> Option<()> {
        if self.begins == EventTime::NEVER {
            return None;
        }
        let told =
            responses::tell_response(self.made_up.seed, self.number, self.begins, &self.firms);
        for line in told.into_iter().filter(|line| line.arrives_at <= self.span.until) {
            self.queue.push(line);
        }
        self.number += 1;
        self.begins = self.next_begin();
        Some(())
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
            self.tell_next()?;
        }
    }
}
