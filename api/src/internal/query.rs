//! Parameters of a query, taken by name and type. An error names the parameter and what its value
//! must be, and never quotes the value.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use domain::audit::AuditPeriod;
use domain::values::{Timestamp, When, parse_id, shown_property};
use url::form_urlencoded;
use uuid::Uuid;

use crate::error::Error;

/// A word that a parameter may have, and its meaning.
pub(super) type Choice<T> = (&'static str, T);

/// Parameters of a query that are not taken yet. Each is there once, without control characters.
#[derive(Debug, Default)]
pub(super) struct QueryFields {
    left: BTreeMap<String, String>,
    /// Parameters of the endpoint, in the order of their taking.
    known: Vec<&'static str>,
}

impl<S: Sync> FromRequestParts<S> for QueryFields {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        Self::read(parts.uri.query().unwrap_or_default())
    }
}

impl QueryFields {
    fn read(query: &str) -> Result<Self, Error> {
        let mut left = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let shown = shown_property(&name).unwrap_or("a parameter").to_owned();
            // PostgreSQL refuses U+0000 in a text.
            if value.chars().any(char::is_control) {
                return Err(Error::invalid(format!("`{shown}` has a control character")));
            }
            if left.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err(Error::invalid(format!("`{shown}` is there twice")));
            }
        }
        Ok(Self { left, known: Vec::new() })
    }

    /// A text.
    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.left.remove(name)
    }

    /// A value with a text of its own. `form` says what the value must be.
    pub(super) fn parsed<T: FromStr>(
        &mut self,
        name: &'static str,
        form: &str,
    ) -> Result<Option<T>, Error> {
        self.value_of(name, form, |text| text.parse().ok())
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[Choice<T>],
    ) -> Result<Option<T>, Error> {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let form = format!("one of {}", words.join(", "));
        let meaning = |text: &str| {
            choices.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning)
        };
        self.value_of(name, &form, meaning)
    }

    /// Values with commas between. `allowed` lists what a value may be.
    pub(super) fn parsed_list<T: FromStr>(
        &mut self,
        name: &'static str,
        form: &str,
        allowed: fn() -> String,
    ) -> Result<Vec<T>, Error> {
        let Some(text) = self.text(name) else {
            return Ok(Vec::new());
        };
        let values: Result<Vec<T>, _> = text.split(',').map(str::parse).collect();
        let refused = || format!("`{name}` must be {form}, with commas between: {}", allowed());
        values.map_err(|_| Error::invalid(refused()))
    }

    /// A whole number of a range.
    pub(super) fn number_within<N: FromStr + PartialOrd + Display>(
        &mut self,
        name: &'static str,
        range: RangeInclusive<N>,
    ) -> Result<Option<N>, Error> {
        let form = format!("a whole number from {} to {}", range.start(), range.end());
        self.value_of(name, &form, |text| text.parse().ok().filter(|number| range.contains(number)))
    }

    /// A point in time: an instant, or a day, which is its midnight in UTC.
    pub(super) fn time(&mut self, name: &'static str) -> Result<Option<Timestamp>, Error> {
        let form = "a day such as 2026-01-31 (midnight UTC), or an RFC 3339 timestamp such as \
                    2026-01-31T09:30:00.000Z";
        self.value_of(name, form, |text| match text.parse() {
            Ok(When::At(at)) => Some(at),
            Ok(When::Distance(_) | When::Day(_)) | Err(_) => None,
        })
    }

    /// The period from `since` on, before `until`.
    pub(super) fn period(&mut self) -> Result<AuditPeriod, Error> {
        let since = self.time("since")?;
        let until = self.time("until")?;
        AuditPeriod::between(since, until).map_err(|backward| Error::invalid(backward.to_string()))
    }

    /// An id.
    pub(super) fn id(&mut self, name: &'static str) -> Result<Option<Uuid>, Error> {
        self.value_of(name, "a hyphenated UUID", parse_id)
    }

    /// The length of a page, as far as the text goes. The list checks its range.
    pub(super) fn limit(&mut self) -> Result<Option<i64>, Error> {
        self.parsed("limit", "a whole number from 1 to 500")
    }

    /// `true` or `false`.
    pub(super) fn bool(&mut self, name: &'static str) -> Result<Option<bool>, Error> {
        self.parsed(name, "true or false")
    }

    /// Refuses parameters that the endpoint has not taken.
    pub(super) fn refuse_unknown(self) -> Result<(), Error> {
        let Some(name) = self.left.keys().next() else {
            return Ok(());
        };
        let known = self.known.join(", ");
        Err(Error::invalid(match shown_property(name) {
            Some(name) => format!("the query may not hold `{name}`; it may hold {known}"),
            None => format!("the query may hold {known}, and nothing else"),
        }))
    }

    fn value_of<T>(
        &mut self,
        name: &'static str,
        form: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let value = self.text(name).map(|text| read(&text).ok_or(()));
        value.transpose().map_err(|()| Error::invalid(format!("`{name}` must be {form}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::delivery::DeliveryState;
    use rstest::rstest;

    fn list(query: &str) -> Result<Option<DeliveryState>, String> {
        let read = || {
            let mut fields = QueryFields::read(query)?;
            fields.time("since")?;
            fields.id("hook_id")?;
            fields.limit()?;
            fields.bool("removed")?;
            fields.choice("format", &[("ndjson", 1), ("csv", 2)])?;
            fields.parsed_list::<DeliveryState>("action", "states", || "the states".into())?;
            fields.number_within("wait", 0..=30)?;
            let state = fields.parsed("state", "a state")?;
            fields.refuse_unknown().map(|()| state)
        };
        read().map_err(|error: Error| error.to_string())
    }

    /// The error does not quote the value.
    #[rstest]
    #[case::no_day(
        "since=2026-02-30",
        "`since` must be a day such as 2026-01-31 (midnight UTC), or"
    )]
    #[case::relative(
        "since=2h",
        "`since` must be a day such as 2026-01-31 (midnight UTC), or an RFC"
    )]
    #[case::no_choice("format=pdf", "`format` must be one of ndjson, csv")]
    #[case::no_item("action=a,b", "`action` must be states, with commas between: the states")]
    #[case::out_of_range("wait=31", "`wait` must be a whole number from 0 to 30")]
    #[case::no_state("state=bogus", "`state` must be a state")]
    #[case::no_id("hook_id=7", "`hook_id` must be a hyphenated UUID")]
    #[case::no_number("limit=many", "`limit` must be a whole number from 1 to 500")]
    #[case::no_bool("removed=1", "`removed` must be true or false")]
    #[case::twice("limit=1&limit=2", "`limit` is there twice")]
    #[case::nul("state=%00", "`state` has a control character")]
    #[case::unknown("sate=failed", "the query may not hold `sate`; it may hold since, hook_id, ")]
    #[case::strange("%1b=1", "the query may hold since, hook_id, limit, removed, format, action, ")]
    fn a_query_error_names_the_parameter(#[case] query: &str, #[case] why: &str) {
        let refused = list(query).unwrap_err();
        assert!(refused.starts_with(why), "{refused}");
        assert!(!refused.contains("bogus"), "{refused}");
    }

    #[test]
    fn a_valid_query_is_read() {
        let read = |query: &str| QueryFields::read(query).unwrap().period().unwrap();
        let march = read("since=2026-03-01&until=2026-04-01T00:00:00Z");
        assert_eq!(march.since.map(String::from).as_deref(), Some("2026-03-01T00:00:00.000Z"));
        assert_eq!(march.until.map(String::from).as_deref(), Some("2026-04-01T00:00:00.000Z"));
        let backward = QueryFields::read("since=2026-03-02&until=2026-03-02").unwrap().period();
        assert_eq!(backward.unwrap_err().to_string(), "`until` must be later than `since`");
        assert_eq!(list("state=failed&limit=5"), Ok(Some(DeliveryState::Failed)));
        assert_eq!(list(""), Ok(None));
    }
}
