//! The course of one delivery. The check finds too many attempts and a second end. It also finds an
//! ended delivery in the outbox, and a pending delivery that is not there.

use std::collections::HashMap;

use uuid::Uuid;

use super::fault::DeliveryFault;
use crate::delivery::{
    Attempt, DeliveryEvent, DeliveryOf, DeliveryState, LateEffect, Outcome, RetrySchedule,
};

/// Whether a delivery is in the outbox, and for which purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuedFor {
    /// The delivery is not in the outbox.
    No,
    /// The delivery is queued for its own attempts.
    ForItself,
    /// The delivery is queued for this replay.
    ForReplay(Uuid),
}

/// The first fault of a delivery, if any. `events` are all events of its stream in order. `queued`
/// is the state of the outbox at the same moment.
#[must_use]
pub fn first_fault<'a>(
    events: impl IntoIterator<Item = &'a DeliveryEvent>,
    queued: QueuedFor,
) -> Option<DeliveryFault> {
    let mut course = DeliveryCourse::default();
    let wrong = events.into_iter().find_map(|event| course.take_event(event).err());
    wrong.or_else(|| course.queue_fault(queued))
}

#[derive(Debug, Default)]
struct DeliveryCourse {
    allowed: u32,
    tries: u32,
    successes: u32,
    ended: bool,
    /// Ordered replays, and whether each had its attempt.
    replays: HashMap<Uuid, bool>,
}

impl DeliveryCourse {
    fn take_event(&mut self, event: &DeliveryEvent) -> Result<(), DeliveryFault> {
        match event {
            DeliveryEvent::DeliveryQueued(_) | DeliveryEvent::DeliveryReissued(_) => {
                self.allowed = RetrySchedule::RestHook.tries();
            }
            DeliveryEvent::StepQueued(_) => self.allowed = RetrySchedule::WorkflowStep.tries(),
            DeliveryEvent::StepRetried(retried) => {
                self.allowed = retried.tries + RetrySchedule::WorkflowStep.tries();
                self.ended = false;
            }
            DeliveryEvent::DeliveryReplayed(replayed) => {
                self.replays.insert(replayed.replay_id, false);
            }
            DeliveryEvent::DeliveryAttempted(attempt) => {
                self.begin_listed(attempt.of);
                return self.take_attempt(attempt);
            }
            DeliveryEvent::DeliveryCancelled { of, .. } => {
                self.begin_listed(*of);
                return self.end_once();
            }
        }
        Ok(())
    }

    /// The first event of a listed delivery grants the attempts of a subscription's schedule.
    fn begin_listed(&mut self, of: Option<DeliveryOf>) {
        if of.is_some() {
            self.allowed = RetrySchedule::RestHook.tries();
        }
    }

    fn take_attempt(&mut self, attempt: &Attempt) -> Result<(), DeliveryFault> {
        match (attempt.late, attempt.replay_id) {
            // A late answer without effect is history only (case E21).
            (Some(LateEffect::Noted), _) => return Ok(()),
            (Some(LateEffect::Arrived), _) => {
                return self.count_success().and_then(|()| self.end_once());
            }
            (None, Some(replay_id)) => return self.take_replay(replay_id),
            (None, None) => {}
        }
        if attempt.outcome == Outcome::Delivered {
            self.count_success()?;
        }
        self.tries += 1;
        if self.tries > self.allowed {
            return Err(DeliveryFault::Tries(self.tries, self.allowed));
        }
        if attempt.state_after() == Some(DeliveryState::Pending) {
            return if self.ended { Err(DeliveryFault::AfterTheEnd) } else { Ok(()) };
        }
        self.end_once()
    }

    fn take_replay(&mut self, replay_id: Uuid) -> Result<(), DeliveryFault> {
        match self.replays.insert(replay_id, true) {
            Some(false) => Ok(()),
            Some(true) | None => Err(DeliveryFault::Replay(replay_id)),
        }
    }

    const fn count_success(&mut self) -> Result<(), DeliveryFault> {
        self.successes += 1;
        if self.successes > 1 { Err(DeliveryFault::Successes(self.successes)) } else { Ok(()) }
    }

    const fn end_once(&mut self) -> Result<(), DeliveryFault> {
        if self.ended {
            return Err(DeliveryFault::AfterTheEnd);
        }
        self.ended = true;
        Ok(())
    }

    fn queue_fault(&self, queued: QueuedFor) -> Option<DeliveryFault> {
        match (self.ended, queued) {
            // A replay's attempt is not the delivery's own. After the replay nobody would send it.
            (false, QueuedFor::No | QueuedFor::ForReplay(_)) => Some(DeliveryFault::Lost),
            (true, QueuedFor::ForItself) => Some(DeliveryFault::StillQueued),
            (true, QueuedFor::ForReplay(id)) if !self.awaits_replay(id) => {
                Some(DeliveryFault::StillQueued)
            }
            (false, QueuedFor::ForItself) | (true, QueuedFor::No | QueuedFor::ForReplay(_)) => None,
        }
    }

    /// Whether this replay was ordered and has not had its attempt.
    fn awaits_replay(&self, replay_id: Uuid) -> bool {
        self.replays.get(&replay_id) == Some(&false)
    }
}
