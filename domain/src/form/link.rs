//! Prefilled links: the form's address with hidden values and a language (contract, section POST
//! /forms/{id}/links; rulings 8 and 14c). Nothing is stored and nothing is sent.

use std::collections::{BTreeMap, BTreeSet};

use url::form_urlencoded;

use super::hidden_field::HiddenField;
use crate::values::Lang;

/// Longest hidden key, in characters (contract, section Limits).
pub const HIDDEN_KEY_MAX: usize = 100;

/// Longest kept hidden value, in characters (contract, section Limits). Longer values are cut.
pub const HIDDEN_VALUE_MAX: usize = 300;

/// Keys that every form takes beside its hidden fields (contract, section POST /forms/{id}/links).
pub const UTM_TAGS: [&str; 5] =
    ["utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"];

/// Language parameter of the link (ruling 14c).
const LANG: &str = "lang";

/// A prefilled link, with its kept values and its ignored keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefilledLink {
    /// The form's address with the kept values and the language.
    pub url: String,
    /// The kept values, cut to [`HIDDEN_VALUE_MAX`].
    pub hidden: BTreeMap<String, String>,
    /// The ignored keys, which the form does not take.
    pub ignored: Vec<String>,
}

impl PrefilledLink {
    /// Builds a link from the sent texts by key. Null values are already left out.
    ///
    /// A kept value never overwrites a parameter of the address or the language. The address's own
    /// language stays.
    #[must_use]
    pub fn build(
        form_url: &str,
        declared: &[HiddenField],
        sent: BTreeMap<String, String>,
        lang: Option<Lang>,
    ) -> Self {
        let (kept, ignored): (Vec<_>, Vec<_>) =
            sent.into_iter().partition(|(key, _)| accepts_key(declared, key));
        let hidden: BTreeMap<String, String> =
            kept.into_iter().map(|(key, value)| (key, cut_value(&value))).collect();
        let language = lang.map(|lang| (LANG, lang.code()));
        let values = hidden.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let url = with_parameters(form_url, language.into_iter().chain(values));
        Self { url, hidden, ignored: ignored.into_iter().map(|(key, _)| key).collect() }
    }
}

fn accepts_key(declared: &[HiddenField], key: &str) -> bool {
    UTM_TAGS.contains(&key) || declared.iter().any(|field| field.key == key)
}

/// Cuts between Unicode scalar values (case A12).
fn cut_value(value: &str) -> String {
    value.chars().take(HIDDEN_VALUE_MAX).collect()
}

/// The address, with each parameter that the address does not have yet. The fragment stays last.
fn with_parameters<'a>(
    address: &str,
    parameters: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let (before, fragment) = address.find('#').map_or((address, ""), |at| address.split_at(at));
    let own = before.split_once('?').map(|(_, query)| query);
    let mut named: BTreeSet<String> = form_urlencoded::parse(own.unwrap_or_default().as_bytes())
        .map(|(key, _)| key.into_owned())
        .collect();
    let mut added = form_urlencoded::Serializer::new(String::new());
    for (key, value) in parameters {
        if named.insert(key.to_owned()) {
            added.append_pair(key, value);
        }
    }
    let added = added.finish();
    let joint = match own {
        _ if added.is_empty() => "",
        None => "?",
        Some("") => "",
        Some(_) => "&",
    };
    format!("{before}{joint}{added}{fragment}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const FORM: &str = "https://forms.example/f/intake";

    fn declared(keys: &[&str]) -> Vec<HiddenField> {
        keys.iter().map(|key| HiddenField { key: (*key).into(), label: "L".into() }).collect()
    }

    fn link(address: &str, sent: &[(&str, &str)], lang: Option<Lang>) -> PrefilledLink {
        let sent = sent.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        PrefilledLink::build(address, &declared(&["ref", "lang", "a&b=c d"]), sent, lang)
    }

    #[test]
    fn declared_keys_and_utm_tags_are_kept() {
        let built = link(FORM, &[("ref", "7"), ("utm_source", "mail"), ("x", "1")], None);
        assert_eq!(built.url, format!("{FORM}?ref=7&utm_source=mail"));
        assert_eq!(built.ignored, ["x"]);
        assert_eq!(built.hidden.len(), 2);
    }

    #[test]
    fn without_values_the_link_is_the_address() {
        let built = link(FORM, &[], None);
        assert_eq!((built.url.as_str(), built.ignored.len()), (FORM, 0));
    }

    #[rstest]
    fn a13_odd_keys_are_ignored(
        #[values("__proto__", "utm_source ", "UTM_SOURCE", "a&b=c", "#x", "", "?", "REF")]
        key: &str,
    ) {
        let built = link(FORM, &[(key, "v")], None);
        assert_eq!((built.url.as_str(), built.ignored), (FORM, vec![key.to_owned()]));
    }

    /// Neither keys nor values do.
    #[test]
    fn a13_no_text_breaks_the_link() {
        let built = link(FORM, &[("ref", "a&b#c+d\r\ne%20=é"), ("a&b=c d", "1")], None);
        let expected = "?a%26b%3Dc+d=1&ref=a%26b%23c%2Bd%0D%0Ae%2520%3D%C3%A9";
        assert_eq!(built.url, format!("{FORM}{expected}"));
        let url = url::Url::parse(&built.url).unwrap();
        assert_eq!((url.path(), url.fragment(), url.query_pairs().count()), ("/f/intake", None, 2));
    }

    #[test]
    fn a13_no_declared_key_overwrites_the_language() {
        let built = link(FORM, &[("lang", "xx")], Some(Lang::Fr));
        assert_eq!(built.url, format!("{FORM}?lang=fr"));
        assert_eq!(built.hidden["lang"], "xx");
    }

    #[rstest]
    #[case("https://f.example/?ref=own", "https://f.example/?ref=own&lang=es")]
    #[case("https://f.example/?a=1#top", "https://f.example/?a=1&lang=es&ref=7#top")]
    #[case("https://f.example/?", "https://f.example/?lang=es&ref=7")]
    #[case("https://f.example/#top", "https://f.example/?lang=es&ref=7#top")]
    #[case("https://f.example/?lang=de", "https://f.example/?lang=de&ref=7")]
    #[case("https://f.example/?r%65f=own", "https://f.example/?r%65f=own&lang=es")]
    fn the_addresss_own_parameters_stay(#[case] address: &str, #[case] expected: &str) {
        assert_eq!(link(address, &[("ref", "7")], Some(Lang::Es)).url, expected);
    }

    #[test]
    fn a12_values_are_cut_between_characters() {
        let kept = |value: &str| link(FORM, &[("ref", value)], None).hidden["ref"].clone();
        assert_eq!(kept(&"x".repeat(301)), "x".repeat(300));
        assert_eq!(kept(&"😀".repeat(300)), "😀".repeat(300));
        assert_eq!(kept(&"é".repeat(301)), "é".repeat(300));
    }
}
