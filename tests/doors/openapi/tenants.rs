//! Another firm's ids, in every place that takes an id (case B18; OWASP API1:2023).

use serde_json::{Value, json};
use tests::{Answer, Firm, World};
use uuid::Uuid;

use super::described::Operation;

/// A place for an id in an operation.
enum Place<'a> {
    Path,
    Query(String),
    Body(&'a str),
}

#[tokio::test]
async fn b18_another_firms_id_looks_unknown() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let others_hook = world.subscribe(&other, "https://hooks.example.com/other").await;
    let document = api::openapi::document(tests::BASE_URL);
    let mut places_seen = 0;
    for operation in Operation::all() {
        for place in places(&document, &operation) {
            places_seen += 1;
            let others = if operation.id() == "deleteHook" { others_hook } else { other.form };
            let theirs = call(&world, &firm, (&operation, &place), others).await;
            let nobodys = call(&world, &firm, (&operation, &place), world.id()).await;
            assert_eq!(theirs.status, 404, "{}: {}", operation.id(), theirs.body);
            assert_eq!(theirs.status, nobodys.status, "{}", operation.id());
            assert_eq!(theirs.bytes, nobodys.bytes, "{}", operation.id());
            assert_eq!(theirs.lasting_headers(), nobodys.lasting_headers(), "{}", operation.id());
        }
    }
    assert_eq!(places_seen, 6, "four in paths, one in a query, one in a body");
    let left = world.get(&other, "/hooks").await;
    assert_eq!(left.body[0]["id"], json!(others_hook));
}

fn places<'a>(document: &'a Value, operation: &'a Operation) -> Vec<Place<'a>> {
    let ids = operation.parameters().filter(|parameter| is_id(document, &parameter["schema"]));
    let mut places: Vec<_> = ids
        .map(|parameter| match parameter["in"].as_str().unwrap() {
            "path" => Place::Path,
            _ => Place::Query(parameter["name"].as_str().unwrap().to_owned()),
        })
        .collect();
    let content = &operation.described["requestBody"]["content"]["application/json"];
    let schema = resolved(document, &content["schema"]);
    let properties = schema["properties"].as_object().into_iter().flatten();
    places.extend(
        properties.filter(|(_, one)| is_id(document, one)).map(|(name, _)| Place::Body(name)),
    );
    places
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    schema["$ref"].as_str().map_or(schema, |name| document.pointer(&name[1..]).unwrap())
}

fn is_id(document: &Value, schema: &Value) -> bool {
    resolved(document, schema)["format"] == "uuid"
}

/// Calls the operation with its example and this id in this place.
async fn call(
    world: &World,
    firm: &Firm,
    (operation, place): (&Operation, &Place<'_>),
    id: Uuid,
) -> Answer {
    let own = firm.form.to_string();
    let mut body = operation.body();
    let path = operation.at(|name| match (name, place) {
        ("id", Place::Path) => id.to_string(),
        ("id", _) => own.clone(),
        _ => "form_submitted".to_owned(),
    });
    let path = match place {
        Place::Query(name) => format!("{path}?{name}={id}"),
        Place::Body(name) => {
            body[*name] = json!(id);
            path
        }
        Place::Path => path,
    };
    world.call(&firm.key, &operation.method, &path, body).await
}
