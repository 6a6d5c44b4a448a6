use super::*;
use domain::firm::FirmChange;
use rstest::rstest;
use serde_json::{Value, json};

const FIRM: &str = "d6e48e62-3956-4fb4-b8a6-0d2764b65885";

fn event() -> Value {
    json!({
        "specversion": "1.0", "id": "1", "source": "urn:product", "type": "firm.suspended",
        "time": "2026-10-06T08:14:27.318Z", "firmid": FIRM, "data": {},
    })
}

fn with(attribute: &str, value: Value) -> String {
    let mut event = event();
    event[attribute] = value;
    event.to_string()
}

fn without(attribute: &str) -> String {
    let mut event = event();
    event.as_object_mut().unwrap().remove(attribute);
    event.to_string()
}

fn why(text: &str) -> String {
    match parse_events(EventFormat::Single, text.as_bytes()) {
        Err(IntakeError::BadEvent(BadEvent { index: 0, line: None, why })) => why,
        other => panic!("{other:?}"),
    }
}

fn places(format: EventFormat, text: &str) -> Vec<Option<usize>> {
    parse_events(format, text.as_bytes()).unwrap().iter().map(|event| event.line).collect()
}

#[test]
fn an_event_is_read() {
    let events = parse_events(EventFormat::Single, event().to_string().as_bytes()).unwrap();
    let expected = CloudEvent {
        firm_id: FIRM.parse().unwrap(),
        source: "urn:product".into(),
        id: "1".into(),
        time: "2026-10-06T08:14:27.318Z".parse().unwrap(),
        activity: Activity::Firm { change: FirmChange::Suspended, reply_to: None },
        line: None,
    };
    assert_eq!(events, [expected]);
}

/// Missing data are an empty object.
#[test]
fn other_attributes_are_ignored() {
    let read = |text: &str| parse_events(EventFormat::Single, text.as_bytes()).unwrap();
    let plain = read(&event().to_string());
    for attribute in ["datacontenttype", "subject", "dataschema", "traceparent", "anything"] {
        assert_eq!(read(&with(attribute, json!("x"))), plain, "{attribute}");
    }
    assert_eq!(read(&without("data")), plain);
    assert_eq!(read(&with("data", Value::Null)), plain);
    assert_eq!(read(&with("firmid", json!(FIRM.to_uppercase()))), plain);
    assert_eq!(read(&with("time", json!("2026-10-06T10:14:27.318+02:00"))), plain);
}

#[rstest]
#[case(without("specversion"), "specversion: missing")]
#[case(with("specversion", json!("0.3")), "specversion: only 1.0 is read")]
#[case(with("specversion", json!(1.0)), "specversion: not a string")]
#[case(without("id"), "id: missing")]
#[case(with("id", Value::Null), "id: missing")]
#[case(with("id", json!("")), "id: empty")]
#[case(with("id", json!(7)), "id: not a string")]
#[case(with("source", json!("é".repeat(513))), "source: longer than 1024 bytes")]
#[case(without("type"), "type: missing")]
#[case(with("type", json!("firm.sold")), "type: not a type of activity")]
#[case(without("time"), "time: missing")]
#[case(without("firmid"), "firmid: missing")]
#[case(with("firmid", json!("{d6e48e62-3956-4fb4-b8a6-0d2764b65885}")), "firmid: not a hyphenated UUID")]
#[case(with("data", json!([])), "data: not an object")]
#[case(with("data", json!({"why": "x"})), "data.why: unknown field")]
#[case(with("data_base64", json!("e30=")), "data_base64: not read, send `data`")]
#[case("[]".to_owned(), "not a JSON object")]
fn a_wrong_attribute_is_named(#[case] text: String, #[case] expected: &str) {
    assert_eq!(why(&text), expected);
}

#[rstest]
#[case(with("time", json!("yesterday")), "time: ")]
#[case(event().to_string().replacen('{', r#"{"id":"2","#, 1), "not valid JSON: ")]
#[case(event().to_string() + "x", "not valid JSON: ")]
#[case(format!("\u{feff}{}", event()), "not valid JSON: ")]
#[case(String::new(), "not valid JSON: ")]
fn malformed_json_and_times_are_refused(#[case] text: String, #[case] expected: &str) {
    let why = why(&text);
    assert!(why.starts_with(expected) && !why.contains("yesterday"), "{why}");
}

#[test]
fn a_firms_name_with_nul_is_refused() {
    let data = json!({"name": "A\0", "plan": {"leads_in_full": true}});
    let text = with("data", data).replace("firm.suspended", "firm.opened");
    assert_eq!(why(&text), "data.name: has a control character");
}

#[test]
fn names_of_1024_bytes_are_read() {
    let text = with("id", json!("é".repeat(512)));
    assert_eq!(parse_events(EventFormat::Single, text.as_bytes()).unwrap()[0].id.len(), 1_024);
}

#[test]
fn a_batch_is_an_array() {
    let two = json!([event(), event()]).to_string();
    assert_eq!(places(EventFormat::Batch, &two), [None, None]);
    assert_eq!(places(EventFormat::Batch, " [ ] "), []);
    for other in [event().to_string(), "[{}".into(), "[{}] x".into(), String::new()] {
        let error = parse_events(EventFormat::Batch, other.as_bytes()).unwrap_err();
        assert!(matches!(error, IntakeError::NotABatch(_)), "{other}: {error}");
    }
}

#[test]
fn a_bad_event_is_named_by_index() {
    let batch = json!([event(), event(), {"specversion": "1.0"}]).to_string();
    let error = parse_events(EventFormat::Batch, batch.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "event 2: id: missing");
    let twice = format!("[{},{}]", event(), event().to_string().replacen('{', r#"{"id":"2","#, 1));
    let error = parse_events(EventFormat::Batch, twice.as_bytes()).unwrap_err();
    assert!(error.to_string().starts_with("event 1: not valid JSON: "), "{error}");
}

#[test]
fn blank_lines_count_as_lines_only() {
    let lines = format!("\n{0}\r\n  \n{0}\n", event());
    assert_eq!(places(EventFormat::Lines, &lines), [Some(2), Some(4)]);
    assert_eq!(places(EventFormat::Lines, ""), []);
    let error = parse_events(EventFormat::Lines, format!("{lines}{{}}").as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "event 2 (line 5): specversion: missing");
}

/// A batch has at most 1,000 events and 8 MiB.
#[test]
fn a_batchs_events_and_bytes_are_bounded() {
    let lines = |events: usize| format!("{}\n", event()).repeat(events);
    assert_eq!(parse_events(EventFormat::Lines, lines(1_000).as_bytes()).unwrap().len(), 1_000);
    let error = |format, text: String| parse_events(format, text.as_bytes()).unwrap_err();
    assert!(matches!(error(EventFormat::Lines, lines(1_001)), IntakeError::TooMany));
    let items = format!("[{}0]", "0,".repeat(1_000));
    assert!(matches!(error(EventFormat::Batch, items), IntakeError::TooMany));
    let blank = |bytes| " ".repeat(bytes);
    assert!(parse_events(EventFormat::Lines, blank(8 << 20).as_bytes()).is_ok());
    assert!(matches!(error(EventFormat::Lines, blank((8 << 20) + 1)), IntakeError::TooLarge));
}

#[test]
fn invalid_utf_8_is_refused() {
    let error = parse_events(EventFormat::Lines, b"\xff").unwrap_err();
    assert_eq!(error.to_string(), "the body is not UTF-8");
}

#[rstest]
#[case("application/cloudevents+json", Some(EventFormat::Single))]
#[case("application/cloudevents-batch+json; charset=UTF-8", Some(EventFormat::Batch))]
#[case("Application/X-NDJSON;charset=\"utf-8\"", Some(EventFormat::Lines))]
#[case("application/x-ndjson; charset=latin1", None)]
#[case("application/json", None)]
#[case("", None)]
fn the_content_type_names_the_format(
    #[case] content_type: &str,
    #[case] format: Option<EventFormat>,
) {
    assert_eq!(EventFormat::of_content_type(content_type), format);
}

/// The sample that comes with the service.
#[test]
fn the_demonstration_is_read_whole() {
    let demo = include_bytes!("../../../../demo/activity.ndjson");
    assert_eq!(parse_events(EventFormat::Lines, demo).unwrap().len(), 58);
}
