//! The exact JSON of a delivery's body (contract, section EventPayload; rulings 13 and 14a).

use domain::activity::{Booking, ReportDocument, ResponseDocument};
use domain::delivery::{EventPayload, FormPart, PayloadSource};
use domain::subscription::Trigger;
use rstest::rstest;
use serde_json::{Value, json};
use uuid::Uuid;

const FORM: Uuid = Uuid::from_u128(0xf0f0);
const RESPONSE: Uuid = Uuid::from_u128(0xABCD);

fn document() -> ResponseDocument {
    read(json!({
        "device": "mobile", "lang": "en", "ending": "default",
        "respondent": {
            "name": "Ada Byron", "first_name": "Ada", "last_name": "Byron",
            "email": "ada@example.com", "phone": "+15550100", "company": ""
        },
        "answers": [
            {"id": "q2", "question": "Who?", "type": "contact_group", "answer": "Ada"},
            {"id": "q1", "question": "What?", "type": "short_text", "answer": "first"},
            {"id": "q2", "question": "Who?", "type": "contact_group", "answer": "Ada \"B\" 😀"}
        ],
        "variables": {"score": 1.5},
        "hidden": {"utm_source": "mail"}
    }))
    .unwrap()
}

fn report(locked: bool) -> ReportDocument {
    serde_json::from_value(json!({
        "id": "00000000-0000-0000-0000-0000000000E1", "title": "Your report", "status": "approved",
        "summary": "All is well.", "highlights": ["one", "two"],
        "review_url": "https://forms.example/r/1", "locked": locked
    }))
    .unwrap()
}

fn booking() -> Booking {
    serde_json::from_value(json!({
        "id": "00000000-0000-0000-0000-0000000000b1", "title": "Call", "status": "confirmed",
        "starts_at": "2026-02-01T10:00:00+01:00", "ends_at": "2026-02-01T09:30:00Z",
        "duration_min": 30, "time_zone": "Europe/Paris", "location": "Video",
        "join_url": "https://meet.example/x",
        "invitee": {
            "name": "Ada Byron", "email": "ada@example.com", "phone": "", "time_zone": "Europe/Paris"
        }
    }))
    .unwrap()
}

fn source(trigger: Trigger, document: &ResponseDocument) -> PayloadSource<'_> {
    PayloadSource {
        trigger,
        form: FormPart {
            id: FORM.into(),
            title: "Intake".into(),
            url: "https://f.example/i".into(),
        },
        response_id: RESPONSE,
        submitted_at: "2026-01-31T09:30:00Z".parse().unwrap(),
        document,
        report: None,
        booking: None,
    }
}

fn read(data: Value) -> Result<ResponseDocument, String> {
    ResponseDocument::read(serde_json::from_value(data).unwrap()).map_err(|error| error.to_string())
}

#[test]
fn a_full_payload_matches_the_contract() {
    let (document, report, booking) = (document(), report(false), booking());
    let payload = EventPayload::new(PayloadSource {
        report: Some(&report),
        booking: Some(&booking),
        ..source(Trigger::BookingMade, &document)
    });
    let expected = concat!(
        r#"{"event":"booking_made","#,
        r#""form":{"id":"00000000-0000-0000-0000-00000000f0f0","title":"Intake","#,
        r#""url":"https://f.example/i"},"#,
        r#""response":{"id":"00000000-0000-0000-0000-00000000abcd","#,
        r#""submitted_at":"2026-01-31T09:30:00.000Z","device":"mobile","lang":"en","#,
        r#""ending":"default"},"#,
        r#""respondent":{"name":"Ada Byron","first_name":"Ada","last_name":"Byron","#,
        r#""email":"ada@example.com","phone":"+15550100","company":""},"#,
        r#""answers":[{"id":"q2","question":"Who?","type":"contact_group","answer":"Ada"},"#,
        r#"{"id":"q1","question":"What?","type":"short_text","answer":"first"},"#,
        r#"{"id":"q2","question":"Who?","type":"contact_group","answer":"Ada \"B\" 😀"}],"#,
        r#""fields":{"q2":"Ada \"B\" 😀","q1":"first"},"#,
        r#""variables":{"score":1.5},"hidden":{"utm_source":"mail"},"#,
        r#""report":{"id":"00000000-0000-0000-0000-0000000000e1","title":"Your report","#,
        r#""status":"approved","summary":"All is well.","highlights":["one","two"],"#,
        r#""review_url":"https://forms.example/r/1"},"#,
        r#""booking":{"id":"00000000-0000-0000-0000-0000000000b1","title":"Call","#,
        r#""status":"confirmed","starts_at":"2026-02-01T09:00:00.000Z","#,
        r#""ends_at":"2026-02-01T09:30:00.000Z","duration_min":30,"time_zone":"Europe/Paris","#,
        r#""location":"Video","join_url":"https://meet.example/x","#,
        r#""invitee":{"name":"Ada Byron","email":"ada@example.com","phone":"","#,
        r#""time_zone":"Europe/Paris"}}}"#,
    );
    assert_eq!(serde_json::to_string(&payload).unwrap(), expected);
}

/// From a report to the vault and from there to the payload.
#[test]
fn a11_numbers_in_variables_keep_their_digits() {
    let variables = r#"{"cents":1.50,"deep":[{"huge":1e400}],"id":123456789012345678901234567890}"#;
    let data = serde_json::from_str(&format!(r#"{{"variables":{variables}}}"#)).unwrap();
    let reported = ResponseDocument::read(data).unwrap();
    let kept = serde_json::to_vec(&reported).unwrap();
    let document: ResponseDocument = serde_json::from_slice(&kept).unwrap();
    assert_eq!(document, reported);
    let payload = EventPayload::new(source(Trigger::FormSubmitted, &document));
    let sent = serde_json::to_string(&payload).unwrap();
    assert!(sent.contains(&format!(r#""variables":{variables},"hidden""#)), "{sent}");
}

#[test]
fn a_minimal_payload_matches_the_contract() {
    let document = ResponseDocument::default();
    let payload = EventPayload::new(source(Trigger::FormSubmitted, &document));
    let expected = concat!(
        r#"{"event":"form_submitted","#,
        r#""form":{"id":"00000000-0000-0000-0000-00000000f0f0","title":"Intake","#,
        r#""url":"https://f.example/i"},"#,
        r#""response":{"id":"00000000-0000-0000-0000-00000000abcd","#,
        r#""submitted_at":"2026-01-31T09:30:00.000Z","device":"","lang":"","ending":""},"#,
        r#""respondent":{"name":"","first_name":"","last_name":"","email":"","phone":"","#,
        r#""company":""},"answers":[],"fields":{},"variables":{},"hidden":{},"report":null}"#,
    );
    assert_eq!(serde_json::to_string(&payload).unwrap(), expected);
}

/// The payload has the time of the last answer and the number of answers.
#[test]
fn ruling_14a_unfinished_responses_have_no_ending() {
    let document = document();
    let payload = EventPayload::new(source(Trigger::PartialSubmission, &document));
    let json = serde_json::to_value(&payload).unwrap();
    assert_eq!(json["response"]["ending"], "");
    assert_eq!(
        json["partial"],
        json!({"last_answer_at": "2026-01-31T09:30:00.000Z", "answered": 2})
    );
}

#[test]
fn a_locked_report_hides_summary_and_highlights() {
    let (document, report) = (document(), report(true));
    let payload = EventPayload::new(PayloadSource {
        report: Some(&report),
        ..source(Trigger::ReportApproved, &document)
    });
    let json = serde_json::to_value(&payload).unwrap();
    assert_eq!(
        (&json["report"]["summary"], &json["report"]["highlights"]),
        (&json!(null), &json!([]))
    );
    assert!(json["report"].get("locked").is_none());
}

#[test]
fn a_kept_document_reads_back_as_itself() {
    let document = document();
    let kept = serde_json::to_vec(&document).unwrap();
    assert_eq!(serde_json::from_slice::<ResponseDocument>(&kept).unwrap(), document);
    let (report, booking) = (report(true), booking());
    let again = serde_json::to_value((&report, &booking)).unwrap();
    assert_eq!(
        serde_json::from_value::<(ReportDocument, Booking)>(again).unwrap(),
        (report, booking)
    );
}

#[rstest]
#[case(json!({"devise": "mobile"}), "devise: unknown field")]
#[case(json!({"device": 5}), "device: expected a string")]
#[case(json!({"device": null}), "device: expected a string")]
#[case(json!({"respondent": {"mail": ""}}), "respondent: mail: unknown field")]
#[case(json!({"respondent": {"email": ["ada@example.com"]}}), "respondent: email: expected a string")]
#[case(json!({"respondent": ["Ada", "", "", "", "", ""]}), "respondent: expected a map")]
#[case(json!({"answers": {}}), "answers: expected a sequence")]
#[case(json!({"answers": [["q", "", "", ""]]}), "answers: expected a map")]
#[case(json!({"answers": [{"id": "q"}]}), "answers: question: missing")]
#[case(
    json!({"answers": [{"id": "q", "question": "", "type": "", "answer": 5}]}),
    "answers: answer: expected a string"
)]
#[case(json!({"variables": []}), "variables: expected a map")]
#[case(json!({"hidden": {"a": 1}}), "hidden: expected a string")]
#[case(json!({"device": {"secret": "ada, expected x"}}), "device: expected a string")]
#[case(json!({"answers": "ada, expected x"}), "answers: expected a sequence")]
fn h4_a_refusal_names_only_the_field(#[case] data: Value, #[case] why: &str) {
    assert_eq!(read(data).unwrap_err(), why);
}

#[test]
fn a_list_is_no_document() {
    assert!(serde_json::from_str::<ResponseDocument>(r#"["","",""]"#).is_err());
    assert!(serde_json::from_str::<ResponseDocument>("null").is_err());
}

#[test]
fn f9_a_document_has_a_greatest_size() {
    let empty = serde_json::to_vec(&ResponseDocument::default()).unwrap().len();
    let of = |bytes: usize| read(json!({"device": "a".repeat(bytes - empty)}));
    assert!(of(512 * 1024).is_ok());
    assert_eq!(
        of(512 * 1024 + 1).unwrap_err(),
        "a response document is at most 512 KiB of JSON, this one has 524289 bytes"
    );
}

#[rstest]
#[case("locked", "locked: missing")]
#[case("review_url", "review_url: missing")]
fn a_report_says_whether_it_is_locked(#[case] left_out: &str, #[case] why: &str) {
    let mut data = serde_json::to_value(report(true)).unwrap();
    data.as_object_mut().unwrap().remove(left_out);
    assert_eq!(serde_json::from_value::<ReportDocument>(data).unwrap_err().to_string(), why);
}

#[rstest]
#[case("starts_at", json!("tomorrow"), "starts_at: not an RFC 3339 timestamp such as 2026-01-31T09:30:00.000Z")]
#[case("id", json!("{00000000-0000-0000-0000-0000000000b1}"), "id: not a hyphenated UUID")]
#[case("duration_min", json!(-5), "duration_min: expected u32")]
#[case("invitee", json!([]), "invitee: expected a map")]
fn a_booking_is_read_strictly(#[case] field: &str, #[case] value: Value, #[case] why: &str) {
    let mut data = serde_json::to_value(booking()).unwrap();
    data[field] = value;
    assert_eq!(serde_json::from_value::<Booking>(data).unwrap_err().to_string(), why);
}
