//! Beginnings of a new series of signed checkpoints. An operator orders one after keys or
//! checkpoints were lost, so the audit log says so. Each beginning has a stream of its own.

use serde::{Deserialize, Serialize};

use crate::aggregate::{NeverRefused, aggregate, domain_event};

/// Aggregate of one beginning. Its stream has one event.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointSeries {
    recorded: bool,
}

/// Command on a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointSeriesCommand {
    /// Records the beginning of the series.
    Begin(SeriesBeginning),
}

/// Event of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointSeriesEvent {
    /// An operator gave up the series before, and the next checkpoint has number 1.
    CheckpointSeriesBegun(SeriesBeginning),
}

/// Reason of a beginning, and the end of the series before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesBeginning {
    /// The operator's reason.
    pub reason: String,
    /// The last signature of the series before. `None` if nothing was signed before.
    pub ended: Option<EndedSeries>,
}

/// The last signature of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndedSeries {
    /// Number of the series.
    pub series: i32,
    /// Number of its last checkpoint.
    pub number: u64,
    /// Id of its last key.
    pub key_id: String,
}

domain_event!(CheckpointSeriesEvent { CheckpointSeriesBegun });
aggregate!(CheckpointSeries, CheckpointSeriesCommand, CheckpointSeriesEvent, NeverRefused);

impl CheckpointSeries {
    /// Decides on the events that follow from a command. A recorded beginning has no further event.
    pub fn decide(
        &self,
        CheckpointSeriesCommand::Begin(beginning): &CheckpointSeriesCommand,
    ) -> Result<Vec<CheckpointSeriesEvent>, NeverRefused> {
        let new = || CheckpointSeriesEvent::CheckpointSeriesBegun(beginning.clone());
        Ok((!self.recorded).then(new).into_iter().collect())
    }

    fn absorb(&mut self, CheckpointSeriesEvent::CheckpointSeriesBegun(_): &CheckpointSeriesEvent) {
        self.recorded = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    #[test]
    fn a_beginning_is_recorded_once() {
        let ended = EndedSeries { series: 1, number: 7, key_id: "4d0d0118ac23cb68".into() };
        let beginning = SeriesBeginning { reason: "the disk died".into(), ended: Some(ended) };
        let begin = CheckpointSeriesCommand::Begin(beginning.clone());
        let event = CheckpointSeriesEvent::CheckpointSeriesBegun(beginning);
        let given = |events| TestFramework::<CheckpointSeries>::with(()).given(events);
        given(vec![]).when(begin.clone()).then_expect_events(vec![event.clone()]);
        given(vec![event]).when(begin).then_expect_events(vec![]);
    }
}
