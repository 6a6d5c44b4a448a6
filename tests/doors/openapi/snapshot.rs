//! The description as a file: a change of the API is seen as a change of `tests/snapshots`.

use std::path::Path;
use std::process::Command;

use api::openapi::document;
use axum::body::Body;
use serde_json::Value;
use tests::{BASE_URL, World, make_request};

use super::described::Operation;

#[test]
fn the_description_matches_its_snapshot() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/openapi.json");
    let now = format!("{:#}\n", document(BASE_URL));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let agreed = std::fs::read_to_string(&path).unwrap();
    let differing = now.lines().zip(agreed.lines()).enumerate().find(|(_, (new, old))| new != old);
    if let Some((number, (new, old))) = differing {
        panic!(
            "line {} was {:?} and is {:?}; if that is meant, run this test with \
             UPDATE_SNAPSHOTS=1 and look at the difference",
            number + 1,
            old.trim(),
            new.trim()
        );
    }
    assert_eq!(now.lines().count(), agreed.lines().count(), "one is longer: see UPDATE_SNAPSHOTS");
}

/// `firmforms openapi` needs no database.
#[test]
fn the_command_prints_the_served_description() {
    let printed = Command::new(tests::program())
        .args(["openapi", "--base-url", "https://forms.test/"])
        .output()
        .unwrap();
    assert!(printed.status.success(), "{printed:?}");
    assert_eq!(serde_json::from_slice::<Value>(&printed.stdout).unwrap(), document(BASE_URL));
}

#[test]
fn the_description_names_version_and_server() {
    let document = document(BASE_URL);
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], "1");
    assert_eq!(document["servers"][0]["url"], BASE_URL);
}

/// B5: the firm may be suspended, and the key wrong.
#[tokio::test]
async fn b5_the_description_needs_no_key() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.suspend_firm(&firm).await;
    let url = "/api/v1/openapi.json";
    for key in [None, Some(&*firm.key), Some("wrong")] {
        let headers: Vec<_> = key.map(|key| ("x-api-key", key)).into_iter().collect();
        let served = world.public(make_request("GET", url, &headers, Body::empty())).await;
        assert_eq!(served.status, 200, "{key:?}");
        assert_eq!(served.headers["content-type"], "application/json");
        assert_eq!(served.body, document(BASE_URL));
    }
    let posted = world.public(make_request("POST", url, &[], Body::empty())).await;
    posted.refused(401, "unauthorized");
}

/// `Allow` of every described path names exactly the described methods.
#[tokio::test]
async fn exactly_the_described_methods_are_routed() {
    let world = World::new().await;
    let firm = world.firm().await;
    let operations = Operation::all();
    for operation in &operations {
        let path = operation.at(|_| world.id().to_string());
        let refused = world.call(&firm.key, "PATCH", &path, Value::Null).await;
        let allow = refused.headers["allow"].to_str().unwrap();
        let routed: Vec<_> = allow.split(',').filter(|method| *method != "HEAD").collect();
        let described = operations.iter().filter(|other| other.path == operation.path);
        let mut described: Vec<_> = described.map(|other| other.method.as_str()).collect();
        described.sort_unstable();
        assert_eq!(routed, described, "{path}");
    }
}
