//! Checks of reported texts (rulings 36 and 37).

use std::collections::HashSet;

use crate::document::NotADocument;
use crate::email::{EMAIL_MAX, EmailAddress, bare_address};
use crate::firm::FirmBrand;
use crate::form::{HiddenField, is_form_url};
use crate::label::{NotALabel, check_label};
use crate::link::HIDDEN_KEY_MAX;
use crate::target::TARGET_MAX_CHARS;

/// Longest short name in a form's address, in characters.
const SLUG_MAX: usize = 200;

/// Most hidden fields of a form (ruling 37).
const HIDDEN_FIELDS_MAX: usize = 100;

/// Longest label of a hidden field, in characters.
const HIDDEN_LABEL_MAX: usize = 500;

/// Longest colour of a brand, in characters.
const COLOR_MAX: usize = 100;

/// The text, if it is a label.
pub(super) fn label(field: &'static str, max: usize, text: String) -> Result<String, NotADocument> {
    match check_label(&text, max) {
        Ok(()) => Ok(text),
        Err(why) => Err(malformed(field, why.to_string())),
    }
}

/// The text, if it is there and a label.
pub(super) fn optional_label(
    field: &'static str,
    max: usize,
    text: Option<String>,
) -> Result<Option<String>, NotADocument> {
    text.map(|text| label(field, max, text)).transpose()
}

pub(super) fn slug(text: String) -> Result<String, NotADocument> {
    label("slug", SLUG_MAX, text)
}

pub(super) fn form_url(url: String) -> Result<String, NotADocument> {
    if is_form_url(&url) {
        return Ok(url);
    }
    let most = TARGET_MAX_CHARS;
    Err(malformed("url", format!("not an http(s) address of at most {most} characters")))
}

pub(super) fn hidden_fields(fields: Vec<HiddenField>) -> Result<Vec<HiddenField>, NotADocument> {
    match fault_of_hidden(&fields) {
        None => Ok(fields),
        Some(why) => Err(malformed("hidden_fields", why)),
    }
}

fn fault_of_hidden(fields: &[HiddenField]) -> Option<String> {
    if fields.len() > HIDDEN_FIELDS_MAX {
        return Some(format!("more than {HIDDEN_FIELDS_MAX} fields"));
    }
    let mut keys = HashSet::new();
    fields.iter().find_map(|HiddenField { key, label }| {
        if key.is_empty() {
            return Some("a key is empty".to_owned());
        }
        if let Err(why) = check_label(key, HIDDEN_KEY_MAX) {
            return Some(format!("a key {}", clause(&why)));
        }
        if let Err(why) = check_label(label, HIDDEN_LABEL_MAX) {
            return Some(format!("a label {}", clause(&why)));
        }
        (!keys.insert(key)).then(|| "a key is there twice".to_owned())
    })
}

fn clause(why: &NotALabel) -> String {
    match why {
        NotALabel::TooLong(_) => format!("is {why}"),
        NotALabel::Control => why.to_string(),
    }
}

/// Checks lengths only: the mail shows a colour and a logo that it can use, and no others.
pub(super) fn brand(brand: FirmBrand) -> Result<FirmBrand, NotADocument> {
    Ok(FirmBrand {
        color: optional_label("color", COLOR_MAX, brand.color)?,
        logo_url: optional_label("logo_url", TARGET_MAX_CHARS, brand.logo_url)?,
    })
}

pub(super) fn reply_to(address: Option<String>) -> Result<Option<String>, NotADocument> {
    optional_label("reply_to", EMAIL_MAX, address)
}

/// The address of an opt-out.
pub(super) fn address(text: &str) -> Result<EmailAddress, NotADocument> {
    EmailAddress::read_leniently(text).map_err(|why| malformed("email", why.to_string()))
}

/// The address of a person to erase. A respondent may have typed any text, so any text is taken.
pub(super) fn named_person(text: String) -> Result<String, NotADocument> {
    if bare_address(&text).is_empty() {
        return Err(malformed("email", "empty".to_owned()));
    }
    Ok(text)
}

const fn malformed(field: &'static str, reason: String) -> NotADocument {
    NotADocument::Malformed { field, reason }
}
