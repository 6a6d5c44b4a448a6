//! Every described answer is produced by the router and checked against its schema.

use serde_json::json;
use tests::World;

use super::described::{Operation, Outcome, conforms, description};
use super::drive::Stage;
use domain::subscription::Trigger;

#[tokio::test]
async fn every_answer_comes_as_described() {
    let stage = Stage::new().await;
    let mut unknown = Vec::new();
    let mut orders = Vec::new();
    for (operation, outcome) in &outcomes() {
        let Some(answer) = stage.drive(operation, outcome).await else {
            unknown.push((operation.id().to_owned(), outcome.clone()));
            continue;
        };
        let (status, code) = answer.code();
        let code = code.to_owned();
        assert_eq!(Outcome { status, code }, *outcome, "{}: {}", operation.id(), answer.body);
        operation.check(&answer);
        orders.extend(fields(answer.text()));
    }
    assert_in_order(&orders);
    assert_eq!(unknown, [], "nobody knows how to drive these: see drive.rs");
}

/// All outcomes of all operations. The refusals of a spent rate are last, so that one rate is spent
/// for all of them.
fn outcomes() -> Vec<(Operation, Outcome)> {
    let mut outcomes = Vec::new();
    for operation in Operation::all() {
        outcomes.extend(operation.outcomes().into_iter().map(|one| (operation.clone(), one)));
    }
    outcomes.sort_by_key(|(_, outcome)| outcome.is_rate_limited());
    outcomes
}

#[tokio::test]
async fn a_skipped_invite_is_as_described() {
    let world = World::new().await;
    let firm = world.firm().await;
    let operations = Operation::all();
    let send = operations.iter().find(|operation| operation.id() == "sendForm").unwrap();
    for status in ["sent", "skipped"] {
        let path = send.at(|_| firm.form.to_string());
        let answer = world.call(&firm.key, "POST", &path, send.body()).await;
        assert_eq!(answer.body["status"], status);
        send.check(&answer);
    }
}

#[tokio::test]
async fn every_trigger_has_a_sample_as_described() {
    let world = World::new().await;
    let firm = world.firm().await;
    let operations = Operation::all();
    let sample = operations.iter().find(|operation| operation.id() == "getSample").unwrap();
    for submitted in [false, true] {
        if submitted {
            world.submit(&firm).await;
        }
        for trigger in Trigger::ALL {
            let answer = world.get(&firm, &sample.at(|_| trigger.to_string())).await;
            assert_eq!(answer.status, 200, "{trigger}");
            sample.check(&answer);
        }
    }
}

/// The examples fit their schemas.
#[test]
fn every_example_is_as_described() {
    let document = description();
    let operations = Operation::all();
    let described = operations.iter().map(|operation| &operation.described);
    let webhooks = document["webhooks"].as_object().unwrap();
    let mut seen = 0;
    for operation in described.chain(webhooks.values().map(|webhook| &webhook["post"])) {
        let responses = operation["responses"].as_object().unwrap().values();
        let components = document["components"]["responses"].as_object().unwrap().values();
        for place in responses.chain(components).chain([&operation["requestBody"]]) {
            let content = &place["content"]["application/json"];
            let named = content["examples"].as_object().into_iter().flatten();
            let values = named.map(|(_, example)| &example["value"]).chain(content.get("example"));
            for value in values {
                conforms(&content["schema"], value, &json!(operation["operationId"]).to_string());
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// The fields of every object in this JSON, in their order. Each object is a line of its own.
fn fields(json: &str) -> Vec<Vec<String>> {
    let mut done = Vec::new();
    let mut open: Vec<Vec<String>> = Vec::new();
    let mut rest = json;
    while let Some(at) = rest.find(['{', '}', '"']) {
        let found = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        match found {
            b'{' => open.push(Vec::new()),
            b'}' => done.extend(open.pop()),
            _ => {
                let end = (0..rest.len())
                    .find(|end| rest.as_bytes()[*end] == b'"' && !rest[..*end].ends_with('\\'));
                let (name, after) = rest.split_at(end.unwrap());
                rest = &after[1..];
                if rest.trim_start().starts_with(':') {
                    open.last_mut().unwrap().push(name.to_owned());
                }
            }
        }
    }
    done
}

/// The description writes an object with these fields in the same order.
fn assert_in_order(orders: &[Vec<String>]) {
    let described = fields(&api::openapi::document_text(tests::BASE_URL));
    let sorted = |fields: &Vec<String>| {
        let mut fields = fields.clone();
        fields.sort();
        fields
    };
    let mut compared = 0;
    for order in orders.iter().filter(|order| order.len() > 1) {
        for other in described.iter().filter(|other| sorted(other) == sorted(order)) {
            assert_eq!(other, order);
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}
