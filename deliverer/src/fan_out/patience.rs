//! Patience: what there is no room for waits in the log, as long as it costs nobody else anything. Queued
//! first, each would cost a claim of its own.

use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::Instant;
use uuid::Uuid;

use crate::at_once::Waits;

/// From the start of a pass that left a part in the log to the next: meanwhile room is made for more than a
/// few.
pub(super) const PACE: Duration = Duration::from_millis(10);

/// The first wait for any room at all; later ones are as long as it has waited, up to the pace.
const NO_ROOM: Duration = Duration::from_millis(5);

/// How long the next occurrence waits for room: then it is queued without.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long an occurrence waits in the log at most: who looks at the queue is to find it there.
const LONGEST: TimeDelta = TimeDelta::seconds(10);

/// What a pass left in the log for want of room: one firm's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) firm_id: Uuid,
    /// Up to where nobody else's occurrence comes after it.
    pub(super) alone_to: i64,
    /// When it is looked at again.
    pub(super) next: Instant,
    /// Since when its first occurrence has been the next.
    since: Instant,
}

/// What waits, and how long it may.
#[derive(Debug, Default)]
pub(super) struct Patience {
    pub(super) waiting: Option<Waiting>,
    /// Nothing up to this position waits: it is somebody else's, or comes before it.
    hurried_to: i64,
}

/// What of the log a pass left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing, up to where the log is settled.
    None,
    /// What it did not read, or not take.
    Some,
    /// What this firm has no room for; all up to `alone_to` that was not taken is that firm's.
    Waits {
        firm_id: Uuid,
        alone_to: i64,
        /// Up to where the pass has come; none if it took nothing.
        reached: Option<i64>,
    },
}

impl Rest {
    /// Whether the pass took nothing of what it read.
    pub(super) const fn took_nothing(self) -> bool {
        matches!(self, Self::Waits { reached: None, .. })
    }
}

impl Patience {
    /// What may wait of a stretch whose first occurrence is at this position, and so old.
    pub(super) fn allows(&self, (position, age): (i64, TimeDelta), now: Instant) -> Waits {
        if position <= self.hurried_to || age > LONGEST {
            return Waits::Nothing;
        }
        match self.waiting {
            Some(waiting) if now >= waiting.since + PATIENCE => Waits::ButFirst,
            Some(_) | None => Waits::All,
        }
    }

    /// What was seen after what waits, up to that position: where the first of somebody else's is, if there
    /// is one.
    pub(super) fn looked_behind(&mut self, settled: i64, other: Option<i64>) {
        match other {
            Some(position) => (self.hurried_to, self.waiting) = (position, None),
            None => self.waiting.iter_mut().for_each(|waiting| waiting.alone_to = settled),
        }
    }

    /// What waits after a pass that began and ended then.
    pub(super) fn after(&mut self, rest: Rest, (began, ended): (Instant, Instant)) {
        let Rest::Waits { firm_id, alone_to, reached } = rest else {
            self.waiting = None;
            return;
        };
        let before = self.waiting.filter(|before| before.firm_id == firm_id);
        let alone_to = before.map_or(alone_to, |before| before.alone_to.max(alone_to));
        self.waiting = Some(match reached {
            Some(_) => Waiting { firm_id, alone_to, since: ended, next: began + PACE },
            None => {
                let since = before.map_or(ended, |before| before.since);
                let wait = (ended - since).clamp(NO_ROOM, PACE);
                Waiting { firm_id, alone_to, since, next: ended + wait }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRM: Uuid = Uuid::from_u128(1);
    const YOUNG: TimeDelta = TimeDelta::zero();

    fn waits(alone_to: i64, reached: Option<i64>) -> Rest {
        Rest::Waits { firm_id: FIRM, alone_to, reached }
    }

    #[test]
    fn the_next_occurrence_waits_for_a_moment_whatever_else_is_looked_at() {
        let (mut patience, began) = (Patience::default(), Instant::now());
        let after = |time: Duration| began + time;
        assert_eq!(patience.allows((1, YOUNG), began), Waits::All);
        patience.after(waits(9, None), (began, began));
        let next = |patience: &Patience| patience.waiting.map(|waiting| waiting.next);
        assert_eq!(next(&patience), Some(after(NO_ROOM)));
        patience.after(waits(9, None), (after(NO_ROOM), after(2 * NO_ROOM)));
        assert_eq!(next(&patience), Some(after(4 * NO_ROOM)), "as long as it has waited");
        patience.after(waits(9, None), (after(4 * NO_ROOM), after(6 * NO_ROOM)));
        assert_eq!(next(&patience), Some(after(6 * NO_ROOM + PACE)), "or a pace");
        assert_eq!(patience.allows((1, YOUNG), after(PATIENCE - NO_ROOM)), Waits::All);
        assert_eq!(patience.allows((1, YOUNG), after(PATIENCE)), Waits::ButFirst);
        patience.after(waits(9, Some(1)), (after(PATIENCE), after(PATIENCE)));
        assert_eq!(patience.allows((2, YOUNG), after(PATIENCE)), Waits::All, "another is the next");
        patience.after(Rest::None, (began, began));
        assert_eq!(patience.waiting, None);
    }

    #[test]
    fn nothing_waits_for_longer_than_anybody_may() {
        let (patience, now) = (Patience::default(), Instant::now());
        assert_eq!(patience.allows((1, LONGEST), now), Waits::All);
        let over = LONGEST + TimeDelta::milliseconds(1);
        assert_eq!(patience.allows((1, over), now), Waits::Nothing);
    }

    #[test]
    fn nothing_waits_that_somebody_elses_comes_after() {
        let (mut patience, now) = (Patience::default(), Instant::now());
        patience.after(waits(9, Some(3)), (now, now));
        patience.looked_behind(20, None);
        assert_eq!(patience.waiting.map(|waiting| waiting.alone_to), Some(20));
        patience.after(waits(12, Some(5)), (now, now));
        assert_eq!(patience.waiting.map(|waiting| waiting.alone_to), Some(20), "what was seen");
        patience.looked_behind(40, Some(30));
        assert_eq!(patience.waiting, None);
        assert_eq!(patience.allows((30, YOUNG), now), Waits::Nothing);
        assert_eq!(patience.allows((31, YOUNG), now), Waits::All);
        let another = Rest::Waits { firm_id: Uuid::nil(), alone_to: 35, reached: Some(33) };
        patience.after(another, (now, now));
        assert_eq!(patience.waiting.map(|waiting| waiting.alone_to), Some(35));
    }
}
