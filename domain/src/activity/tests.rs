use super::*;
use crate::firm::FirmChange;
use serde_json::{Value, json};

const ID: &str = "00000000-0000-4000-8000-000000000001";

fn read(kind: &str, data: Value) -> Result<Activity, String> {
    let data = serde_json::from_value(data).unwrap();
    Activity::read(kind, data).map_err(|error| error.to_string())
}

#[test]
fn each_kind_is_read() {
    let member = json!({"member_id": ID, "role": "admin"});
    assert!(read("firm.opened", json!({"name": "A", "plan": {"leads_in_full": true}})).is_ok());
    assert!(read("firm.changed", json!({"invites_enabled": false})).is_ok());
    assert!(read("firm.closed", json!({})).is_ok());
    assert!(read("member.joined", member).is_ok());
    assert!(read("member.left", json!({"member_id": ID})).is_ok());
    assert!(read("form.published", json!({"form_id": ID})).is_ok());
    assert!(read("address.bounced", json!({"email": "ann@example.com"})).is_ok());
    let saved = json!({"response_id": ID, "form_id": ID, "saved_at": "2026-11-01T00:00:00Z"});
    assert!(read("response.saved", saved).is_ok());
}

#[test]
fn an_opt_out_holds_for_each_spelling() {
    for email in ["ann@example.com ", "ann@example.com.", "<ann@example.com>"] {
        let read = read("address.bounced", json!({"email": email}));
        let Ok(Activity::Address { email: read, .. }) = read else { panic!("{email}: {read:?}") };
        assert_eq!(read.person_key(), "ann@example.com");
    }
}

#[test]
fn an_opt_out_needs_an_address() {
    for email in ["jos\u{e9}@example.com", "\"a b\"@example.com", "ann", ""] {
        let read = read("address.bounced", json!({"email": email}));
        assert!(read.unwrap_err().starts_with("data.email: not an email address"), "{email}");
    }
    let erased = read("person.erased", json!({"email": " <> "}));
    assert_eq!(erased.unwrap_err(), "data.email: empty");
    assert!(
        read("person.erased", json!({"email": "n/a"})).is_ok(),
        "a respondent may have typed it"
    );
}

fn form_with(field: &str, value: Value) -> Result<Activity, String> {
    let mut data = json!({
        "form_id": ID, "title": "Intake", "slug": "intake", "url": "https://forms.example/intake",
        "status": "draft", "hidden_fields": [], "created_at": "2026-11-01T00:00:00Z",
    });
    data[field] = value;
    read("form.created", data)
}

#[test]
fn a_forms_address_is_a_web_address() {
    for url in ["https://forms.example/a?b=c#d", "http://forms.example", "HTTPS://forms.example"] {
        assert!(form_with("url", json!(url)).is_ok(), "{url}");
    }
    let long = format!("https://forms.example/{}", "a".repeat(2_000));
    for url in [
        "",
        "javascript:alert(1)",
        " https://forms.example",
        "data:text/html,x",
        "file:///etc/passwd",
        "//forms.example",
        "https://",
        "https://forms.example/\n",
        "https://forms.example/a b",
        &long,
    ] {
        let refused = form_with("url", json!(url)).unwrap_err();
        assert!(refused.starts_with("data.url: ") && !refused.contains("alert"), "{refused}");
        let edit = read("form.changed", json!({"form_id": ID, "url": url}));
        assert!(edit.unwrap_err().starts_with("data.url: "), "{url}");
    }
}

#[test]
fn titles_and_hidden_fields_have_limits() {
    let field = |key: &str| json!({"key": key, "label": "L"});
    let fields = |count: usize| (0..count).map(|n| field(&n.to_string())).collect::<Value>();
    assert!(form_with("title", json!("\u{e9}".repeat(500))).is_ok());
    assert!(form_with("hidden_fields", fields(100)).is_ok());
    for (name, value, why) in [
        ("title", json!("a".repeat(501)), ": longer than 500 characters"),
        ("title", json!("a\u{1b}[31m"), ": has a control character"),
        ("slug", json!("a".repeat(201)), ": longer than 200 characters"),
        ("hidden_fields", fields(101), ": more than 100 fields"),
    ] {
        assert_eq!(form_with(name, value).unwrap_err(), format!("data.{name}{why}"));
    }
}

/// The error did not say which field was wrong.
#[test]
fn a_hidden_fields_error_names_its_place() {
    let field = |key: &str| json!({"key": key, "label": "L"});
    for (wrong, why) in [
        (field(""), "key: empty"),
        (field("a"), "key: there twice"),
        (field(&"a".repeat(101)), "key: longer than 100 characters"),
        (field("b\n"), "key: has a control character"),
        (json!({"key": "b", "label": "\n"}), "label: has a control character"),
    ] {
        let refused = form_with("hidden_fields", json!([field("a"), wrong])).unwrap_err();
        assert_eq!(refused, format!("data.hidden_fields[1].{why}"));
    }
}

/// The error did not name the plan or the brand.
#[test]
fn plan_and_brand_errors_name_their_field() {
    for (data, why) in [
        (json!({"plan": {}}), "plan.leads_in_full: missing"),
        (json!({"plan": {"leads_in_full": 1}}), "plan.leads_in_full: expected a boolean"),
        (json!({"plan": {"leads_in_full": true, "seats": 3}}), "plan.seats: unknown field"),
        (json!({"plan": true}), "plan: expected a map"),
        (json!({"brand": {"colour": "red"}}), "brand.colour: unknown field"),
        (json!({"brand": {"color": "\n"}}), "brand.color: has a control character"),
    ] {
        let refused = read("firm.changed", data.clone()).unwrap_err();
        assert_eq!(refused, format!("data.{why}"));
        let mut opened = json!({"name": "A", "plan": {"leads_in_full": true}});
        opened.as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
        assert_eq!(read("firm.opened", opened).unwrap_err(), refused);
    }
    assert_eq!(read("firm.opened", json!({"name": "A"})).unwrap_err(), "data.plan: missing");
}

/// All leads without an address were one person.
#[test]
fn a_lead_without_an_address_is_refused() {
    let scored = |person: &str| {
        let data = json!({"person": person, "response_id": ID, "band": "hot", "score": 91});
        read("lead.scored", data)
    };
    for person in ["ann@example.com", " <Ann@Example.com>. "] {
        let Ok(Activity::LeadScored(lead)) = scored(person) else { panic!("{person}") };
        assert_eq!(lead.person, person);
    }
    for person in ["", " ", "n/a", "-", "Ann Lee", ID] {
        let refused = scored(person).unwrap_err();
        assert!(refused.starts_with("data.person: not an email address"), "{person}: {refused}");
    }
}

/// A reply address in brackets was kept, and no mail had it.
#[test]
fn a_reply_address_loses_its_brackets() {
    let branded = |reply_to: &str| {
        let plan = json!({"leads_in_full": true});
        let brand = json!({"reply_to": reply_to});
        let opened = json!({"name": "A", "plan": plan, "brand": brand});
        [read("firm.opened", opened), read("firm.changed", json!({"brand": brand}))]
    };
    for text in ["Office@Harrow.example", " <Office@Harrow.example>", "Office@Harrow.example."] {
        for read in branded(text) {
            let Ok(Activity::Firm { reply_to, .. }) = read else { panic!("{text}: {read:?}") };
            assert_eq!(reply_to, Some(Some("Office@harrow.example".to_owned())), "{text}");
        }
    }
    for text in ["", "office", "a@b.example, c@d.example", "Office <office@harrow.example>"] {
        for read in branded(text) {
            let refused = read.unwrap_err();
            assert!(refused.starts_with("data.brand.reply_to: not an email"), "{text}: {refused}");
        }
    }
    let none = read("firm.changed", json!({"brand": {"reply_to": null}}));
    assert!(matches!(none, Ok(Activity::Firm { reply_to: Some(None), .. })), "{none:?}");
}

/// Texts with control characters, and the texts that are taken.
const TYPED: [(&str, &str); 6] = [
    ("Zo\u{e9} \u{1f389}", "Zo\u{e9} \u{1f389}"),
    ("Ann\n", "Ann "),
    ("\u{1b}[31mAnn", " [31mAnn"),
    ("\0", " "),
    ("A\tB", "A B"),
    ("\u{85}", " "),
];

/// A tab in a name refused the product's whole batch, and a stranger chooses the name.
#[test]
fn a_respondents_text_is_cleaned_and_taken() {
    for (typed, taken) in TYPED {
        for field in ["name", "first_name", "last_name", "email", "phone", "company"] {
            let data = json!({"response_id": ID, "form_id": ID, "respondent": {field: typed},
                              "hidden": {"utm_source": typed}, "submitted_at": "2026-11-01T00:00:00Z"});
            let Ok(Activity::ResponseSubmitted(report)) = read("response.submitted", data) else {
                panic!("{field}: {typed:?}")
            };
            let respondent = serde_json::to_value(&report.document.respondent).unwrap();
            assert_eq!(respondent[field], taken);
            assert_eq!(report.document.hidden["utm_source"], taken);
        }
    }
}

#[test]
fn an_answer_keeps_its_line_breaks() {
    let answer = json!({"id": "q1", "question": "Why?", "type": "long_text",
                        "answer": "one\r\ntwo\n\tthree\0"});
    let data = json!({"response_id": ID, "form_id": ID, "answers": [answer],
                      "saved_at": "2026-11-01T00:00:00Z"});
    let Ok(Activity::ResponseSaved(report)) = read("response.saved", data) else { panic!() };
    assert_eq!(report.document.answers[0].answer, "one\r\ntwo\n three ");
}

#[test]
fn an_invitees_text_is_cleaned_and_taken() {
    let booked = |field: &str, typed: &str| {
        let data = json!({"booking_id": ID, "response_id": ID, "title": "Call",
                          "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
                          "ends_at": "2026-11-02T09:30:00Z", "duration_min": 30,
                          "time_zone": "Europe/Paris", "invitee": {field: typed}});
        read("booking.made", data)
    };
    for (typed, taken) in TYPED {
        for field in ["name", "email", "phone", "time_zone"] {
            let Ok(Activity::BookingMade { booking, .. }) = booked(field, typed) else {
                panic!("{field}: {typed:?}")
            };
            assert_eq!(serde_json::to_value(&booking.invitee).unwrap()[field], taken);
        }
    }
}

#[test]
fn an_address_loses_its_control_characters() {
    for typed in ["ann@example.com\n", "\0ann@example.com"] {
        let read = read("address.bounced", json!({"email": typed}));
        let Ok(Activity::Address { email, .. }) = read else { panic!("{typed:?}: {read:?}") };
        assert_eq!(email.person_key(), "ann@example.com");
    }
}

#[test]
fn a_firms_name_and_brand_have_limits() {
    let plan = json!({"leads_in_full": true});
    let opened = |name: &str| read("firm.opened", json!({"name": name, "plan": plan}));
    assert!(opened(&"\u{e9}".repeat(200)).is_ok());
    assert_eq!(opened(&"a".repeat(201)).unwrap_err(), "data.name: longer than 200 characters");
    assert_eq!(opened("a\nb").unwrap_err(), "data.name: has a control character");
    for (field, most) in [("color", 100), ("logo_url", 2_000)] {
        let with = |chars| read("firm.changed", json!({"brand": {field: "a".repeat(chars)}}));
        assert!(with(most).is_ok());
        assert_eq!(
            with(most + 1).unwrap_err(),
            format!("data.brand.{field}: longer than {most} characters")
        );
    }
}

#[test]
fn titles_of_reports_and_bookings_are_labels() {
    let report = |title: &str| {
        let review_url = "https://forms.example/r";
        read(
            "report.created",
            json!({"report_id": ID, "response_id": ID, "title": title, "status": "draft",
                   "review_url": review_url}),
        )
    };
    assert!(report("Your report").is_ok());
    assert_eq!(report("a\u{7f}").unwrap_err(), "data.title: has a control character");
    let booked = read(
        "booking.made",
        json!({"booking_id": ID, "response_id": ID, "title": "a".repeat(501), "status": "confirmed",
               "starts_at": "2026-11-02T09:00:00Z", "ends_at": "2026-11-02T09:30:00Z",
               "duration_min": 30, "time_zone": "Europe/Paris"}),
    );
    assert_eq!(booked.unwrap_err(), "data.title: longer than 500 characters");
}

#[test]
fn an_error_does_not_quote_unknown_names() {
    let secret = "a\u{1b}<b>";
    assert_eq!(read(secret, json!({})).unwrap_err(), "type: not a type of activity");
    assert_eq!(
        read("firm.closed", json!({secret: 1})).unwrap_err(),
        "data.a property: unknown field"
    );
}

/// The reply address is kept apart.
#[test]
fn the_brand_has_no_reply_address() {
    let data = json!({"name": "A", "plan": {"leads_in_full": false},
                      "brand": {"color": "#123456", "reply_to": "hello@example.com"}});
    let Ok(Activity::Firm { change: FirmChange::Opened { brand, .. }, reply_to }) =
        read("firm.opened", data)
    else {
        panic!("a firm")
    };
    assert_eq!(brand.color.as_deref(), Some("#123456"));
    assert_eq!(reply_to, Some(Some("hello@example.com".into())));
}

#[test]
fn a_fault_is_named_and_not_quoted() {
    let wrong = |kind, data| read(kind, data).unwrap_err();
    assert_eq!(wrong("firm.sold", json!({})), "type: not a type of activity");
    assert_eq!(wrong("member.left", json!({})), "data.member_id: missing");
    assert_eq!(wrong("member.left", json!({"member_id": ID, "age": 3})), "data.age: unknown field");
    assert_eq!(wrong("firm.closed", json!({"why": "x"})), "data.why: unknown field");
    let secret = wrong("member.left", json!({"member_id": "ann@example.com"}));
    assert!(secret.starts_with("data.member_id: ") && !secret.contains("ann@"), "{secret}");
    let address = wrong("address.bounced", json!({"email": ["ann@example.com"]}));
    assert_eq!(address, "data.email: expected a string");
    let saved = json!({"response_id": ID, "form_id": ID, "saved_at": "yesterday"});
    assert!(wrong("response.saved", saved).starts_with("data.saved_at: "));
}
