//! Health of hosts, as the attempts of one process show it (ruling 34, pressure).
//!
//! A host that does not answer holds each of its permits until the time limit. So a process halves
//! the host's limit after each round of silence, down to [`PROBES_PER_HOST`], and raises it by one
//! after each round of answers: additive increase, multiplicative decrease.
//!
//! A host that answers other attempts meanwhile is not silent: one URL hangs, and the others there
//! must not wait for it.
//!
//! A limit per host alone does not help against many such hosts. So hosts that are not known to
//! answer promptly share a part of the permits.

use std::time::{Duration, Instant};

/// Attempts that a silent host still gets at a time. Their answers show that the host is back.
pub const PROBES_PER_HOST: usize = 2;

/// An attempt that ends within this time is prompt. It includes the second in which the answer's
/// body is read (ruling 25). A quick failure does not hold a permit for long, and says nothing
/// about silence.
pub const PROMPT_WITHIN: Duration = Duration::from_secs(2);

/// What the last attempt of a process says about a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum HostStanding {
    /// No attempt of this process has ended yet.
    #[default]
    Unknown,
    /// The host answered promptly.
    Responsive,
    /// The host answered late or not at all, or the first attempt to an unknown host is a retry.
    Unresponsive,
}

/// A host's standing, and its limit in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostHealth {
    /// The standing.
    pub standing: HostStanding,
    /// Largest number of attempts of this process in flight to the host.
    pub limit: usize,
    /// Answers since the limit last changed.
    answers: usize,
    /// The limit was lowered at this time and has not been at its ceiling since. Attempts that
    /// began earlier do not lower it again.
    lowered_at: Option<Instant>,
    /// The end of the last attempt with a prompt answer.
    answered_at: Option<Instant>,
}

impl HostHealth {
    /// An unknown host. Its first limit is the limit of one firm.
    #[must_use]
    pub const fn unknown(limit: usize) -> Self {
        Self {
            standing: HostStanding::Unknown,
            limit,
            answers: 0,
            lowered_at: None,
            answered_at: None,
        }
    }

    /// Notes an answer of any status. The limit grows by one for each answer until it was lowered
    /// once, and then by one for each round of answers.
    pub fn note_answer(&mut self, began_at: Instant, ended_at: Instant, ceiling: usize) {
        if ended_at.saturating_duration_since(began_at) <= PROMPT_WITHIN {
            self.standing = HostStanding::Responsive;
            self.answered_at = Some(ended_at);
        } else if self.answered_at.is_none_or(|answered_at| answered_at < began_at) {
            self.standing = HostStanding::Unresponsive;
        }
        self.answers += 1;
        if self.lowered_at.is_none() || self.answers >= self.limit {
            self.answers = 0;
            self.limit += 1;
        }
        if self.limit >= ceiling {
            self.limit = ceiling;
            self.lowered_at = None;
        }
    }

    /// Notes an attempt without an answer, unless the host has answered another attempt promptly
    /// since this one began. The attempts of one round lower the limit once.
    pub fn note_silence(&mut self, began_at: Instant, ended_at: Instant) {
        if ended_at.saturating_duration_since(began_at) <= PROMPT_WITHIN
            || self.answered_at.is_some_and(|answered_at| answered_at >= began_at)
        {
            return;
        }
        self.standing = HostStanding::Unresponsive;
        if self.lowered_at.is_none_or(|lowered_at| began_at >= lowered_at) {
            self.lowered_at = Some(ended_at);
            self.answers = 0;
            self.limit = (self.limit / 2).max(PROBES_PER_HOST).min(self.limit);
        }
    }

    /// Notes that a retry goes to the host. The attempt before it failed, and this process does
    /// not know whether the host answered it.
    pub fn note_retry(&mut self) {
        if self.standing == HostStanding::Unknown {
            self.standing = HostStanding::Unresponsive;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_halves_the_limit_once_a_round() {
        let begin = Instant::now();
        let mut host = HostHealth::unknown(32);
        let mut round = |from: u32, to: u32| {
            for _ in 0..9 {
                host.note_silence(begin + SECOND * from, begin + SECOND * to);
            }
            (host.standing, host.limit)
        };
        let limits = [(0, 10), (0, 10), (10, 20), (20, 30), (30, 40), (40, 50)]
            .map(|(from, to)| round(from, to));
        assert_eq!(limits.map(|(_, limit)| limit), [16, 16, 8, 4, 2, 2]);
        assert!(limits.iter().all(|(standing, _)| *standing == HostStanding::Unresponsive));
    }

    #[test]
    fn a_limit_below_the_probes_stays() {
        let begin = Instant::now();
        let mut host = HostHealth::unknown(1);
        host.note_silence(begin, begin + SECOND * 10);
        assert_eq!(host.limit, 1);
    }

    #[test]
    fn answers_raise_the_limit_once_a_round() {
        let begin = Instant::now();
        let mut host = HostHealth::unknown(4);
        host.note_answer(begin, begin, 6);
        assert_eq!((host.standing, host.limit), (HostStanding::Responsive, 5), "never lowered");
        host.note_silence(begin + SECOND, begin + SECOND * 11);
        assert_eq!(host.limit, 2);
        let mut limits = Vec::new();
        for _ in 0..15 {
            host.note_answer(begin + SECOND * 12, begin + SECOND * 12, 6);
            limits.push(host.limit);
        }
        assert_eq!(limits, [2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 6, 6]);
    }

    #[test]
    fn late_answers_and_quick_failures_keep_limits() {
        let begin = Instant::now();
        let mut host = HostHealth::unknown(4);
        host.note_silence(begin, begin + SECOND);
        assert_eq!(host, HostHealth::unknown(4), "a refused connection is no silence");
        host.note_answer(begin, begin + SECOND * 9, 4);
        assert_eq!((host.standing, host.limit), (HostStanding::Unresponsive, 4));
        host.note_answer(begin, begin + SECOND, 4);
        assert_eq!(host.standing, HostStanding::Responsive);
        host.note_retry();
        assert_eq!(host.standing, HostStanding::Responsive);
    }

    /// One firm's URL hangs on a platform that many firms use.
    #[test]
    fn a_host_answering_others_is_not_silent() {
        let begin = Instant::now();
        let mut host = HostHealth::unknown(4);
        host.note_answer(begin + SECOND * 5, begin + SECOND * 5, 4);
        host.note_silence(begin, begin + SECOND * 10);
        host.note_answer(begin, begin + SECOND * 9, 4);
        assert_eq!((host.standing, host.limit), (HostStanding::Responsive, 4));
        host.note_silence(begin + SECOND * 6, begin + SECOND * 16);
        assert_eq!((host.standing, host.limit), (HostStanding::Unresponsive, 2));
    }

    #[test]
    fn a_retry_makes_an_unknown_host_unresponsive() {
        let mut host = HostHealth::unknown(4);
        host.note_retry();
        assert_eq!((host.standing, host.limit), (HostStanding::Unresponsive, 4));
    }
}
