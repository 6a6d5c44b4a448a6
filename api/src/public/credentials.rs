//! The key in a request's headers (contract, section Authentication; ruling 2).

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use domain::access::ApiKey;

const API_KEY_HEADER: &str = "x-api-key";

/// A request's key headers, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyHeader {
    /// Neither header is there.
    Missing,
    /// A value that cannot be a key, or two different keys. It needs no look-up.
    Unusable,
    /// A key, in one header or equal in both.
    Key(ApiKey),
}

pub(super) fn key_header(headers: &HeaderMap) -> KeyHeader {
    if !headers.contains_key(AUTHORIZATION) && !headers.contains_key(API_KEY_HEADER) {
        return KeyHeader::Missing;
    }
    presented_key(headers).map_or(KeyHeader::Unusable, KeyHeader::Key)
}

fn presented_key(headers: &HeaderMap) -> Option<ApiKey> {
    let bearer = single_header(headers, AUTHORIZATION.as_str())?.map(bearer_key);
    let plain = single_header(headers, API_KEY_HEADER)?.map(|value| ApiKey::parse(value).ok());
    match (bearer, plain) {
        (Some(bearer), Some(plain)) if bearer == plain => bearer,
        (Some(_), Some(_)) | (None, None) => None,
        (Some(key), None) | (None, Some(key)) => key,
    }
}

/// The value of a header that is there at most once. `None` if it is there twice or is no text.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.to_str()).transpose().ok()?;
    values.next().is_none().then_some(value)
}

fn bearer_key(value: &str) -> Option<ApiKey> {
    let (scheme, key) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") { ApiKey::parse(key).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use rstest::rstest;

    const KEY: &str = "ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    const OTHER: &str = "ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE";

    /// The text of the key that these header lines carry. `K` and `O` stand for two keys.
    fn read(lines: &[(&'static str, &str)]) -> Option<String> {
        let headers: HeaderMap = lines
            .iter()
            .map(|(name, value)| {
                let value = value.replace('K', KEY).replace('O', OTHER);
                let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
                (HeaderName::from_static(name), value)
            })
            .collect();
        match key_header(&headers) {
            KeyHeader::Key(key) => Some(key.as_str().to_owned()),
            KeyHeader::Unusable => None,
            KeyHeader::Missing => Some("missing".to_owned()),
        }
    }

    #[test]
    fn b13_a_missing_key_is_not_wrong() {
        assert_eq!(read(&[]).as_deref(), Some("missing"));
        assert_eq!(read(&[("proxy-authorization", "Bearer K")]).as_deref(), Some("missing"));
    }

    #[rstest]
    #[case::bearer(&[("authorization", "Bearer K")])]
    #[case::lower_case(&[("authorization", "bearer K")])]
    #[case::upper_case(&[("authorization", "BEARER K")])]
    #[case::plain(&[("x-api-key", "K")])]
    #[case::both_the_same(&[("authorization", "Bearer K"), ("x-api-key", "K")])]
    fn b1_either_header_carries_the_key(#[case] lines: &[(&'static str, &str)]) {
        assert_eq!(read(lines).as_deref(), Some(KEY));
    }

    #[rstest]
    #[case::empty(&[("authorization", "")])]
    #[case::empty_plain(&[("x-api-key", "")])]
    #[case::scheme_only(&[("authorization", "Bearer")])]
    #[case::scheme_and_space(&[("authorization", "Bearer ")])]
    #[case::key_without_scheme(&[("authorization", "K")])]
    #[case::basic(&[("authorization", "Basic K")])]
    #[case::basic_beside_a_key(&[("authorization", "Basic K"), ("x-api-key", "K")])]
    #[case::empty_beside_a_key(&[("authorization", ""), ("x-api-key", "K")])]
    #[case::two_spaces(&[("authorization", "Bearer  K")])]
    #[case::tab(&[("authorization", "Bearer\tK")])]
    #[case::space_after(&[("authorization", "Bearer K ")])]
    #[case::space_before(&[("authorization", " Bearer K")])]
    #[case::space_after_plain(&[("x-api-key", "K ")])]
    #[case::scheme_in_plain(&[("x-api-key", "Bearer K")])]
    #[case::non_ascii(&[("authorization", "Bearer Ké")])]
    #[case::non_ascii_plain_beside_a_key(&[("authorization", "Bearer K"), ("x-api-key", "é")])]
    #[case::both_different(&[("authorization", "Bearer K"), ("x-api-key", "O")])]
    #[case::bearer_twice(&[("authorization", "Bearer K"), ("authorization", "Bearer K")])]
    #[case::plain_twice(&[("x-api-key", "K"), ("x-api-key", "K")])]
    #[case::plain_twice_beside_bearer(
        &[("authorization", "Bearer K"), ("x-api-key", "K"), ("x-api-key", "K")]
    )]
    #[case::list(&[("x-api-key", "K, K")])]
    #[case::malformed_in_both(&[("authorization", "Bearer x"), ("x-api-key", "x")])]
    fn b1_anything_else_is_no_key(#[case] lines: &[(&'static str, &str)]) {
        assert_eq!(read(lines), None);
    }

    #[test]
    fn b1_a_huge_value_is_no_key() {
        assert_eq!(read(&[("authorization", &format!("Bearer {}", "A".repeat(10_000)))]), None);
    }

    #[rstest]
    #[case::chars_42(&KEY[..46])]
    #[case::bad_alphabet("ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA+")]
    fn b2_a_malformed_key_is_no_key(#[case] key: &str) {
        assert_eq!(read(&[("x-api-key", key)]), None);
        assert_eq!(read(&[("x-api-key", &format!("{key}AA"))]), None);
    }
}
