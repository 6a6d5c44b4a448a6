//! Texts that strangers typed: respondents and invitees (ruling 53). Their control characters
//! become spaces, and nothing of them refuses an activity.

use super::document::{Invitee, Respondent, ResponseDocument};

/// The document with texts that can be shown. Other texts of it are the product's.
pub(super) fn cleaned_response(mut document: ResponseDocument) -> ResponseDocument {
    let Respondent { name, first_name, last_name, email, phone, company } =
        &mut document.respondent;
    for text in [name, first_name, last_name, email, phone, company] {
        blank_controls(text);
    }
    for answered in &mut document.answers {
        blank_controls_but_breaks(&mut answered.answer);
    }
    document.hidden.values_mut().for_each(blank_controls);
    document
}

/// The person who booked, with texts that can be shown.
pub(super) fn cleaned_invitee(mut person: Invitee) -> Invitee {
    let Invitee { name, email, phone, time_zone } = &mut person;
    for text in [name, email, phone, time_zone] {
        blank_controls(text);
    }
    person
}

/// An address that a person typed.
pub(super) fn cleaned_address(mut text: String) -> String {
    blank_controls(&mut text);
    text
}

fn blank_controls(text: &mut String) {
    blank_out(text, char::is_control);
}

/// A long answer has paragraphs.
fn blank_controls_but_breaks(text: &mut String) {
    blank_out(text, |at| at.is_control() && !matches!(at, '\n' | '\r'));
}

fn blank_out(text: &mut String, is_blanked: fn(char) -> bool) {
    if text.contains(is_blanked) {
        *text = text.replace(is_blanked, " ");
    }
}
