//! The activity that the product reports in a run. `firmforms generate` makes the activity up with
//! one seed, and each measurement takes a part of it.

use ::activity::{EventLine, ExpectedState, MadeUpActivity};
use anyhow::Context;
use api::intake::{CloudEvent, EventFormat, parse_events};
use domain::subscription::FirmPlan;
use domain::values::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

/// More than any run takes. They are told one after the other: a longer run begins like a shorter.
const RESPONSES: u64 = 1_000_000;

const SEED: u64 = 1;

/// The activity of so many firms.
pub(crate) fn made_up(firms: u32) -> MadeUpActivity {
    MadeUpActivity::new(firms, RESPONSES, SEED)
}

/// A report: its line, and its event.
pub(crate) struct Told {
    pub(crate) line: Vec<u8>,
    pub(crate) event: CloudEvent,
}

impl Told {
    pub(crate) fn new(line: &EventLine) -> anyhow::Result<Self> {
        let mut bytes = Vec::with_capacity(1 << 10);
        line.write(&mut bytes)?;
        let event = parse_events(EventFormat::Lines, &bytes)?.pop().context("an empty line")?;
        Ok(Self { line: bytes, event })
    }
}

/// A submission of this time. Indexes by time then grow at their end, as with a product. With one
/// time for all submissions they would be written everywhere.
pub(crate) fn submitted_at(at: Timestamp, firm: &tests::Firm, response_id: Uuid) -> Value {
    let mut event = tests::submitted(firm, response_id);
    event["data"]["submitted_at"] = json!(at);
    event["time"] = json!(at);
    event
}

/// A firm that was reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Firm {
    pub(crate) id: Uuid,
    pub(crate) owner: Uuid,
    pub(crate) plan: FirmPlan,
}

/// The firms, members and forms that must be there before anything can happen.
#[derive(Default)]
pub(crate) struct Founding {
    pub(crate) lines: Vec<u8>,
    pub(crate) expected: ExpectedState,
}

impl Founding {
    pub(crate) fn new(lines: impl IntoIterator<Item = EventLine>) -> anyhow::Result<Self> {
        let mut founding = Self::default();
        for line in lines {
            let told = Told::new(&line)?;
            founding.lines.extend(told.line);
            let CloudEvent { firm_id, time, activity, .. } = &told.event;
            founding.expected.note_activity(*firm_id, *time, activity);
        }
        Ok(founding)
    }

    pub(crate) fn firms(&self) -> impl Iterator<Item = Firm> {
        let firms = self.expected.firms.iter();
        firms.map(|(id, firm)| Firm { id: *id, owner: firm.owner, plan: firm.plan })
    }
}
