//! The life of one firm, and its moments.

use super::event::{EventTeller, EventTime, HOUR, MINUTE, SECOND};
use super::period::RunPeriod;

/// A firm whose life is told.
pub(super) struct FirmLife {
    pub(super) teller: EventTeller,
    pub(super) span: RunPeriod,
    pub(super) opened: EventTime,
}

impl FirmLife {
    /// A time while the firm settles.
    pub(super) fn settling_time(&mut self) -> EventTime {
        let from = self.opened.after(MINUTE);
        EventTime(self.teller.random.draw_between(from.0, self.span.settled.0))
    }

    /// Three times in order, before any firm closes.
    pub(super) fn ordered_moments(&mut self) -> [EventTime; 3] {
        let width = self.span.response_time() / 16 * 5;
        [0, 1, 2].map(|number| {
            let after = self.teller.random.draw_between(SECOND, width - HOUR);
            self.span.settled.after(number * width + after)
        })
    }
}
