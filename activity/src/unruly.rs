//! Disorder of networks and retries: some lines arrive late, some twice. Reports of a state keep
//! their order. No line arrives before its firm and its form.

use super::event::{EventLine, EventTeller, EventTime, HOUR, SECOND};
use super::random::Random;

/// Disorders the lines of one response.
pub(super) fn disorder_lines(teller: &mut EventTeller) {
    let Some(first) = teller.lines.first().map(|line| line.arrives_at) else {
        return;
    };
    if teller.random.per_mille(60) {
        hurry_line(&mut teller.random, &mut teller.lines, first);
    }
    let repeats: Vec<EventLine> =
        teller.lines.iter().filter_map(|line| repeat_line(&mut teller.random, line)).collect();
    teller.lines.extend(repeats);
}

/// Picks one line, and moves it before the first line if a line of its kind may arrive early.
fn hurry_line(random: &mut Random, lines: &mut [EventLine], first: EventTime) {
    let index = random.pick_index(lines.len());
    let line = &mut lines[index];
    if may_hurry(line.kind) {
        line.arrives_at = first.after(-1);
    }
}

/// Whether a line of this kind may arrive before the lines that it depends on. Lines of a response
/// need its form, lines about a state keep their order, and an erasure stays last.
fn may_hurry(kind: &str) -> bool {
    const OF_A_STATE: [&str; 2] = ["report.changed", "address."];
    const OF_A_RESPONSE_OR_ERASURE: [&str; 2] = ["response.", "person."];
    !OF_A_STATE.iter().chain(&OF_A_RESPONSE_OR_ERASURE).any(|start| kind.starts_with(start))
}

/// Repeats one line in eighty, under its id or under a new one.
fn repeat_line(random: &mut Random, line: &EventLine) -> Option<EventLine> {
    let id = match random.draw_below(160) {
        0 => line.id,
        1 => random.draw_id(),
        _ => return None,
    };
    let arrives_at = line.arrives_at.after(random.draw_between(SECOND, HOUR));
    Some(EventLine { id, arrives_at, ..line.clone() })
}
