//! The activities of the demo, and the deliveries that must follow from them.

use std::collections::BTreeSet;

use activity::{ExpectedOccurrence, ExpectedState, MadeUpActivity, is_founding};
use anyhow::{Context, anyhow};
use api::intake::{EventFormat, IntakeError, parse_events};
use domain::subscription::Trigger;
use uuid::Uuid;

use crate::args::DemoArgs;

/// Firms in made-up activity.
const GENERATED_FIRMS: u32 = 3;

/// Lines of activity, before and after the subscriptions are made.
pub(super) struct DemoActivity {
    /// Firms, members and forms.
    pub(super) founding: String,
    /// The first line about anything else, and all lines after it.
    pub(super) responses: String,
    pub(super) expected: ExpectedState,
    /// Whether the demo ends after its story.
    pub(super) once: bool,
}

impl DemoActivity {
    /// Reads the file, or makes the activities up.
    pub(super) fn new(demo: &DemoArgs) -> anyhow::Result<Self> {
        let read = Self::read_any(demo)?;
        Ok(Self { once: demo.once, ..read })
    }

    fn read_any(demo: &DemoArgs) -> anyhow::Result<Self> {
        if let Some(responses) = demo.responses {
            let activity = MadeUpActivity::new(GENERATED_FIRMS, responses, demo.seed);
            return Self::parse_lines(activity_lines(activity)?);
        }
        let path = demo.activity.display();
        let text = std::fs::read_to_string(&demo.activity).with_context(|| {
            format!("{path}: run the demo in the project's folder, or say --activity")
        })?;
        Self::parse_lines(text).with_context(|| path.to_string())
    }

    /// The triggers of this firm that have an occurrence.
    pub(super) fn triggers_of(&self, firm_id: Uuid) -> BTreeSet<Trigger> {
        self.sent_occurrences()
            .filter(|one| one.firm_id == firm_id)
            .map(|one| one.trigger)
            .collect()
    }

    /// The number of deliveries, with one subscription to each trigger of each firm.
    pub(super) fn delivery_count(&self) -> usize {
        self.sent_occurrences().count()
    }

    fn sent_occurrences(&self) -> impl Iterator<Item = &ExpectedOccurrence> {
        self.expected.known_occurrences().filter(|happened| !happened.silent)
    }

    fn parse_lines(mut text: String) -> anyhow::Result<Self> {
        let mut expected = ExpectedState::default();
        let mut founding = None;
        let mut end = 0;
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let events =
                parse_events(EventFormat::Lines, line.as_bytes()).map_err(|error| match error {
                    IntakeError::BadEvent(bad) => anyhow!("line {number}: {}", bad.why),
                    other => other.into(),
                })?;
            for event in events {
                expected.note_activity(event.firm_id, event.time, &event.activity);
                if !is_founding(&event.activity) {
                    founding.get_or_insert(end);
                }
            }
            end += line.len();
        }
        let responses = text.split_off(founding.unwrap_or(end));
        Ok(Self { founding: text, responses, expected, once: false })
    }
}

fn activity_lines(activity: MadeUpActivity) -> anyhow::Result<String> {
    let mut text = Vec::new();
    activity
        .founding_lines()
        .chain(activity.response_lines())
        .try_for_each(|line| line.write(&mut text))?;
    Ok(String::from_utf8(text)?)
}
