//! A batch of intake: the activities of one call, or of several concurrent calls.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::event::EventContext;
use serde::Serialize;
use telemetry::metrics::INTAKE;

use super::cloudevents::CloudEvent;
use crate::batching::token_cache::TokenHash;

/// One call and its activities.
#[derive(Debug)]
pub(crate) struct IntakeCall {
    /// Activities, in the order of the request.
    pub(super) events: Vec<CloudEvent>,
    /// Actor and time of the call. The firm is nil: each event gets the firm of its activity.
    pub(super) context: EventContext,
    /// The call's token, if no look-up has confirmed the token since the call began.
    pub(super) unconfirmed: Option<TokenHash>,
}

impl IntakeCall {
    /// Whether the call's token is in `tokens`.
    pub(super) fn has_one_of(&self, tokens: &BTreeSet<TokenHash>) -> bool {
        self.unconfirmed.is_some_and(|token| tokens.contains(&token))
    }
}

/// Calls that one transaction takes in, in the order of arrival. A batch has at least one call.
#[derive(Debug)]
pub(super) struct IntakeBatch {
    calls: Vec<Arc<IntakeCall>>,
    /// End of each call's activities, as an index into all activities of the batch.
    ends: Vec<usize>,
}

impl IntakeBatch {
    pub(super) fn new(calls: Vec<Arc<IntakeCall>>) -> Self {
        let ends = calls.iter().scan(0, |end, call| {
            *end += call.events.len();
            Some(*end)
        });
        Self { ends: ends.collect(), calls }
    }

    /// All activities, in order. An activity's place is its index in this order.
    pub(super) fn events(&self) -> impl Iterator<Item = &CloudEvent> {
        self.calls.iter().flat_map(|call| &call.events)
    }

    /// Tokens that the transaction must still confirm.
    pub(super) fn unconfirmed_tokens(&self) -> BTreeSet<TokenHash> {
        self.calls.iter().filter_map(|call| call.unconfirmed).collect()
    }

    /// All activities, each with the context of its call.
    pub(super) fn in_context(&self) -> impl Iterator<Item = (&CloudEvent, &EventContext)> {
        self.calls.iter().flat_map(|call| call.events.iter().map(|event| (event, &call.context)))
    }

    /// The context of the activity at a place.
    pub(super) fn context_of(&self, place: usize) -> &EventContext {
        &self.calls[self.call_of(place)].context
    }

    /// Index of the call whose activity is at a place.
    pub(super) fn call_of(&self, place: usize) -> usize {
        self.ends.partition_point(|end| *end <= place)
    }

    /// Time of the last call.
    pub(super) fn last_call_at(&self) -> DateTime<Utc> {
        self.calls.iter().map(|call| call.context.recorded_at.get()).max().unwrap_or_default()
    }

    /// Counts for each call, if the activities at these places changed nothing.
    pub(super) fn counts_by_call(&self, unchanged: &UnchangedPlaces) -> Vec<IntakeCounts> {
        let of = |range: Range<usize>| {
            let count =
                |places: &[usize]| places.iter().filter(|place| range.contains(place)).count();
            let duplicates = count(&unchanged.duplicates);
            let stale = count(&unchanged.stale);
            IntakeCounts { accepted: range.len() - duplicates - stale, duplicates, stale }
        };
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| of(start..*end)).collect()
    }
}

/// Places of activities that changed nothing. Each place is there once at most.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct UnchangedPlaces {
    /// Activities whose fact or state was known.
    pub(super) duplicates: Vec<usize>,
    /// Reports of state that a newer or final report outdates.
    pub(super) stale: Vec<usize>,
}

impl UnchangedPlaces {
    pub(super) fn extend(&mut self, other: Self) {
        self.duplicates.extend(other.duplicates);
        self.stale.extend(other.stale);
    }
}

/// Counts of one call's activities. Their sum is the number of activities in the call.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct IntakeCounts {
    /// Activities that changed something.
    pub accepted: usize,
    /// Activities that changed nothing, because their fact or state is known.
    pub duplicates: usize,
    /// Reports of state that changed nothing, because a newer or final report is known (ruling 35).
    pub stale: usize,
}

impl std::ops::AddAssign for IntakeCounts {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.duplicates += other.duplicates;
        self.stale += other.stale;
    }
}

impl IntakeCounts {
    /// Adds the counts to the metric, when the answer goes to the product.
    pub(crate) fn add_to_metric(&self) {
        let results =
            [("accepted", self.accepted), ("duplicate", self.duplicates), ("stale", self.stale)];
        for (result, activities) in results {
            INTAKE.add(&[("result", result)], activities as u64);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use domain::activity::Activity;
    use domain::event::Actor;
    use domain::firm::FirmChange;
    use uuid::Uuid;

    use super::*;

    pub(in crate::intake) fn context(correlation_id: u128) -> EventContext {
        EventContext {
            firm_id: Uuid::nil(),
            recorded_at: "2026-11-01T00:00:59.000Z".parse().unwrap(),
            actor: Actor::Product(Uuid::nil()),
            correlation_id: Uuid::from_u128(correlation_id),
            causation_id: None,
            traceparent: None,
            terminal: None,
        }
    }

    /// Calls with these activities, told apart by their correlation ids: 9, 10 and so on.
    pub(in crate::intake) fn calls<const N: usize>(calls: [&[CloudEvent]; N]) -> IntakeBatch {
        let call = |(id, events): (u128, &[CloudEvent])| {
            Arc::new(IntakeCall {
                events: events.to_vec(),
                context: context(id),
                unconfirmed: None,
            })
        };
        IntakeBatch::new((9..).zip(calls).map(call).collect())
    }

    fn event() -> CloudEvent {
        CloudEvent {
            firm_id: Uuid::nil(),
            source: "urn:test".into(),
            id: "1".into(),
            time: context(0).recorded_at,
            activity: Activity::Firm { change: FirmChange::Closed, reply_to: None },
            line: None,
        }
    }

    #[test]
    fn each_call_learns_its_own_counts() {
        let batch = calls([&[event(), event()], &[], &[event(), event(), event()]]);
        assert_eq!([0, 1, 2, 4].map(|place| batch.call_of(place)), [0, 0, 2, 2]);
        assert_eq!(batch.context_of(2).correlation_id, Uuid::from_u128(11));
        let unchanged = UnchangedPlaces { duplicates: vec![1, 4], stale: vec![2] };
        let told = batch.counts_by_call(&unchanged).into_iter();
        let told: Vec<_> = told.map(|told| (told.accepted, told.duplicates, told.stale)).collect();
        assert_eq!(told, [(1, 1, 0), (0, 0, 0), (1, 1, 1)]);
    }
}
