//! Checks of reported texts (rulings 36 and 37).

use std::collections::HashSet;

use super::object::NotADocument;
use crate::firm::FirmBrand;
use crate::form::{HIDDEN_KEY_MAX, HiddenField, is_form_url};
use crate::subscription::TARGET_MAX_CHARS;
use crate::values::{EmailAddress, bare_address, check_label};

/// Longest short name in a form's address, in characters.
const SLUG_MAX: usize = 200;

/// Most hidden fields of a form (ruling 37).
const HIDDEN_FIELDS_MAX: usize = 100;

/// Longest label of a hidden field, in characters.
const HIDDEN_LABEL_MAX: usize = 500;

/// Longest colour of a brand, in characters.
const COLOR_MAX: usize = 100;

/// The text, if it is a label.
pub(super) fn checked_label(
    field: &'static str,
    max: usize,
    text: String,
) -> Result<String, NotADocument> {
    check_field(field, max, &text).map(|()| text)
}

fn check_field(field: &'static str, max: usize, text: &str) -> Result<(), NotADocument> {
    check_label(text, max).map_err(|why| malformed_field(field, why.to_string()))
}

/// The text, if it is there and a label.
pub(super) fn optional_label(
    field: &'static str,
    max: usize,
    text: Option<String>,
) -> Result<Option<String>, NotADocument> {
    text.map(|text| checked_label(field, max, text)).transpose()
}

pub(super) fn checked_slug(text: String) -> Result<String, NotADocument> {
    checked_label("slug", SLUG_MAX, text)
}

pub(super) fn form_url(url: String) -> Result<String, NotADocument> {
    if is_form_url(&url) {
        return Ok(url);
    }
    let most = TARGET_MAX_CHARS;
    Err(malformed_field("url", format!("not an http(s) address of at most {most} characters")))
}

pub(super) fn hidden_fields(fields: Vec<HiddenField>) -> Result<Vec<HiddenField>, NotADocument> {
    if fields.len() > HIDDEN_FIELDS_MAX {
        return Err(malformed_field(
            "hidden_fields",
            format!("more than {HIDDEN_FIELDS_MAX} fields"),
        ));
    }
    let mut keys = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        check_hidden(field, &mut keys)
            .map_err(|wrong| wrong.within_part(format!("hidden_fields[{index}]")))?;
    }
    Ok(fields)
}

fn check_hidden<'a>(
    field: &'a HiddenField,
    known: &mut HashSet<&'a str>,
) -> Result<(), NotADocument> {
    if field.key.is_empty() {
        return Err(malformed_field("key", "empty".to_owned()));
    }
    check_field("key", HIDDEN_KEY_MAX, &field.key)?;
    check_field("label", HIDDEN_LABEL_MAX, &field.label)?;
    if !known.insert(&field.key) {
        return Err(malformed_field("key", "there twice".to_owned()));
    }
    Ok(())
}

/// Checks lengths only: the mail shows a colour and a logo that it can use, and no others.
pub(super) fn checked_brand(brand: FirmBrand) -> Result<FirmBrand, NotADocument> {
    Ok(FirmBrand {
        color: optional_label("color", COLOR_MAX, brand.color)?,
        logo_url: optional_label("logo_url", TARGET_MAX_CHARS, brand.logo_url)?,
    })
}

/// The reply address of a firm, as a mail writes it.
pub(super) fn reply_to(text: Option<String>) -> Result<Option<String>, NotADocument> {
    text.map(|text| Ok(checked_address("reply_to", &text)?.to_string())).transpose()
}

/// One address of a person or a firm (ruling 36).
pub(super) fn checked_address(
    field: &'static str,
    text: &str,
) -> Result<EmailAddress, NotADocument> {
    EmailAddress::read_leniently(text).map_err(|why| malformed_field(field, why.to_string()))
}

/// The address of a lead. Another text, such as an empty one, may stand for several people.
pub(super) fn checked_lead(person: String) -> Result<String, NotADocument> {
    checked_address("person", &person).map(|_| person)
}

/// The address of a person to erase. A respondent may have typed any text, so any text is taken.
pub(super) fn named_person(text: String) -> Result<String, NotADocument> {
    if bare_address(&text).is_empty() {
        return Err(malformed_field("email", "empty".to_owned()));
    }
    Ok(text)
}

const fn malformed_field(field: &'static str, reason: String) -> NotADocument {
    NotADocument::Malformed { field, reason }
}
