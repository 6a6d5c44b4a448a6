//! Replays: deliveries that have ended are sent once more, under the same ids and with the same bytes
//! (ruling 31). One stream per replay: what was asked for, by whom and why, and how it went.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::delivery::DeliveryState;
use crate::event::{aggregate, domain_event};
use crate::time::Timestamp;
use crate::trigger::Trigger;

/// Deliveries a second, unless another rate is asked for.
pub const RATE_PER_SECOND_DEFAULT: u32 = 50;

/// The highest rate that can be asked for.
pub const RATE_PER_SECOND_MAX: u32 = 5_000;

/// The most characters of a reason.
pub const REASON_MAX_CHARS: usize = 200;

/// One stream per replay.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    state: Option<ReplayState>,
}

/// Where a replay stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayState {
    /// It queues deliveries, as fast as its rate allows.
    Running,
    /// It queues none until it is resumed.
    Paused,
    /// It was ended by hand.
    Stopped,
    /// All that was selected was queued or skipped.
    Finished,
}

/// Which deliveries of a firm.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaySelection {
    /// These.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delivery_ids: Vec<Uuid>,
    /// Those of a subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_id: Option<Uuid>,
    /// Those of a trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// Those about a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form_id: Option<Uuid>,
    /// Those that stand so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeliveryState>,
    /// Those queued then or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Those queued before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayOrder {
    /// Which deliveries.
    pub selection: ReplaySelection,
    /// Why.
    pub reason: String,
    /// Those that were delivered too.
    pub force: bool,
    /// How many a second.
    pub rate_per_second: u32,
    /// How many they are.
    pub selected: u64,
}

/// What can be asked of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayCommand {
    /// Begin it.
    Request(ReplayOrder),
    /// Hold it.
    Pause,
    /// Go on.
    Resume,
    /// End it by hand.
    Stop,
    /// Nothing is left of it.
    Finish {
        /// How many were queued.
        queued: u64,
        /// How many were skipped.
        skipped: u64,
    },
}

/// What happened to a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ReplayEvent {
    /// It was asked for.
    ReplayRequested(ReplayOrder),
    /// It was held.
    ReplayPaused {},
    /// It goes on.
    ReplayResumed {},
    /// It was ended by hand.
    ReplayStopped {},
    /// It is done.
    ReplayFinished {
        /// How many were queued.
        queued: u64,
        /// How many were skipped.
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
    /// No such replay.
    #[error("there is no such replay")]
    Unknown,
    /// It was stopped, or is done.
    #[error("the replay has ended")]
    Ended,
}

impl ReplayState {
    /// The word in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Finished => "finished",
        }
    }

    /// Whether nothing more can happen to it.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Stopped | Self::Finished)
    }
}

impl Replay {
    /// Decides what a command leads to; what is so already leads to nothing.
    ///
    /// # Errors
    /// [`ReplayRejection`] says why nothing happens.
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
            | (ReplayCommand::Stop, ReplayState::Stopped) => return Ok(Vec::new()),
            (_, state) if state.has_ended() => return Err(ReplayRejection::Ended),
            (ReplayCommand::Stop, _) => ReplayEvent::ReplayStopped {},
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
            ReplayEvent::ReplayStopped {} => ReplayState::Stopped,
            ReplayEvent::ReplayFinished { .. } => ReplayState::Finished,
        });
    }
}

/// Why a delivery that was selected is not sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplaySkip {
    /// It has not ended: it is sent anyway.
    Pending,
    /// It was delivered, and that was not asked for.
    Delivered,
    /// It was taken back.
    Cancelled,
    /// Another replay of it is under way.
    Replaying,
    /// Its subscription was removed.
    HookRemoved,
    /// What it told of was erased.
    SourceErased,
    /// What it sent is not kept any more.
    BodyPurged,
    /// It was named, and is no delivery of a subscription of the firm, or not as was asked for.
    NotSelected,
}

impl ReplaySkip {
    /// The word in the API.
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

/// What decides whether a delivery is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct ReplayConditions {
    /// Where it stands.
    pub state: DeliveryState,
    /// Whether it is in the outbox: under way, or in another replay.
    pub under_way: bool,
    /// Whether its subscription lives.
    pub hook_lives: bool,
    /// Whether what it tells of was erased.
    pub erased: bool,
    /// Whether the bytes it sent are there.
    pub body_kept: bool,
}

/// Why it is not sent again, if it is not (ruling 31).
#[must_use]
pub const fn skip_reason(standing: ReplayConditions, force: bool) -> Option<ReplaySkip> {
    match standing.state {
        DeliveryState::Pending => Some(ReplaySkip::Pending),
        DeliveryState::Cancelled => Some(ReplaySkip::Cancelled),
        DeliveryState::Delivered if !force => Some(ReplaySkip::Delivered),
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
    fn it_runs_pauses_goes_on_and_ends_once() {
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
        let stopped = ReplayEvent::ReplayStopped {};
        given(vec![requested(), paused])
            .when(ReplayCommand::Stop)
            .then_expect_events(vec![stopped.clone()]);
        given(vec![requested(), stopped.clone()])
            .when(ReplayCommand::Stop)
            .then_expect_events(vec![]);
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

    #[test]
    fn g9_what_has_not_ended_was_delivered_or_cannot_be_sent_is_skipped() {
        let failed = ReplayConditions {
            state: DeliveryState::Failed,
            under_way: false,
            hook_lives: true,
            erased: false,
            body_kept: true,
        };
        let of = |state| ReplayConditions { state, ..failed };
        assert_eq!(skip_reason(failed, false), None);
        assert_eq!(skip_reason(of(DeliveryState::Delivered), false), Some(ReplaySkip::Delivered));
        assert_eq!(skip_reason(of(DeliveryState::Delivered), true), None);
        for force in [false, true] {
            assert_eq!(skip_reason(of(DeliveryState::Pending), force), Some(ReplaySkip::Pending));
            assert_eq!(
                skip_reason(of(DeliveryState::Cancelled), force),
                Some(ReplaySkip::Cancelled)
            );
            let under_way = ReplayConditions { under_way: true, ..failed };
            assert_eq!(skip_reason(under_way, force), Some(ReplaySkip::Replaying));
            let removed = ReplayConditions { hook_lives: false, ..failed };
            assert_eq!(skip_reason(removed, force), Some(ReplaySkip::HookRemoved));
            let erased = ReplayConditions { erased: true, hook_lives: false, ..failed };
            assert_eq!(skip_reason(erased, force), Some(ReplaySkip::SourceErased));
            let purged = ReplayConditions { body_kept: false, ..failed };
            assert_eq!(skip_reason(purged, force), Some(ReplaySkip::BodyPurged));
        }
    }
}
