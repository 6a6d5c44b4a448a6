//! What networks and retries do to reports: some come late, some twice. Reports of how something is
//! keep their order, and nothing comes before the firm and the form it is about.

use super::event::{EventLine, EventTeller, EventTime, HOUR, SECOND};
use super::random::Random;

/// Brings a little disorder into the lines of one response.
pub(super) fn shake(teller: &mut EventTeller) {
    let Some(first) = teller.lines.first().map(|line| line.arrives_at) else {
        return;
    };
    if teller.random.per_mille(60) {
        hurry(&mut teller.random, &mut teller.lines, first);
    }
    let repeats: Vec<EventLine> =
        teller.lines.iter().filter_map(|line| repeat(&mut teller.random, line)).collect();
    teller.lines.extend(repeats);
}

/// Lets one report of what happened come in before all that it follows from.
fn hurry(random: &mut Random, lines: &mut [EventLine], first: EventTime) {
    let hurries = random.index(lines.len());
    let line = &mut lines[hurries];
    if may_hurry(line.kind) {
        line.arrives_at = first.after(-1);
    }
}

/// Reports of a response itself have forms to follow; those of a state, each other. Erasure is last.
fn may_hurry(kind: &str) -> bool {
    let of_state = ["report.changed", "address."];
    let firm = ["response.", "person."];
    !of_state.iter().chain(&firm).any(|start| kind.starts_with(start))
}

/// One line in eighty comes in again, under the same id or another.
fn repeat(random: &mut Random, line: &EventLine) -> Option<EventLine> {
    let id = match random.below(160) {
        0 => line.id,
        1 => random.id(),
        _ => return None,
    };
    let position = line.arrives_at.after(random.between(SECOND, HOUR));
    Some(EventLine { id, arrives_at: position, ..line.clone() })
}
