//! The story of one response: its answers, then its score, report and bookings, and the end.

use super::event::{EventLine, EventTeller, EventTime};
use super::firms::GeneratedFirm;
use super::forms::GeneratedForm;
use super::random::Random;
use super::responses::GeneratedResponse;
use super::{aftermath, bookings, reports, unruly};

/// The row of draws for responses.
const RESPONSE_DRAWS: u64 = 2;

/// Tells the response with this number, which begins at this time.
pub(super) fn tell_response(
    seed: u64,
    number: u64,
    begins: EventTime,
    firms: &[GeneratedFirm],
) -> Vec<EventLine> {
    let mut random = Random::new(seed, RESPONSE_DRAWS, number);
    let (firm, form) = pick_form(&mut random, begins, firms);
    let response = GeneratedResponse::new(&mut random, number, firm, form, begins);
    let mut teller = EventTeller { random, firm_id: firm.id, lines: Vec::with_capacity(16) };
    if let Some(submitted) = response.tell_answers(&mut teller, begins) {
        aftermath::score_lead(&mut teller, &response, submitted);
        reports::tell_report(&mut teller, &response, submitted);
        bookings::tell_bookings(&mut teller, &response, submitted);
    }
    aftermath::tell_fate(&mut teller, &response, begins);
    unruly::disorder_lines(&mut teller);
    teller.lines
}

/// Picks an open form. Earlier firms are picked more often.
fn pick_form<'a>(
    random: &mut Random,
    at: EventTime,
    firms: &'a [GeneratedFirm],
) -> (&'a GeneratedFirm, &'a GeneratedForm) {
    let drawn = random.pick_index(firms.len()).min(random.pick_index(firms.len()));
    let is_gone = firms[drawn].closes_at.is_some_and(|closes_at| closes_at <= at);
    let firm = &firms[if is_gone { 0 } else { drawn }];
    let form = &firm.forms[random.pick_index(firm.forms.len())];
    (firm, if form.is_open(at) { form } else { &firm.forms[0] })
}
