//! Replays: ended deliveries are sent once more, under their ids and with their bytes (ruling 31).
//! Each replay has one stream with the order, its reason, its actor and its course.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::history::DeliveryState;
use crate::aggregate::{aggregate, domain_event};
use crate::subscription::Trigger;
use crate::values::Timestamp;

/// Deliveries per second, unless the order has another rate.
pub const RATE_PER_SECOND_DEFAULT: u32 = 50;

/// Highest rate that an order can have.
pub const RATE_PER_SECOND_MAX: u32 = 5_000;

/// Longest reason, in characters.
pub const REASON_MAX_CHARS: usize = 200;

/// Aggregate of one replay. Each replay has a stream of its own.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    state: Option<ReplayState>,
}

/// State of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayState {
    /// The replay queues deliveries at its rate.
    Running,
    /// The replay queues nothing until it is resumed.
    Paused,
    /// An operator stopped the replay.
    Stopped,
    /// All selected deliveries were queued or skipped.
    Finished,
}

/// Selection of a firm's deliveries. All given conditions apply.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaySelection {
    /// Only these deliveries. An empty list selects by the other conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delivery_ids: Vec<Uuid>,
    /// Only deliveries of this subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_id: Option<Uuid>,
    /// Only deliveries of this trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// Only deliveries about this form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form_id: Option<Uuid>,
    /// Only deliveries in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeliveryState>,
    /// Only deliveries queued at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only deliveries queued before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// Order of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayOrder {
    /// The selection.
    pub selection: ReplaySelection,
    /// The operator's reason.
    pub reason: String,
    /// Whether delivered deliveries are sent again too.
    pub force: bool,
    /// Deliveries per second.
    pub rate_per_second: u32,
    /// Number of selected deliveries.
    pub selected: u64,
}

/// Command on a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayCommand {
    /// Begins the replay.
    Request(ReplayOrder),
    /// Pauses the replay.
    Pause,
    /// Resumes the replay.
    Resume,
    /// Stops the replay for good.
    Stop {
        /// The operator's reason, if one was given.
        reason: Option<String>,
    },
    /// Ends the replay, because no selected delivery is left.
    Finish {
        /// Number of queued deliveries.
        queued: u64,
        /// Number of skipped deliveries.
        skipped: u64,
    },
}

/// Event of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ReplayEvent {
    /// The replay was ordered.
    ReplayRequested(ReplayOrder),
    /// The replay was paused.
    ReplayPaused {},
    /// The replay was resumed.
    ReplayResumed {},
    /// An operator stopped the replay.
    ReplayStopped {
        /// The operator's reason, if one was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The replay is complete.
    ReplayFinished {
        /// Number of queued deliveries.
        queued: u64,
        /// Number of skipped deliveries.
        skipped: u64,
    },
}

domain_event!(ReplayEvent {
    ReplayRequested,
    ReplayPaused,
    ReplayResumed,
    ReplayStopped,
    ReplayFinished,
});
aggregate!(Replay, ReplayCommand, ReplayEvent, ReplayRejection);

/// Why a command on a replay was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayRejection {
    /// No such replay exists.
    #[error("there is no such replay")]
    Unknown,
    /// The replay was stopped or is complete.
    #[error("the replay has ended")]
    Ended,
}

impl ReplayState {
    /// The state's word in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Finished => "finished",
        }
    }

    /// Whether the replay has ended.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Stopped | Self::Finished)
    }
}

impl Replay {
    /// Decides on the events that follow from a command. A command for the present state has none.
    ///
    /// # Errors
    /// [`ReplayRejection`] says why the command is refused.
    pub fn decide(&self, command: &ReplayCommand) -> Result<Vec<ReplayEvent>, ReplayRejection> {
        let state = match (command, self.state) {
            (ReplayCommand::Request(order), None) => {
                return Ok(vec![ReplayEvent::ReplayRequested(order.clone())]);
            }
            (ReplayCommand::Request(_), Some(_)) => return Ok(Vec::new()),
            (_, None) => return Err(ReplayRejection::Unknown),
            (_, Some(state)) => state,
        };
        let event = match (command, state) {
            (ReplayCommand::Pause, ReplayState::Running) => ReplayEvent::ReplayPaused {},
            (ReplayCommand::Resume, ReplayState::Paused) => ReplayEvent::ReplayResumed {},
            (ReplayCommand::Pause, ReplayState::Paused)
            | (ReplayCommand::Resume, ReplayState::Running)
            | (ReplayCommand::Stop { .. }, ReplayState::Stopped) => return Ok(Vec::new()),
            (_, state) if state.has_ended() => return Err(ReplayRejection::Ended),
            (ReplayCommand::Stop { reason }, _) => {
                ReplayEvent::ReplayStopped { reason: reason.clone() }
            }
            (ReplayCommand::Finish { queued, skipped }, _) => {
                ReplayEvent::ReplayFinished { queued: *queued, skipped: *skipped }
            }
            (ReplayCommand::Request(_) | ReplayCommand::Pause | ReplayCommand::Resume, _) => {
                return Ok(Vec::new());
            }
        };
        Ok(vec![event])
    }

    fn absorb(&mut self, event: &ReplayEvent) {
        self.state = Some(match event {
            ReplayEvent::ReplayRequested(_) | ReplayEvent::ReplayResumed {} => ReplayState::Running,
            ReplayEvent::ReplayPaused {} => ReplayState::Paused,
            ReplayEvent::ReplayStopped { .. } => ReplayState::Stopped,
            ReplayEvent::ReplayFinished { .. } => ReplayState::Finished,
        });
    }
}

/// Why a selected delivery is not sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplaySkip {
    /// The delivery has not ended, so it is sent anyway.
    Pending,
    /// The delivery was delivered, and the order has no `force`.
    Delivered,
    /// The delivery was cancelled.
    Cancelled,
    /// Another replay of the delivery is under way.
    Replaying,
    /// The delivery's subscription was removed.
    HookRemoved,
    /// The response of the occurrence was erased.
    SourceErased,
    /// The bytes of the delivery are not kept any more.
    BodyPurged,
    /// The order names the delivery, but it is no delivery of a subscription of the firm, or
    /// another condition excludes it.
    NotSelected,
}

impl ReplaySkip {
    /// The skip reason's word in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Cancelled => "cancelled",
            Self::Replaying => "replaying",
            Self::HookRemoved => "hook_removed",
            Self::SourceErased => "source_erased",
            Self::BodyPurged => "body_purged",
            Self::NotSelected => "not_selected",
        }
    }
}

/// State of a delivery that decides whether it is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct ReplayConditions {
    /// State of the delivery.
    pub state: DeliveryState,
    /// Whether the outbox has the delivery, for its own attempts or for another replay.
    pub under_way: bool,
    /// Whether the subscription is live.
    pub hook_lives: bool,
    /// Whether the response of the occurrence was erased.
    pub erased: bool,
    /// Whether the bytes are kept.
    pub body_kept: bool,
}

/// Why the delivery is not sent again. `None` if it is sent (ruling 31).
#[must_use]
pub const fn skip_reason(standing: ReplayConditions) -> Option<ReplaySkip> {
    match standing.state {
        DeliveryState::Delivered => Some(ReplaySkip::Delivered),
        DeliveryState::Pending | DeliveryState::Cancelled | DeliveryState::Failed => {
            forced_skip_reason(standing)
        }
    }
}

/// Why the delivery is not sent again, if the order sends delivered deliveries again too.
#[must_use]
pub const fn forced_skip_reason(standing: ReplayConditions) -> Option<ReplaySkip> {
    match standing.state {
        DeliveryState::Pending => Some(ReplaySkip::Pending),
        DeliveryState::Cancelled => Some(ReplaySkip::Cancelled),
        DeliveryState::Delivered | DeliveryState::Failed => {
            if standing.under_way {
                Some(ReplaySkip::Replaying)
            } else if standing.erased {
                Some(ReplaySkip::SourceErased)
            } else if !standing.hook_lives {
                Some(ReplaySkip::HookRemoved)
            } else if !standing.body_kept {
                Some(ReplaySkip::BodyPurged)
            } else {
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    fn order() -> ReplayOrder {
        ReplayOrder {
            selection: ReplaySelection {
                state: Some(DeliveryState::Failed),
                ..ReplaySelection::default()
            },
            reason: "the receiver was down".into(),
            force: false,
            rate_per_second: RATE_PER_SECOND_DEFAULT,
            selected: 3,
        }
    }

    fn requested() -> ReplayEvent {
        ReplayEvent::ReplayRequested(order())
    }

    #[test]
    fn a_replay_pauses_resumes_and_ends_once() {
        let given = |events: Vec<ReplayEvent>| TestFramework::<Replay>::with(()).given(events);
        let request = ReplayCommand::Request(order());
        given(vec![]).when(request.clone()).then_expect_events(vec![requested()]);
        given(vec![requested()]).when(request).then_expect_events(vec![]);
        let paused = ReplayEvent::ReplayPaused {};
        given(vec![requested()])
            .when(ReplayCommand::Pause)
            .then_expect_events(vec![paused.clone()]);
        given(vec![requested(), paused.clone()])
            .when(ReplayCommand::Pause)
            .then_expect_events(vec![]);
        given(vec![requested(), paused.clone()])
            .when(ReplayCommand::Resume)
            .then_expect_events(vec![ReplayEvent::ReplayResumed {}]);
        let stop = ReplayCommand::Stop { reason: Some("the wrong firm".into()) };
        let stopped = ReplayEvent::ReplayStopped { reason: Some("the wrong firm".into()) };
        given(vec![requested(), paused])
            .when(stop.clone())
            .then_expect_events(vec![stopped.clone()]);
        given(vec![requested(), stopped.clone()]).when(stop).then_expect_events(vec![]);
        for command in [
            ReplayCommand::Pause,
            ReplayCommand::Resume,
            ReplayCommand::Finish { queued: 1, skipped: 0 },
        ] {
            given(vec![requested(), stopped.clone()])
                .when(command.clone())
                .then_expect_error(ReplayRejection::Ended);
            given(vec![]).when(command).then_expect_error(ReplayRejection::Unknown);
        }
    }

    /// Stored events without a reason are read and written as before.
    #[test]
    fn an_end_without_reason_keeps_its_shape() {
        let stored = serde_json::json!({"ReplayStopped": {}});
        let event = ReplayEvent::ReplayStopped { reason: None };
        assert_eq!(serde_json::to_value(&event).unwrap(), stored);
        assert_eq!(serde_json::from_value::<ReplayEvent>(stored).unwrap(), event);
    }

    /// A forced replay also takes a delivered one. Both skip a delivery that cannot be sent.
    #[test]
    fn g9_only_a_failed_delivery_is_replayed() {
        let failed = ReplayConditions {
            state: DeliveryState::Failed,
            under_way: false,
            hook_lives: true,
            erased: false,
            body_kept: true,
        };
        let of = |state| ReplayConditions { state, ..failed };
        assert_eq!(skip_reason(failed), None);
        assert_eq!(skip_reason(of(DeliveryState::Delivered)), Some(ReplaySkip::Delivered));
        assert_eq!(forced_skip_reason(of(DeliveryState::Delivered)), None);
        for reason in [skip_reason, forced_skip_reason] {
            assert_eq!(reason(of(DeliveryState::Pending)), Some(ReplaySkip::Pending));
            assert_eq!(reason(of(DeliveryState::Cancelled)), Some(ReplaySkip::Cancelled));
            let under_way = ReplayConditions { under_way: true, ..failed };
            assert_eq!(reason(under_way), Some(ReplaySkip::Replaying));
            let removed = ReplayConditions { hook_lives: false, ..failed };
            assert_eq!(reason(removed), Some(ReplaySkip::HookRemoved));
            let erased = ReplayConditions { erased: true, hook_lives: false, ..failed };
            assert_eq!(reason(erased), Some(ReplaySkip::SourceErased));
            let purged = ReplayConditions { body_kept: false, ..failed };
            assert_eq!(reason(purged), Some(ReplaySkip::BodyPurged));
        }
    }
}
