use std::collections::BTreeMap;

use axum::body::Bytes;
use futures::stream;
use rstest::rstest;
use serde_json::value::RawValue;

use super::fields::FieldError;
use super::json::{parse_object, parse_properties, parse_value};
use super::*;

const LIMIT: BodyLimit = BodyLimit { bytes: 8, time: Duration::from_secs(1) };

/// The answer to the headers alone, before any body.
async fn check(lines: &[(&'static str, &str)]) -> Result<Vec<u8>, BodyError> {
    read_bytes(&headers(lines), Body::empty(), LIMIT).await
}

fn malformed(json: &[u8]) -> bool {
    matches!(parse_value(json), Err(BodyError::Malformed(_) | BodyError::Ambiguous(_)))
}

fn text(text: &str) -> JsonValue {
    JsonValue::String(text.to_owned())
}

fn number(text: &str) -> JsonValue {
    JsonValue::Number(text.to_owned())
}

/// The fields of a text, read in both ways: each property is the text as it came.
fn read_object(json: &str) -> BTreeMap<String, JsonValue> {
    let BodyFields(fields) = parse_object(json.as_bytes()).unwrap();
    let properties = parse_properties(json.as_bytes()).unwrap();
    let of_text =
        |(name, text): (String, &RawValue)| (name, parse_value(text.get().as_bytes()).unwrap());
    assert_eq!(properties.into_iter().map(of_text).collect::<BTreeMap<_, _>>(), fields);
    fields
}

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            (axum::http::HeaderName::from_static(name), value)
        })
        .collect()
}

#[rstest]
#[case::empty("")]
#[case::space(" ")]
#[case::truncated(r#"{"a":1"#)]
#[case::trailing_bytes(r#"{"a":1}x"#)]
#[case::two_objects("{}{}")]
#[case::bom("\u{feff}{}")]
#[case::nan(r#"{"a":NaN}"#)]
#[case::single_quotes("{'a':1}")]
#[case::trailing_comma(r#"{"a":1,}"#)]
#[case::comment("{}//")]
#[case::unquoted_key("{a:1}")]
#[case::leading_zero(r#"{"a":01}"#)]
#[case::raw_control("{\"a\":\"\n\"}")]
fn a1_malformed_json_is_refused(#[case] json: &str) {
    assert!(malformed(json.as_bytes()));
}

#[rstest]
#[case::string(r#""x""#)]
#[case::null("null")]
#[case::number("1")]
#[case::boolean("true")]
#[case::by_position(r#"["https://a/","form_submitted"]"#)]
#[case::empty_array("[]")]
fn a1_only_an_object_is_read(#[case] json: &str) {
    assert_eq!(parse_object(json.as_bytes()), Err(BodyError::NotAnObject));
    assert!(parse_value(json.as_bytes()).is_ok());
}

#[rstest]
#[case::a2_top(r#"{"target_url":"https://a","target_url":"https://b"}"#)]
#[case::a2_equal(r#"{"a":1,"a":1}"#)]
#[case::a2_written_otherwise(r#"{"a":1,"\u0061":1}"#)]
#[case::a3_inside(r#"{"hidden":{"a":1,"a":2}}"#)]
#[case::a3_inside_an_array(r#"{"x":[{"y":[{"a":1,"a":2}]}]}"#)]
#[case::apart("{\"a\" :1,\"a\"\n:2}")]
#[case::empty(r#"{"":1,"":2}"#)]
#[case::after_an_object(r#"{"a":{"b":1},"a":2}"#)]
#[case::after_a_string(r#"{"a":"\\","a":"\""}"#)]
#[case::needless_escape(r#"{"a\/":1,"a/":2}"#)]
fn a2_a3_a_repeated_property_is_refused(#[case] json: &str) {
    let twice = BodyError::Ambiguous("a property is there twice");
    assert_eq!(parse_object(json.as_bytes()), Err(twice));
}

#[test]
fn a2_other_levels_may_repeat_a_name() {
    assert!(parse_object(br#"{"a":{"a":1},"b":[{"a":1},{"a":1}]}"#).is_ok());
}

#[rstest]
#[case::backslash(r#"{"a\\":1,"a":2}"#)]
#[case::quote(r#"{"a\"":1,"a":2}"#)]
#[case::brackets(r#"{"a":"{[\"}","b":"]"}"#)]
#[case::items(r#"{"x":["a","a"],"a":"a"}"#)]
fn a2_look_alikes_are_no_duplicates(#[case] json: &str) {
    assert_eq!(read_object(json).len(), 2);
}

#[rstest]
#[case::key(r#"{"a\u0000":1}"#)]
#[case::value(r#"{"a":"\u0000"}"#)]
#[case::deep_value(r#"{"a":[[{"b":["x\u0000y"]}]]}"#)]
#[case::deep_key(r#"{"a":[{"b":{"\u0000":1}}]}"#)]
#[case::alone(r#""\u0000""#)]
fn a10_u0000_is_refused_anywhere(#[case] json: &str) {
    assert!(malformed(json.as_bytes()));
}

#[rstest]
#[case::high(r#"{"a":"\ud800"}"#)]
#[case::low(r#"{"a":"\udc00"}"#)]
#[case::two_high(r#"{"a":"\ud800\ud800"}"#)]
#[case::key(r#"{"\ud800":1}"#)]
#[case::deep(r#"{"ignored":[[{"b":"\udfff"}]]}"#)]
#[case::in_an_array(r#"["\ud800"]"#)]
fn a10_half_a_surrogate_is_refused(#[case] json: &str) {
    assert!(malformed(json.as_bytes()));
}

#[test]
fn a10_a_whole_pair_is_kept() {
    let body = read_object(r#"{"a":"\ud83d\ude00","b":"😀"}"#);
    assert_eq!((&body["a"], &body["b"]), (&text("😀"), &text("😀")));
}

#[test]
fn a10_invalid_utf_8_is_refused() {
    for bytes in [b"\xff\xfe{}".as_slice(), b"{\"a\":\"\xff\"}", b"{\"a\":\"\xed\xa0\x80\"}"] {
        assert_eq!(parse_object(bytes), Err(BodyError::NotUtf8));
    }
}

#[rstest]
#[case::levels_127(126, true)]
#[case::levels_128(127, false)]
#[case::levels_200(199, false)]
#[case::levels_30_000(30_000, false)]
fn a9_nesting_is_bounded(#[case] arrays: usize, #[case] taken: bool) {
    let json = format!(r#"{{"ignored":{}{}}}"#, "[".repeat(arrays), "]".repeat(arrays));
    assert_eq!(parse_object(json.as_bytes()).is_ok(), taken);
    let objects = format!("{}1{}", r#"{"a":"#.repeat(arrays + 1), "}".repeat(arrays + 1));
    assert_eq!(parse_object(objects.as_bytes()).is_ok(), taken);
}

#[test]
fn every_value_comes_out_as_sent() {
    let sent = r#"{"n":null,"b":true,"u":18446744073709551615,"i":-5,"f":1.5,"s":"é","a":[1,{}]}"#;
    let read = [
        ("n", JsonValue::Null),
        ("b", JsonValue::Bool(true)),
        ("u", number("18446744073709551615")),
        ("i", number("-5")),
        ("f", number("1.5")),
        ("s", text("é")),
        ("a", JsonValue::Array(vec![number("1"), JsonValue::Object(BTreeMap::new())])),
    ];
    assert_eq!(read_object(sent), read.map(|(name, value)| (name.to_owned(), value)).into());
}

/// The JSON library keeps this name for itself, and would read the text as JSON once more.
#[test]
fn the_librarys_own_name_is_ordinary() {
    let name = "$serde_json::private::RawValue";
    let body = format!(r#"{{"{name}":"[1]","a":{{"{name}":"[1]"}}}}"#);
    let inside = JsonValue::Object(BTreeMap::from([(name.to_owned(), text("[1]"))]));
    let read = [(name.to_owned(), text("[1]")), ("a".to_owned(), inside)];
    assert_eq!(read_object(&body), read.into());
}

#[test]
fn errors_quote_nothing_of_the_body() {
    for json in [r#"{"a":"canary","a":1}"#, r#"{"a":"canary\u0000"}"#, r#"{"canary" 1}"#, "canary"]
    {
        let error = parse_object(json.as_bytes()).unwrap_err();
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

#[rstest]
#[case::missing(&[])]
#[case::json(&[("content-type", "application/json")])]
#[case::case(&[("content-type", "Application/JSON")])]
#[case::charset(&[("content-type", "application/json; charset=utf-8")])]
#[case::charset_case(&[("content-type", "application/json;Charset=\"UTF-8\"")])]
#[case::suffix(&[("content-type", "application/problem+json")])]
#[case::identity(&[("content-encoding", "identity")])]
#[tokio::test]
async fn a8_json_headers_are_accepted(#[case] lines: &[(&'static str, &str)]) {
    assert_eq!(check(lines).await, Ok(Vec::new()));
}

#[rstest]
#[case::text(&[("content-type", "text/plain")], BodyError::NotJsonType)]
#[case::form(&[("content-type", "application/x-www-form-urlencoded")], BodyError::NotJsonType)]
#[case::near(&[("content-type", "application/jsonp")], BodyError::NotJsonType)]
#[case::lines(&[("content-type", "application/x-ndjson")], BodyError::NotJsonType)]
#[case::empty(&[("content-type", "")], BodyError::NotJsonType)]
#[case::non_ascii(&[("content-type", "application/json; é")], BodyError::NotJsonType)]
#[case::twice(
    &[("content-type", "application/json"), ("content-type", "application/json")],
    BodyError::NotJsonType
)]
#[case::latin_1(&[("content-type", "application/json; charset=iso-8859-1")], BodyError::Charset)]
#[case::utf_16(&[("content-type", "application/json;charset=utf-16")], BodyError::Charset)]
#[case::gzip(&[("content-encoding", "gzip")], BodyError::Encoded)]
#[case::both(&[("content-encoding", "identity, gzip")], BodyError::Encoded)]
#[case::second_line(
    &[("content-encoding", "identity"), ("content-encoding", "br")],
    BodyError::Encoded
)]
#[tokio::test]
async fn a8_other_headers_are_refused(
    #[case] lines: &[(&'static str, &str)],
    #[case] expected: BodyError,
) {
    assert_eq!(check(lines).await, Err(expected));
}

#[rstest]
#[case::at_the_limit(vec!["1234", "5678"], Ok(b"12345678".to_vec()))]
#[case::one_more(vec!["12345678", "9"], Err(BodyError::TooLarge))]
#[case::in_one_piece(vec!["123456789"], Err(BodyError::TooLarge))]
#[case::nothing(vec![], Ok(Vec::new()))]
#[tokio::test]
async fn a7_a_body_ends_at_its_limit(
    #[case] chunks: Vec<&'static str>,
    #[case] expected: Result<Vec<u8>, BodyError>,
) {
    let chunks = chunks.into_iter().map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk)));
    let body = Body::from_stream(stream::iter(chunks));
    assert_eq!(read_bytes(&HeaderMap::new(), body, LIMIT).await, expected);
}

#[tokio::test]
async fn a7_an_endless_body_is_refused() {
    let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(b"123")));
    let read = read_bytes(&HeaderMap::new(), Body::from_stream(endless), LIMIT).await;
    assert_eq!(read, Err(BodyError::TooLarge));
}

#[tokio::test]
async fn a7_a_too_long_body_stays_unread() {
    let never = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    let read = read_bytes(&headers(&[("content-length", "9")]), never, LIMIT).await;
    assert_eq!(read, Err(BodyError::TooLarge));
}

#[tokio::test]
async fn a22_an_absent_body_is_not_awaited() {
    let never = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    let limit = BodyLimit { time: Duration::ZERO, ..LIMIT };
    assert_eq!(read_bytes(&HeaderMap::new(), never, limit).await, Err(BodyError::TooSlow));
}

#[tokio::test]
async fn a_broken_body_is_refused() {
    let broken = stream::iter([Ok(Bytes::from("{}")), Err(std::io::Error::other("reset"))]);
    let read = read_bytes(&HeaderMap::new(), Body::from_stream(broken), LIMIT).await;
    assert_eq!(read, Err(BodyError::CutShort));
}

#[test]
fn a5_a_wrong_field_is_named() {
    let fields = parse_object(br#"{"s":"x","null":null,"n":5,"id":"abc"}"#).unwrap();
    assert_eq!(fields.clone().string("s"), Ok("x".to_owned()));
    assert_eq!(fields.clone().string("gone"), Err(FieldError::Missing("gone")));
    assert_eq!(fields.clone().string("null"), Err(FieldError::NotAString("null")));
    assert_eq!(fields.clone().optional_string("gone"), Ok(None));
    assert_eq!(fields.clone().optional_string("n"), Err(FieldError::NotAString("n")));
    assert_eq!(fields.clone().optional_id("null"), Ok(None));
    assert_eq!(fields.clone().optional_id("gone"), Ok(None));
    assert_eq!(fields.clone().optional_id("n"), Err(FieldError::NotAnId("n")));
    assert_eq!(fields.clone().id("gone"), Err(FieldError::Missing("gone")));
    assert_eq!(fields.clone().id("id"), Err(FieldError::NotAnId("id")));
    assert_eq!(fields.clone().nullable_string("null"), Ok(None));
    assert_eq!(fields.clone().nullable_string("n"), Err(FieldError::NotAString("n")));
    assert_eq!(fields.clone().optional_object("n"), Err(FieldError::NotAnObject("n")));
    assert_eq!(fields.refuse_unknown(), Err(FieldError::Unknown(Some("id".to_owned()))));
}

#[rstest]
#[case("42")]
#[case("1.5")]
#[case("1.50")]
#[case("-0")]
#[case("1e400")]
#[case("123456789012345678901234567890")]
fn a11_a_number_is_its_text(#[case] number: &str) {
    let fields = parse_object(format!(r#"{{"a": {number} }}"#).as_bytes()).unwrap();
    assert_eq!(fields.0["a"], JsonValue::Number(number.to_owned()));
}

#[test]
fn a11_properties_keep_their_text() {
    let body = r#"{"b" : [1.50, 1e400, -0, {}], "a": "\u00e9" }"#;
    let read = parse_properties(body.as_bytes()).unwrap();
    assert_eq!((read["a"].get(), read["b"].get()), (r#""\u00e9""#, "[1.50, 1e400, -0, {}]"));
    assert_eq!(parse_properties(b"[]").unwrap_err(), BodyError::NotAnObject);
}

#[tokio::test]
async fn a14_an_optional_body_may_be_absent() {
    let take = async |content_type: &str, body: &'static str| {
        let request = Request::post("/").header("content-type", content_type);
        let request = request.body(Body::from(body)).unwrap();
        OptionalJsonBody::from_request(request, &()).await.map(|OptionalJsonBody(fields)| fields)
    };
    assert_eq!(take("text/plain", "").await, Ok(BodyFields::default()));
    assert_eq!(take("application/json", "{}").await, Ok(BodyFields::default()));
    for (content_type, body) in [("text/plain", "{}"), ("application/json", "[]")] {
        assert!(take(content_type, body).await.is_err(), "{content_type} {body}");
    }
}
