//! The description against the router's own list of routes, and the page against the description.
//! `docs` tests how both are served. The tests in `tests/doors/openapi.rs` have
//! a database.

use std::collections::BTreeSet;

use rstest::rstest;

use super::*;
use crate::Error;

const BASE: &str = "https://forms.example/api/v1";

fn page_text() -> String {
    page(&document(BASE)).html()
}

#[test]
fn described_paths_are_the_routed_paths() {
    let routed: BTreeSet<_> =
        crate::public::contract_routes().iter().map(|(path, _)| *path).collect();
    let document = document(BASE);
    let described: BTreeSet<_> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let open = BTreeSet::from(["/openapi.json"]);
    assert_eq!(described, &routed | &open);
}

/// The contract's lists, section Endpoints, without the answers of every endpoint.
#[rstest]
#[case("getMe", &[])]
#[case("listTriggers", &[])]
#[case("getSample", &[(404, "form_not_found"), (404, "unknown_trigger")])]
#[case("listForms", &[])]
#[case("getForm", &[(404, "form_not_found")])]
#[case("createLink", &[(400, "invalid_request"), (404, "form_not_found")])]
#[case("sendForm", &[
    (400, "invalid_request"), (404, "form_not_found"), (409, "form_not_published"),
    (429, "invite_limit_reached"), (502, "send_failed"),
])]
#[case("listHooks", &[])]
#[case("createHook", &[
    (400, "invalid_request"), (400, "invalid_target"), (400, "unknown_trigger"),
    (404, "form_not_found"), (409, "idempotency_conflict"), (409, "too_many_hooks"),
])]
#[case("deleteHook", &[(404, "not_found")])]
#[case("getDescription", &[])]
fn an_operations_errors_are_the_contracts(#[case] id: &str, #[case] errors: &[(u16, &str)]) {
    let operations = operations::all();
    let operation = operations.iter().find(|operation| operation.id == id).unwrap();
    let refusals = operation.refusals.iter().map(Error::status_and_code);
    let refusals: BTreeSet<_> = refusals.map(|(status, code)| (status.as_u16(), code)).collect();
    assert_eq!(refusals, errors.iter().copied().collect());
}

#[test]
fn operations_and_deliveries_have_unique_ids() {
    let document = document(BASE);
    let of = |part: &str| document[part].as_object().unwrap().clone().into_values();
    let all = of("paths").chain(of("webhooks")).flat_map(|methods| {
        let methods = methods.as_object().unwrap().clone().into_values();
        methods.map(|operation| operation["operationId"].as_str().unwrap().to_owned())
    });
    let all: Vec<_> = all.collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    assert_eq!(all.len(), 11 + 10);
}

#[test]
fn no_response_names_the_internal_door() {
    let operations = operations::all();
    let responses = errors::responses(&operations).to_string();
    assert!(!responses.contains("internal door"), "{responses}");
}

/// The page has every operation, code, field and delivery.
#[test]
fn the_page_shows_the_whole_description() {
    let document = document(BASE);
    let page = page_text();
    for operation in operations::all() {
        assert!(page.contains(&format!("<h3 id=\"{}\"", operation.id)), "{}", operation.id);
        assert!(page.contains(operation.summary), "{}", operation.summary);
    }
    for code in
        document["components"]["schemas"]["Error"]["properties"]["code"]["enum"].as_array().unwrap()
    {
        assert!(page.contains(&format!(" {}</code>", code.as_str().unwrap())), "{code}");
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
        for field in schema["properties"].as_object().into_iter().flat_map(Map::keys) {
            assert!(page.contains(&format!("<code>{field}</code>")), "{name}.{field}");
        }
    }
    for delivery in document["webhooks"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("<code>{delivery}</code>")), "{delivery}");
    }
}

/// Generators made a client without `target_url`, 177 types of codes, or none at all: they know
/// neither a bare `false` nor conditions beside an object's properties.
#[test]
fn schemas_are_plain_objects_for_generators() {
    let document = document(BASE);
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for condition in ["oneOf", "anyOf", "allOf", "not", "if"] {
            assert!(schema.get(condition).is_none(), "{name}: {condition}");
        }
        for (field, of_field) in schema["properties"].as_object().into_iter().flatten() {
            assert!(!of_field.is_boolean(), "{name}.{field}");
        }
    }
    let responses = document["components"]["responses"].as_object().unwrap();
    for (name, response) in responses {
        let schema = &response["content"]["application/json"]["schema"];
        assert_eq!(schema, &json!({"$ref": "#/components/schemas/Error"}), "{name}");
    }
    let required = |schema: &str| document["components"]["schemas"][schema]["required"].clone();
    assert_eq!(required("NewHook"), json!(["target_url"]));
    assert_eq!(required("FormInvite"), json!(["ignored", "ok", "status", "url"]));
}

/// One generator wrote the deliveries over the calls about subscriptions: one file per tag.
#[test]
fn no_tag_has_both_calls_and_deliveries() {
    let document = document(BASE);
    let tags = |part: &str| -> BTreeSet<String> {
        let of = document[part].as_object().unwrap().values();
        let operations = of.flat_map(|methods| methods.as_object().unwrap().values());
        operations.map(|operation| operation["tags"][0].as_str().unwrap().to_owned()).collect()
    };
    assert!(tags("paths").is_disjoint(&tags("webhooks")));
}

/// The table said that `X-Service-Event` is "always booking_cancelled".
#[test]
fn the_page_shows_each_events_header() {
    let page = page_text();
    for trigger in domain::subscription::Trigger::ALL {
        let header = format!("<code>X-Service-Event: {trigger}</code>");
        assert_eq!(page.matches(&header).count(), 1, "{trigger}");
        assert!(!page.contains(&format!("always {trigger}")), "{trigger}");
    }
}

/// Seven of eight rows were the same under each call.
#[test]
fn the_page_tells_shared_errors_once() {
    let page = page_text();
    for answer in [
        "401 unauthorized",
        "403 firm_inactive",
        "405 invalid_request",
        "413 invalid_request",
        "429 rate_limited",
        "431 invalid_request",
        "500 internal_error",
        "503 unavailable",
    ] {
        assert_eq!(page.matches(&format!("<code>{answer}</code>")).count(), 1, "{answer}");
    }
    assert_eq!(page.matches("<code>409 too_many_hooks</code>").count(), 2, "here and in the list");
}

/// Examples had their fields in the order of the alphabet.
#[test]
fn examples_keep_the_answers_field_order() {
    let text = document_text(BASE);
    let place =
        |field: &str, from: usize| from + text[from..].find(&format!("\"{field}\":")).unwrap();
    let example = text.find("https://hooks.example.com/catch").unwrap();
    let start = text[..example].rfind('{').unwrap();
    let places = ["trigger", "target_url"].map(|field| place(field, start));
    assert!(places.is_sorted(), "{places:?}");
    let page = page_text();
    let hook = page.find("&quot;id&quot;: &quot;3f1f9c1e").unwrap();
    let next = ["trigger", "target_url", "form_id", "created_at"]
        .map(|field| hook + page[hook..].find(&format!("&quot;{field}&quot;:")).unwrap());
    assert!(next.is_sorted() && next[3] - hook < 300, "{next:?}");
}
