//! Answers that a caller need not read twice: `ETag` and `If-None-Match` (RFC 9110, section 13).

use axum::body::Bytes;
use axum::http::header::{ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

/// The name of some content. It is weak, because gzip and plain text share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntityTag(String);

impl EntityTag {
    pub(crate) fn new(content: &[u8]) -> Self {
        Self(format!("W/\"{}\"", hex::encode(&Sha256::digest(content)[..16])))
    }

    /// Whether the caller has this content already.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let lists = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let opaque = |tag: &'_ str| tag.trim().trim_start_matches("W/").to_owned();
        let mine = opaque(&self.0);
        lists.flat_map(|list| list.split(',')).any(|tag| tag.trim() == "*" || opaque(tag) == mine)
    }

    /// The content with its name, or 304 if the caller has it. The headers go with both.
    pub(crate) fn answer_conditional(
        &self,
        asked: &HeaderMap,
        mut headers: HeaderMap,
        content: Bytes,
    ) -> Response {
        if let Ok(tag) = HeaderValue::from_str(&self.0) {
            headers.insert(ETAG, tag);
        }
        if self.is_known(asked) {
            (StatusCode::NOT_MODIFIED, headers).into_response()
        } else {
            (headers, content).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("*", true)]
    #[case(r#"W/"44136fa355b3678a1146ad16f7e8649e""#, true)]
    #[case(r#""44136fa355b3678a1146ad16f7e8649e""#, true)]
    #[case(r#""x", W/"44136fa355b3678a1146ad16f7e8649e""#, true)]
    #[case(r#""x""#, false)]
    #[case("44136fa355b3678a1146ad16f7e8649e", false)]
    #[case("", false)]
    fn a_caller_has_the_named_version(#[case] value: &str, #[case] known: bool) {
        let tag = EntityTag::new(b"{}");
        assert_eq!(tag.0, r#"W/"44136fa355b3678a1146ad16f7e8649e""#);
        let headers =
            [(IF_NONE_MATCH, HeaderValue::from_str(value).unwrap())].into_iter().collect();
        assert_eq!(tag.is_known(&headers), known);
        assert!(!tag.is_known(&HeaderMap::new()));
    }
}
