//! Who gets what of what happened.

use domain::context::Context;
use domain::delivery::{Consignment, DeliveryEvent};
use domain::event::Event;
use domain::occurrence::{Happening, OccurrenceEvent, delivery_id};
use eventstore::{Appending, NewEvent, RecordedEvent};
use projector::hooks::{Matchable, matching};
use uuid::Uuid;
use vault::Subject;

use super::rows::Row;
use crate::compose::Wanted;
use crate::settings::DeliveryError;

/// Deliveries queued at a time: a transaction stays well under 100 ms, and what it holds small.
const QUEUE: usize = 1_000;

/// An occurrence that somebody may be told of.
#[derive(Clone, Copy)]
pub(crate) struct Occurred<'a> {
    pub(super) id: Uuid,
    pub(crate) recorded: &'a RecordedEvent,
    pub(super) happening: &'a Happening,
}

impl<'a> Occurred<'a> {
    fn of(recorded: &'a RecordedEvent) -> Option<Self> {
        match (&recorded.event, recorded.aggregate_id.parse()) {
            (Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(happening)), Ok(id))
                if !happening.silent =>
            {
                Some(Self { id, recorded, happening })
            }
            _ => None,
        }
    }

    fn matchable(&self) -> Matchable {
        Matchable {
            position: self.recorded.position,
            firm_id: self.recorded.context.firm_id,
            trigger: self.happening.trigger.key(),
            form_id: self.happening.form_id,
        }
    }

    /// Its delivery to a subscription, by the rule.
    pub(super) fn delivery_id(&self, hook_id: Uuid) -> Uuid {
        delivery_id((self.id, self.recorded.context.recorded_at), hook_id)
    }

    pub(super) fn delivery_to(&self, hook_id: Uuid, context: Context) -> NewEvent {
        NewEvent {
            aggregate_id: self.delivery_id(hook_id).to_string(),
            sequence: 1,
            event: DeliveryEvent::DeliveryQueued(Consignment {
                occurrence_id: self.id,
                hook_id,
                trigger: self.happening.trigger,
                form_id: self.happening.form_id,
                response_id: self.happening.response_id,
            })
            .into(),
            context,
        }
    }
}

/// What telling of these takes.
pub(super) fn wanted(events: &[RecordedEvent]) -> Wanted {
    Wanted::telling(events.iter().filter_map(Occurred::of).map(|occurred| {
        let Happening { response_id, form_id, .. } = *occurred.happening;
        let firm_id = occurred.recorded.context.firm_id;
        (Subject { firm_id, subject_id: response_id }, form_id)
    }))
}

/// Who gets what, for as many occurrences as one transaction takes.
pub(crate) struct Matches<'a> {
    pub(crate) pairs: Vec<(Occurred<'a>, Uuid)>,
    /// The last position taken in, when it is not the last one read.
    pub(crate) reached: Option<i64>,
}

impl<'a> Matches<'a> {
    pub(crate) async fn of(
        appending: &mut Appending<'_>,
        events: &'a [RecordedEvent],
    ) -> Result<Self, DeliveryError> {
        let occurred: Vec<_> = events.iter().filter_map(Occurred::of).collect();
        let matchable: Vec<_> = occurred.iter().map(Occurred::matchable).collect();
        if matchable.is_empty() {
            return Ok(Self { pairs: Vec::new(), reached: None });
        }
        let mut matched = matching(appending.connection(), &matchable).await?;
        let reached = cut(&mut matched, QUEUE);
        let mut rest = occurred.into_iter().peekable();
        let pairs = matched
            .into_iter()
            .filter_map(|(position, hook_id)| {
                while rest.peek().is_some_and(|occurred| occurred.recorded.position < position) {
                    rest.next();
                }
                rest.peek().map(|occurred| (*occurred, hook_id))
            })
            .collect();
        Ok(Self { pairs, reached })
    }

    /// Their rows in the queue.
    pub(super) fn rows(&self) -> Vec<Row> {
        self.pairs.iter().map(|(occurred, hook_id)| Row::of(occurred, *hook_id)).collect()
    }
}

/// Cuts what is more than `most` off, between two occurrences and never before the first; says which
/// position is the last one whole, if anything was cut.
fn cut(matched: &mut Vec<(i64, Uuid)>, most: usize) -> Option<i64> {
    let (position, _) = *matched.get(most)?;
    let first = matched.first()?.0;
    let end = if position == first {
        matched.partition_point(|(at, _)| *at == first)
    } else {
        matched.partition_point(|(at, _)| *at < position)
    };
    if end == matched.len() {
        return None;
    }
    matched.truncate(end);
    matched.last().map(|(at, _)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(positions: &[i64]) -> Vec<(i64, Uuid)> {
        positions.iter().map(|position| (*position, Uuid::nil())).collect()
    }

    #[test]
    fn a_batch_is_cut_between_occurrences() {
        let cut_at = |positions: &[i64], most| {
            let mut matched = pairs(positions);
            let reached = cut(&mut matched, most);
            (matched.len(), reached)
        };
        assert_eq!(cut_at(&[], 2), (0, None));
        assert_eq!(cut_at(&[1, 2], 2), (2, None));
        assert_eq!(cut_at(&[1, 2, 3], 2), (2, Some(2)));
        assert_eq!(cut_at(&[1, 2, 2], 2), (1, Some(1)));
        // One occurrence with more than fits is taken whole.
        assert_eq!(cut_at(&[1, 1, 1], 2), (3, None));
        assert_eq!(cut_at(&[1, 1, 1, 2], 2), (3, Some(1)));
    }
}
