//! The life of a REST-hook subscription, from `POST /hooks` to its removal (contract, sections Hook
//! and States; rulings 26 and 29).

mod address;
mod target;
mod target_test;
mod trigger;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::aggregate::{aggregate, domain_event};
use crate::values::Timestamp;

pub use address::{AllowedTargets, is_public_address};
pub use target::{
    TARGET_MAX_CHARS, Target, TargetHost, TargetRefusal, host_of, origin_of, shown_target,
    shown_with_path,
};
pub use target_test::{OrderedTest, TargetTest, TargetTestCommand, TargetTestEvent};
pub use trigger::{FirmPlan, Trigger, UnknownTrigger};

/// Aggregate of one subscription. Each subscription has a stream of its own.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    life: SubscriptionState,
    /// The 410s since the last success, in the order of their ends.
    gone: Vec<GoneAnswer>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum SubscriptionState {
    #[default]
    Unknown,
    Live,
    Removed,
}

/// A delivery that ended with 410 Gone. Two in a row are the evidence for a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoneAnswer {
    /// The delivery.
    pub delivery_id: Uuid,
    /// Final status of the delivery.
    pub status: u16,
    /// End of the last attempt.
    pub finished_at: Timestamp,
}

/// Command on a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionCommand {
    /// Creates the subscription.
    Create {
        /// The key that creates the subscription and alone sees it.
        key_id: Uuid,
        /// The trigger.
        trigger: Trigger,
        /// URL of the target, exactly as sent.
        target_url: String,
        /// The form, or `None` for every form.
        form_id: Option<Uuid>,
    },
    /// Removes the subscription.
    Remove {
        /// The reason.
        reason: RemovalReason,
    },
    /// Records that a delivery ended with 410.
    RecordGone(GoneAnswer),
    /// Records that a delivery succeeded.
    RecordAnswered {
        /// The delivery.
        delivery_id: Uuid,
        /// End of the attempt that succeeded.
        finished_at: Timestamp,
    },
    /// Removes the subscription if two 410s in a row are certain.
    JudgeGone {
        /// Claim of the oldest attempt whose answer is not recorded.
        open_since: Option<Timestamp>,
    },
}

/// Why a subscription was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalReason {
    /// A caller sent `DELETE /hooks/{id}` with the subscription's key.
    DeletedByKey,
    /// The subscription's key was revoked.
    KeyRevoked,
    /// Two deliveries in a row were answered 410.
    TargetGone,
    /// The firm was closed.
    FirmClosed,
}

/// How entries of the audit log show a subscription's target. Entries are hashed, so those of a
/// subscription stay as its first event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetShown {
    /// With its path, for subscriptions from before ruling 44.
    WithPath,
    /// With scheme, host and port only.
    Origin,
}

/// Version of [`SubscriptionEvent::SubscriptionCreated`]. Version 1 had no `target_shown`.
pub const CREATED_VERSION: &str = "2.0";

/// Rewrites the fields of a `SubscriptionCreated` of version 1 as version 2.
pub fn upcast_created(created: &mut Value) {
    if let Some(created) = created.as_object_mut() {
        created.insert("target_shown".to_owned(), "with_path".into());
    }
}

/// Event of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum SubscriptionEvent {
    /// The subscription was created.
    SubscriptionCreated {
        /// The key that created the subscription.
        key_id: Uuid,
        /// The trigger.
        trigger: Trigger,
        /// URL of the target.
        target_url: String,
        /// The form, or `None` for every form.
        form_id: Option<Uuid>,
        /// How entries of the audit log show the target.
        target_shown: TargetShown,
    },
    /// A delivery ended with 410, the first one since the last success.
    TargetGone(GoneAnswer),
    /// A delivery succeeded after one that ended with 410. The count starts again.
    TargetAnswered {
        /// The delivery.
        delivery_id: Uuid,
    },
    /// The subscription was removed. With its evidence this event is the audit record.
    SubscriptionRemoved {
        /// The reason.
        reason: RemovalReason,
        /// The two deliveries that ended with 410, for `target_gone` only.
        evidence: Vec<GoneAnswer>,
    },
}

domain_event!(SubscriptionEvent {
    SubscriptionCreated = CREATED_VERSION,
    TargetGone,
    TargetAnswered,
    SubscriptionRemoved,
});
aggregate!(Subscription, SubscriptionCommand, SubscriptionEvent, SubscriptionRejection);

/// Why a command on a subscription was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionRejection {
    /// The id is taken.
    #[error("a subscription with this id exists")]
    Exists,
    /// No such subscription exists, or it was removed.
    #[error("there is no live subscription with this id")]
    NotLive,
}

impl Subscription {
    /// A live subscription without a 410 since its last success.
    #[must_use]
    pub const fn live() -> Self {
        Self { life: SubscriptionState::Live, gone: Vec::new() }
    }

    /// The 410s since the last success, in the order of their ends.
    #[must_use]
    pub fn gone_answers(&self) -> &[GoneAnswer] {
        &self.gone
    }

    /// Decides on the events that follow from a command.
    ///
    /// # Errors
    /// [`SubscriptionRejection`] says why the command is refused.
    pub fn decide(
        &self,
        command: &SubscriptionCommand,
    ) -> Result<Vec<SubscriptionEvent>, SubscriptionRejection> {
        match (command, self.life) {
            (
                SubscriptionCommand::Create { key_id, trigger, target_url, form_id },
                SubscriptionState::Unknown,
            ) => Ok(vec![SubscriptionEvent::SubscriptionCreated {
                key_id: *key_id,
                trigger: *trigger,
                target_url: target_url.clone(),
                form_id: *form_id,
                target_shown: TargetShown::Origin,
            }]),
            (
                SubscriptionCommand::Create { .. },
                SubscriptionState::Live | SubscriptionState::Removed,
            ) => Err(SubscriptionRejection::Exists),
            (_, SubscriptionState::Unknown | SubscriptionState::Removed) => {
                Err(SubscriptionRejection::NotLive)
            }
            (SubscriptionCommand::Remove { reason }, SubscriptionState::Live) => {
                Ok(vec![SubscriptionEvent::SubscriptionRemoved {
                    reason: *reason,
                    evidence: Vec::new(),
                }])
            }
            // Two that wait for an answer between them need no third.
            (SubscriptionCommand::RecordGone(_), SubscriptionState::Live)
                if self.gone.len() > 1 =>
            {
                Ok(Vec::new())
            }
            (SubscriptionCommand::RecordGone(answer), SubscriptionState::Live) => {
                Ok(vec![SubscriptionEvent::TargetGone(answer.clone())])
            }
            (
                SubscriptionCommand::RecordAnswered { delivery_id, finished_at },
                SubscriptionState::Live,
            ) => Ok(self.success_events(*delivery_id, *finished_at)),
            (SubscriptionCommand::JudgeGone { open_since }, SubscriptionState::Live) => {
                Ok(two_in_a_row(&self.gone, *open_since).map(removed_by).into_iter().collect())
            }
        }
    }

    /// A success forgets the 410s that ended before it. Later ones are noted again behind it, so
    /// that the stream tells the order of the ends. Without an earlier 410 there is no event.
    fn success_events(&self, delivery_id: Uuid, finished_at: Timestamp) -> Vec<SubscriptionEvent> {
        let later = self.gone.partition_point(|gone| gone.finished_at <= finished_at);
        if later == 0 {
            return Vec::new();
        }
        let again = self.gone[later..].iter().cloned().map(SubscriptionEvent::TargetGone);
        std::iter::once(SubscriptionEvent::TargetAnswered { delivery_id }).chain(again).collect()
    }

    fn absorb(&mut self, event: &SubscriptionEvent) {
        match event {
            SubscriptionEvent::SubscriptionCreated { .. } => self.life = SubscriptionState::Live,
            SubscriptionEvent::TargetGone(answer) => {
                let place =
                    self.gone.partition_point(|gone| gone.finished_at <= answer.finished_at);
                self.gone.insert(place, answer.clone());
            }
            SubscriptionEvent::TargetAnswered { .. } => self.gone.clear(),
            SubscriptionEvent::SubscriptionRemoved { .. } => self.life = SubscriptionState::Removed,
        }
    }
}

/// The first two 410s in a row, judged by the ends of the deliveries and not by the order of their
/// records (ruling 26, 410). `gone` are the 410s since the last success, in the order of their
/// ends. An attempt that was claimed before the second end may have succeeded in between, as long
/// as its answer is not recorded.
#[must_use]
pub fn two_in_a_row(
    gone: &[GoneAnswer],
    open_since: Option<Timestamp>,
) -> Option<[&GoneAnswer; 2]> {
    let [first, second, ..] = gone else { return None };
    open_since.is_none_or(|claimed_at| claimed_at > second.finished_at).then_some([first, second])
}

/// The removal. Its evidence has both 410s.
fn removed_by(evidence: [&GoneAnswer; 2]) -> SubscriptionEvent {
    SubscriptionEvent::SubscriptionRemoved {
        reason: RemovalReason::TargetGone,
        evidence: evidence.map(GoneAnswer::clone).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    fn created() -> SubscriptionEvent {
        let create = SubscriptionCommand::Create {
            key_id: Uuid::from_u128(1),
            trigger: Trigger::FormSubmitted,
            target_url: "https://example.com/hook".into(),
            form_id: None,
        };
        Subscription::default().decide(&create).unwrap().remove(0)
    }

    fn at(second: u128) -> Timestamp {
        format!("2026-11-01T00:00:0{second}.000Z").parse().unwrap()
    }

    /// A 410 that ended in this second.
    fn gone(n: u128) -> GoneAnswer {
        GoneAnswer { delivery_id: Uuid::from_u128(n), status: 410, finished_at: at(n) }
    }

    /// A success that ended in this second.
    fn succeed(n: u128) -> SubscriptionCommand {
        SubscriptionCommand::RecordAnswered { delivery_id: Uuid::from_u128(n), finished_at: at(n) }
    }

    fn said(n: u128) -> SubscriptionEvent {
        SubscriptionEvent::TargetGone(gone(n))
    }

    fn answered(n: u128) -> SubscriptionEvent {
        SubscriptionEvent::TargetAnswered { delivery_id: Uuid::from_u128(n) }
    }

    fn removed(reason: RemovalReason, evidence: Vec<GoneAnswer>) -> SubscriptionEvent {
        SubscriptionEvent::SubscriptionRemoved { reason, evidence }
    }

    fn given(events: Vec<SubscriptionEvent>) -> cqrs_es::test::AggregateTestExecutor<Subscription> {
        TestFramework::with(()).given(events)
    }

    #[test]
    fn a_version_1_subscription_shows_its_path() {
        let mut first = serde_json::json!({
            "key_id": Uuid::from_u128(1), "trigger": "form_submitted",
            "target_url": "https://example.com/hook", "form_id": null,
        });
        upcast_created(&mut first);
        let event = serde_json::json!({"SubscriptionCreated": first});
        let read: SubscriptionEvent = serde_json::from_value(event).unwrap();
        let SubscriptionEvent::SubscriptionCreated { target_shown, target_url, .. } = read else {
            panic!("{read:?}")
        };
        assert_eq!(target_shown, TargetShown::WithPath);
        assert_eq!(target_url, "https://example.com/hook");
    }

    #[test]
    fn a_subscription_is_removed_once_with_reason() {
        let remove = SubscriptionCommand::Remove { reason: RemovalReason::DeletedByKey };
        let gone_for_good = removed(RemovalReason::DeletedByKey, vec![]);
        given(vec![created()]).when(remove.clone()).then_expect_events(vec![gone_for_good.clone()]);
        given(vec![created(), gone_for_good])
            .when(remove.clone())
            .then_expect_error(SubscriptionRejection::NotLive);
        given(vec![]).when(remove).then_expect_error(SubscriptionRejection::NotLive);
    }

    #[test]
    fn d9_one_410_leaves_a_subscription_alive() {
        given(vec![created()])
            .when(SubscriptionCommand::RecordGone(gone(1)))
            .then_expect_events(vec![SubscriptionEvent::TargetGone(gone(1))]);
    }

    const JUDGE: SubscriptionCommand = SubscriptionCommand::JudgeGone { open_since: None };

    /// Both answers are the evidence.
    #[test]
    fn d9_two_410s_running_remove_a_subscription() {
        given(vec![created(), said(1), said(2)])
            .when(JUDGE)
            .then_expect_events(vec![removed(RemovalReason::TargetGone, vec![gone(1), gone(2)])]);
        given(vec![created(), said(1)]).when(JUDGE).then_expect_events(vec![]);
    }

    #[test]
    fn d9_a_success_between_resets_the_count() {
        given(vec![created(), said(1), answered(2), said(3)])
            .when(JUDGE)
            .then_expect_events(vec![]);
    }

    /// The moment of its record does not count.
    #[test]
    fn d9_a_success_counts_at_its_end() {
        let both = vec![created(), said(1), said(3)];
        given(both.clone()).when(succeed(2)).then_expect_events(vec![answered(2), said(3)]);
        given(both.clone()).when(succeed(0)).then_expect_events(vec![]);
        given(both.clone()).when(succeed(4)).then_expect_events(vec![answered(4)]);
        given([both, vec![answered(2), said(3)]].concat()).when(JUDGE).then_expect_events(vec![]);
        given(vec![created(), said(3), said(1)])
            .when(JUDGE)
            .then_expect_events(vec![removed(RemovalReason::TargetGone, vec![gone(1), gone(3)])]);
    }

    /// An attempt that was claimed before the second 410 may still succeed.
    #[test]
    fn d9_two_410s_wait_for_earlier_claims() {
        let two = [gone(1), gone(3)];
        for (claimed, certain) in [(0, false), (2, false), (3, false), (4, true)] {
            assert_eq!(two_in_a_row(&two, Some(at(claimed))).is_some(), certain, "{claimed}");
        }
        assert_eq!(two_in_a_row(&two, None), Some([&two[0], &two[1]]));
        assert_eq!(two_in_a_row(&two[..1], None), None);
        given(vec![created(), said(1), said(3)])
            .when(SubscriptionCommand::RecordGone(gone(5)))
            .then_expect_events(vec![]);
    }

    #[test]
    fn only_a_success_after_410_is_recorded() {
        given(vec![created()]).when(succeed(2)).then_expect_events(vec![]);
        given(vec![created(), said(1)]).when(succeed(2)).then_expect_events(vec![answered(2)]);
    }

    #[test]
    fn d10_a_410_after_removal_changes_nothing() {
        given(vec![created(), removed(RemovalReason::TargetGone, vec![gone(1), gone(2)])])
            .when(SubscriptionCommand::RecordGone(gone(3)))
            .then_expect_error(SubscriptionRejection::NotLive);
    }
}
