//! Episodes of a subscription: from the first failure to the next success or the removal. Each
//! notice of an episode is due once (ruling 49).

use uuid::Uuid;

use super::facts::{NoticeAnswer, NoticeFacts, NoticeKind};
use crate::delivery::receiver::{FAILING_AFTER, is_failing, tells_of_receiver};
use crate::delivery::{Attempt, Outcome};
use crate::subscription::{GoneAnswer, RemovalReason};
use crate::values::Timestamp;

/// The episode of one subscription. A subscription without failures since its last success has the
/// default.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HookEpisode {
    /// End of the first failure since the last success.
    pub failing_since: Option<Timestamp>,
    /// Failures since the last success.
    pub failures: i64,
    /// The last failure.
    pub last: Option<NoticeAnswer>,
    /// Whether a notice of the first 410 was due.
    pub is_warned: bool,
    /// Whether a notice of the failing target was due.
    pub is_failing: bool,
}

/// The next fact about a subscription, in the order of the log.
#[derive(Debug, Clone, Copy)]
pub enum EpisodeTurn<'a> {
    /// An attempt of this delivery was answered.
    Attempted(Uuid, &'a Attempt),
    /// A delivery ended with 410.
    Gone(&'a GoneAnswer),
    /// A success before the last 410s became known.
    Answered(Timestamp),
    /// The subscription was removed.
    Removed(Removal<'a>),
}

/// A removal, with the 410s that it follows from.
#[derive(Debug, Clone, Copy)]
pub struct Removal<'a> {
    /// The reason.
    pub reason: RemovalReason,
    /// The 410s.
    pub evidence: &'a [GoneAnswer],
    /// The time.
    pub at: Timestamp,
}

impl HookEpisode {
    /// Whether nothing has failed since the last success.
    #[must_use]
    pub fn is_over(&self) -> bool {
        *self == Self::default()
    }

    /// The time at which the subscription is failing if nothing more happens. `None` if a notice
    /// said so, or if there were too few failures.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        let since = self.failing_since?.get();
        let at = since + FAILING_AFTER;
        (!self.is_failing && is_failing(Some(since), self.failures, at)).then(|| at.into())
    }

    /// Takes the next fact, and returns the notice that is due now.
    pub fn take_turn(&mut self, hook_id: Uuid, turn: EpisodeTurn<'_>) -> Option<NoticeFacts> {
        match turn {
            EpisodeTurn::Attempted(delivery_id, attempt) => {
                self.take_attempt(hook_id, delivery_id, attempt)
            }
            EpisodeTurn::Gone(answer) => self.take_gone(hook_id, answer),
            EpisodeTurn::Answered(at) => self.take_success(hook_id, at),
            EpisodeTurn::Removed(removal) => self.take_removal(hook_id, removal),
        }
    }

    /// Takes the passing of time, and returns the notice that is due now.
    pub fn pass_time(&mut self, hook_id: Uuid, now: Timestamp) -> Option<NoticeFacts> {
        let at = self.due_at().filter(|at| *at <= now)?;
        self.is_failing = true;
        Some(self.notice_facts(NoticeKind::Failing, hook_id, at))
    }

    fn take_attempt(
        &mut self,
        hook_id: Uuid,
        delivery_id: Uuid,
        attempt: &Attempt,
    ) -> Option<NoticeFacts> {
        if !tells_of_receiver(attempt) {
            return None;
        }
        if attempt.outcome == Outcome::Delivered {
            // The log may have a success after a failure that ended later (ruling 26).
            let is_older = |last: &NoticeAnswer| last.finished_at > attempt.finished_at;
            if self.last.as_ref().is_some_and(is_older) {
                return None;
            }
            return self.take_success(hook_id, attempt.finished_at);
        }
        // A replay's failure changes nothing (ruling 31). Neither does a failure of a subscription
        // that was removed meanwhile.
        if attempt.replay_id.is_some() || attempt.cancelled.is_some() {
            return None;
        }
        self.failing_since.get_or_insert(attempt.finished_at);
        self.failures += 1;
        self.keep_failure(NoticeAnswer {
            delivery_id,
            status: attempt.status,
            error: attempt.error.clone(),
            finished_at: attempt.finished_at,
        });
        self.pass_time(hook_id, attempt.finished_at)
    }

    /// Keeps the failure that ended last.
    fn keep_failure(&mut self, answer: NoticeAnswer) {
        let is_newer = |last: &NoticeAnswer| last.finished_at <= answer.finished_at;
        if self.last.as_ref().is_none_or(is_newer) {
            self.last = Some(answer);
        }
    }

    fn take_gone(&mut self, hook_id: Uuid, answer: &GoneAnswer) -> Option<NoticeFacts> {
        self.keep_failure(answer.into());
        if self.is_warned {
            return None;
        }
        self.is_warned = true;
        let facts = self.notice_facts(NoticeKind::Warned, hook_id, answer.finished_at);
        Some(NoticeFacts { answers: vec![answer.into()], ..facts })
    }

    fn take_success(&mut self, hook_id: Uuid, at: Timestamp) -> Option<NoticeFacts> {
        let ended = std::mem::take(self);
        let was_told = ended.is_warned || ended.is_failing;
        was_told.then(|| ended.notice_facts(NoticeKind::Recovered, hook_id, at))
    }

    /// A subscription that goes along with its key or its firm has no notice of its own.
    fn take_removal(&mut self, hook_id: Uuid, removal: Removal<'_>) -> Option<NoticeFacts> {
        let ended = std::mem::take(self);
        let reason = match removal.reason {
            RemovalReason::DeletedByKey => "deleted_by_key",
            RemovalReason::TargetGone => "target_gone",
            RemovalReason::KeyRevoked | RemovalReason::FirmClosed => return None,
        };
        let facts = ended.notice_facts(NoticeKind::Removed, hook_id, removal.at);
        let answers = removal.evidence.iter().map(NoticeAnswer::from).collect();
        Some(NoticeFacts { reason: Some(reason.to_owned()), answers, ..facts })
    }

    fn notice_facts(&self, kind: NoticeKind, hook_id: Uuid, happened_at: Timestamp) -> NoticeFacts {
        NoticeFacts {
            kind,
            subject_id: hook_id,
            happened_at,
            reason: None,
            failing_since: self.failing_since,
            failures: self.failures,
            answers: self.last.iter().cloned().collect(),
        }
    }
}

impl From<&GoneAnswer> for NoticeAnswer {
    fn from(answer: &GoneAnswer) -> Self {
        Self {
            delivery_id: answer.delivery_id,
            status: Some(answer.status),
            error: None,
            finished_at: answer.finished_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::{CancelCause, LateEffect};
    use chrono::TimeDelta;

    const HOOK: Uuid = Uuid::from_u128(1);
    const DELIVERY: Uuid = Uuid::from_u128(2);

    fn noon(minutes: i64) -> Timestamp {
        let noon: Timestamp = "2026-11-01T12:00:00.000Z".parse().unwrap();
        (noon.get() + TimeDelta::minutes(minutes)).into()
    }

    fn attempt(minutes: i64, outcome: Outcome) -> Attempt {
        let status = if outcome == Outcome::Delivered { 200 } else { 503 };
        let interrupted = Attempt::interrupted(1, noon(minutes), noon(minutes));
        Attempt { outcome, status: Some(status), error: None, ..interrupted }
    }

    fn kinds(episode: &mut HookEpisode, attempts: &[Attempt]) -> Vec<NoticeKind> {
        attempts
            .iter()
            .filter_map(|one| episode.take_turn(HOOK, EpisodeTurn::Attempted(DELIVERY, one)))
            .map(|facts| facts.kind)
            .collect()
    }

    fn gone(minutes: i64) -> GoneAnswer {
        GoneAnswer { delivery_id: DELIVERY, status: 410, finished_at: noon(minutes) }
    }

    /// The next success makes one more.
    #[test]
    fn a_thousand_failures_make_one_notice() {
        let mut episode = HookEpisode::default();
        let failures: Vec<Attempt> = (0..1_000).map(|n| attempt(n * 10, Outcome::Retry)).collect();
        assert_eq!(kinds(&mut episode, &failures), [NoticeKind::Failing]);
        assert_eq!(episode.failures, 1_000);
        let success = attempt(10_000, Outcome::Delivered);
        assert_eq!(kinds(&mut episode, &[success.clone(), success]), [NoticeKind::Recovered]);
        assert!(episode.is_over());
    }

    /// No further attempt is needed.
    #[test]
    fn ten_failures_are_told_after_a_day() {
        let mut episode = HookEpisode::default();
        let nine: Vec<Attempt> = (0..9).map(|n| attempt(n, Outcome::Retry)).collect();
        assert_eq!(kinds(&mut episode, &nine), []);
        assert_eq!(episode.due_at(), None);
        assert_eq!(kinds(&mut episode, &[attempt(9, Outcome::Failed)]), []);
        let day = 24 * 60;
        assert_eq!(episode.due_at(), Some(noon(day)));
        assert_eq!(episode.pass_time(HOOK, noon(day - 1)), None);
        let told = episode.pass_time(HOOK, noon(day)).unwrap();
        assert_eq!((told.kind, told.failures), (NoticeKind::Failing, 10));
        assert_eq!(told.failing_since, Some(noon(0)));
        assert_eq!(told.answers[0].status, Some(503));
        assert_eq!(episode.pass_time(HOOK, noon(day + 1)), None);
    }

    /// Nine failures make no notice in days either, nor does the success after them.
    #[test]
    fn nine_failures_make_no_notice() {
        let mut episode = HookEpisode::default();
        let few: Vec<Attempt> = (0..9).map(|n| attempt(n * 600, Outcome::Retry)).collect();
        assert_eq!(kinds(&mut episode, &few), []);
        assert_eq!(kinds(&mut episode, &[attempt(6_000, Outcome::Delivered)]), []);
        assert!(episode.is_over());
    }

    /// The notice of the removal has both answers.
    #[test]
    fn d9_a_410_warns_and_two_remove() {
        let mut episode = HookEpisode::default();
        let both = [gone(1), gone(2)];
        let warned = episode.take_turn(HOOK, EpisodeTurn::Gone(&both[0])).unwrap();
        assert_eq!((warned.kind, warned.answers), (NoticeKind::Warned, vec![(&both[0]).into()]));
        assert_eq!(episode.take_turn(HOOK, EpisodeTurn::Gone(&both[1])), None);
        let reason = RemovalReason::TargetGone;
        let removal = Removal { reason, evidence: &both, at: noon(2) };
        let removed = episode.take_turn(HOOK, EpisodeTurn::Removed(removal)).unwrap();
        assert_eq!((removed.kind, removed.answers.len()), (NoticeKind::Removed, 2));
        assert_eq!(removed.reason.as_deref(), Some("target_gone"));
    }

    #[test]
    fn removal_with_key_or_firm_is_silent() {
        for reason in [RemovalReason::KeyRevoked, RemovalReason::FirmClosed] {
            let removal = Removal { reason, evidence: &[], at: noon(0) };
            let turn = EpisodeTurn::Removed(removal);
            assert_eq!(HookEpisode::default().take_turn(HOOK, turn), None, "{reason:?}");
        }
    }

    /// An interrupted, late, replayed or withdrawn attempt says nothing about the receiver.
    #[test]
    fn attempts_that_say_nothing_do_not_count() {
        let interrupted = Attempt::interrupted(1, noon(0), noon(0));
        let late = Attempt { late: Some(LateEffect::Noted), ..attempt(0, Outcome::Retry) };
        let replay = Attempt { replay_id: Some(HOOK), ..attempt(0, Outcome::Failed) };
        let cancelled = Some(CancelCause::SubscriptionDeleted);
        let withdrawn = Attempt { cancelled, ..attempt(0, Outcome::Failed) };
        let mut episode = HookEpisode::default();
        assert_eq!(kinds(&mut episode, &[interrupted, late, replay, withdrawn]), []);
        assert!(episode.is_over());
    }

    /// A success that ended before a 410 and was recorded after it ended the episode.
    #[test]
    fn d9_an_earlier_success_keeps_the_episode() {
        let mut episode = HookEpisode::default();
        let warned = episode.take_turn(HOOK, EpisodeTurn::Gone(&gone(2))).unwrap();
        assert_eq!(warned.kind, NoticeKind::Warned);
        assert_eq!(kinds(&mut episode, &[attempt(1, Outcome::Delivered)]), []);
        assert_eq!(episode.take_turn(HOOK, EpisodeTurn::Gone(&gone(3))), None);
        let failures: Vec<Attempt> = (4..14).map(|n| attempt(n, Outcome::Retry)).collect();
        assert_eq!(kinds(&mut episode, &failures), []);
        assert_eq!(kinds(&mut episode, &[attempt(12, Outcome::Delivered)]), []);
        assert_eq!(episode.failures, 10);
        assert_eq!(
            kinds(&mut episode, &[attempt(13, Outcome::Delivered)]),
            [NoticeKind::Recovered]
        );
    }

    #[test]
    fn d9_after_a_success_410_warns_again() {
        let mut episode = HookEpisode::default();
        episode.take_turn(HOOK, EpisodeTurn::Gone(&gone(1)));
        let recovered = episode.take_turn(HOOK, EpisodeTurn::Answered(noon(2))).unwrap();
        assert_eq!(recovered.kind, NoticeKind::Recovered);
        let warned = episode.take_turn(HOOK, EpisodeTurn::Gone(&gone(3))).unwrap();
        assert_eq!(warned.kind, NoticeKind::Warned);
    }
}
