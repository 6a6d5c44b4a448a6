//! The door is exactly as strict as the schemas of requests. Each of many bodies is one field away
//! from an example, and the door takes a body exactly if the schema does.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tests::World;

use super::described::{Operation, description, validator};

#[tokio::test]
async fn the_door_is_as_strict_as_schemas() {
    let world = World::new().await;
    let firm = world.firm().await;
    for operation in Operation::all().into_iter().filter(|one| !one.body().is_null()) {
        let schema = &operation.described["requestBody"]["content"]["application/json"]["schema"];
        let properties = description().pointer(&schema["$ref"].as_str().unwrap()[1..]).unwrap();
        let valid = validator(schema);
        let bodies = neighbours(&operation.body(), properties["properties"].as_object().unwrap());
        assert!(bodies.iter().any(|body| valid.is_valid(body)));
        for body in bodies {
            world.pass(Duration::from_secs(1));
            let path = operation.at(|_| firm.form.to_string());
            let answer = world.call(&firm.key, &operation.method, &path, body.clone()).await;
            operation.check(&answer);
            let taken = answer.status.is_success();
            let valid = valid.is_valid(&body) && fits_words(&operation, &body);
            assert_eq!(taken, valid, "{}: {body}: {}", operation.id(), answer.body);
        }
    }
}

/// The conditions that a schema leaves to its description, so that clients get plain objects.
fn fits_words(operation: &Operation, body: &Value) -> bool {
    operation.id() != "createHook" || body.get("trigger").or(body.get("event")).is_some()
}

/// The example, and its variants with one field added, removed or changed.
fn neighbours(example: &Value, properties: &Map<String, Value>) -> Vec<Value> {
    let mut bodies = vec![example.clone(), json!([]), json!("x"), json!(5)];
    let odd = [json!(null), json!(true), json!(5), json!("\u{0}"), json!(["x"]), json!({"x": {}})];
    for (name, property) in properties {
        let mut without = example.clone();
        without.as_object_mut().unwrap().remove(name);
        bodies.push(without);
        let values = odd.iter().cloned().chain(long(example, name, property));
        bodies.extend(values.map(|value| with(example, name, value)));
    }
    bodies.push(with(example, "another", json!("x")));
    let key = |chars: usize| json!({"é".repeat(chars): 1.5});
    bodies.extend([100, 101].map(|chars| with(example, "hidden", key(chars))));
    bodies.extend(["no_such_trigger", "form_submitted"].map(|t| with(example, "event", json!(t))));
    bodies
}

fn with(body: &Value, name: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[name] = value;
    body
}

/// Texts of the greatest length, and one character longer. An address has a shape of its own.
fn long(example: &Value, name: &str, property: &Value) -> Vec<Value> {
    let max = match name {
        "lang" => Some(10),
        "email" => None,
        _ => property["maxLength"].as_u64(),
    };
    let start = if name == "target_url" { example[name].as_str().unwrap() } else { "" };
    let fill = |chars: u64| {
        let rest = usize::try_from(chars).unwrap() - start.chars().count();
        json!(format!("{start}{}", "a".repeat(rest)))
    };
    max.into_iter().flat_map(|max| [fill(max), fill(max + 1)]).collect()
}
