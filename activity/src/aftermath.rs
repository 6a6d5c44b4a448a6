//! The later events of a response and of its person: a score, a blocked address, erasure.

use super::event::{DAY, EventTeller, EventTime, HOUR, MINUTE, SECOND};
use super::people::PersonFate;
use super::responses::GeneratedResponse;

/// Scores the lead. One in ten is scored again, higher.
pub(super) fn score_lead(
    teller: &mut EventTeller,
    response: &GeneratedResponse<'_>,
    submitted: EventTime,
) {
    let scored = submitted.after(teller.random.draw_between(SECOND, 10 * SECOND));
    tell_score(teller, response, response.score, scored);
    if teller.random.per_mille(100) {
        let again = scored.after(teller.random.draw_between(HOUR, 3 * DAY));
        tell_score(teller, response, response.score.midpoint(100), again);
    }
}

fn tell_score(
    teller: &mut EventTeller,
    response: &GeneratedResponse<'_>,
    score: u64,
    at: EventTime,
) {
    let band = match score {
        ..40 => "cold",
        40..75 => "warm",
        _ => "hot",
    };
    teller.tell("lead.scored", at, |data| {
        data.text("person", &response.person.email).plain_text("response_id", response.id);
        data.text("band", band).bare_value("score", score);
    });
}

/// Tells the fate of the response and its person.
pub(super) fn tell_fate(
    teller: &mut EventTeller,
    response: &GeneratedResponse<'_>,
    begins: EventTime,
) {
    let at = begins.after(teller.random.draw_between(HOUR, 6 * DAY));
    match response.fate {
        PersonFate::Stays => {}
        PersonFate::Unreachable => block_address(teller, response, at),
        PersonFate::ResponseErased => teller.tell("response.erased", at, |data| {
            data.plain_text("response_id", response.id);
        }),
        PersonFate::PersonErased => teller.tell("person.erased", at, |data| {
            data.text("email", &response.person.email);
        }),
    }
}

/// Blocks the address. Four in ten are restored later.
fn block_address(teller: &mut EventTeller, response: &GeneratedResponse<'_>, at: EventTime) {
    let kind = teller.random.pick_one(&["address.unsubscribed", "address.bounced"]);
    tell_address(teller, kind, &response.person.email, at);
    if teller.random.per_mille(400) {
        let restored = at.after(teller.random.draw_between(MINUTE, 5 * DAY));
        tell_address(teller, "address.restored", &response.person.email, restored);
    }
}

fn tell_address(teller: &mut EventTeller, kind: &'static str, email: &str, at: EventTime) {
    teller.tell(kind, at, |data| {
        data.text("email", email);
    });
}
