//! Rotating the signing secret (contract, Authentication 9 and Signature 3; ruling 32): every
//! process signs later claims with the new secret.

use std::collections::BTreeSet;
use std::time::Duration;

use api::Error;
use api::commands::secrets::{self, RevealedSecret};
use deliverer::send::deliver_once;
use domain::delivery::signature::{SignedRequest, verify_request};
use domain::event::Actor;
use futures::future::join_all;
use serde_json::json;
use tests::{
    Answer, Firm, Received, Receiver, Reply, TestDatabase, World, activity, later, make_request,
};

use tests::process::firmforms;

async fn reveal(world: &World, firm: &Firm) -> RevealedSecret {
    secrets::reveal(world.service(), firm.id, Actor::System).await.unwrap()
}

/// Rotates as the product; an empty body is none.
async fn rotate(world: &World, firm: &Firm, body: &str) -> Answer {
    let path = format!("/internal/v1/firms/{}/webhook-secret/rotate", firm.id);
    world.internal(make_request("POST", &path, &[], body.to_owned())).await
}

/// Another process on the databases of a world, at the same time.
async fn beside(world: &World) -> World {
    let TestDatabase { main, keyring, .. } = &world.database;
    let database = TestDatabase::from_main(main.clone(), keyring.clone());
    World::at(database, world.clock.clone()).await
}

/// Which of the secrets signed it.
fn signed_by(world: &World, received: &Received, secrets: [&str; 2]) -> [bool; 2] {
    let now = world.clock.now().get().timestamp();
    let header = received.header("x-service-signature");
    let request = SignedRequest { header, body: &received.body };
    secrets.map(|secret| verify_request(request, secret, now).is_ok())
}

/// Every process signs with the new secret, retries too.
#[tokio::test]
async fn b17_a_rotation_reaches_every_later_request() {
    let world = World::new().await;
    let (firm, receiver, other) =
        (world.firm().await, Receiver::start().await, beside(&world).await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let old = reveal(&world, &firm).await;
    let old = old.secret.as_str();
    receiver.reply([Reply::status(500), Reply::status(500)]);
    world.submit(&firm).await;
    assert_eq!(deliver_once(other.deliverer()).await.unwrap(), 1);
    world.pass(Duration::from_secs(30));

    let answer = rotate(&world, &firm, r#"{"reason":"a laptop was stolen"}"#).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["cache-control"]),
        (200, &"no-store".parse().unwrap())
    );
    let new = answer.body["secret"].as_str().unwrap();
    assert!(new.starts_with("whsec_") && new.len() == old.len() && new != old);
    assert_eq!(answer.body, json!({"secret": new, "rotated_at": "2026-11-01T12:00:30.000Z"}));
    assert_eq!(reveal(&other, &firm).await.secret.as_str(), new);
    assert_eq!(signed_by(&world, &receiver.received()[0], [old, new]), [true, false]);

    world.submit(&firm).await;
    assert_eq!(deliver_once(other.deliverer()).await.unwrap(), 1, "new, by the other process");
    world.pass(Duration::from_secs(30));
    assert_eq!(deliver_once(world.deliverer()).await.unwrap(), 1, "the retry of before");
    world.pass(Duration::from_secs(30));
    assert_eq!(deliver_once(other.deliverer()).await.unwrap(), 1, "the retry of after");
    let received = receiver.received();
    assert_eq!((&received[0].body, received.len()), (&received[2].body, 4));
    for later in &received[1..] {
        assert_eq!(signed_by(&world, later, [old, new]), [false, true]);
    }
}

#[tokio::test]
async fn a_rotation_logs_reason_and_no_secret() {
    let world = World::new().await;
    let firm = world.firm().await;
    let old = reveal(&world, &firm).await;
    let mut reasons = Vec::new();
    for body in ["", "{}", r#"{"reason":null}"#, r#"{"reason":" a stolen laptop "}"#] {
        let answer = rotate(&world, &firm, body).await;
        assert_eq!(answer.status, 200, "{body} {}", answer.text());
        let new = answer.body["secret"].as_str().unwrap();
        for secret in [old.secret.as_str(), new] {
            assert_eq!(world.columns_holding(secret).await, [] as [String; 0]);
        }
        reasons.push(if body.contains("laptop") { json!("a stolen laptop") } else { json!(null) });
    }
    let logged = world.events_of_type("SecretRotated").await;
    assert!(logged.iter().map(|event| event.field("reason")).eq(&reasons), "{logged:?}");
    assert!(logged.iter().all(|event| event.actor().starts_with("product:")), "{logged:?}");
    let long = json!({"reason": "é".repeat(201)}).to_string();
    for body in [r#"{"reason":""}"#, r#"{"reason":5}"#, r#"{"why":"x"}"#, "[]", &long] {
        assert_eq!(rotate(&world, &firm, body).await.code(), (400, "invalid_request"), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_rotations_all_happen_and_one_stands() {
    let world = World::new().await;
    let firm = world.firm().await;
    let raced = join_all((0..6).map(|_| rotate(&world, &firm, ""))).await;
    let secrets: BTreeSet<&str> =
        raced.iter().map(|answer| answer.body["secret"].as_str().unwrap()).collect();
    assert_eq!(secrets.len(), raced.len());
    assert!(secrets.contains(reveal(&world, &firm).await.secret.as_str()));
    assert_eq!(world.count_events("SecretRotated").await, 6);
}

/// A closed firm cannot rotate, and is shown its last secret.
#[tokio::test]
async fn b5_a_suspended_firm_rotates_its_secret() {
    let world = World::new().await;
    let firm = world.firm().await;
    let report = async |kind, second| {
        world.report_one(later(activity(firm.id, kind, json!({})), second)).await;
    };
    let nobody = Actor::Member(world.id());
    let refused = secrets::rotate(world.service(), firm.id, nobody, None).await;
    assert_eq!(refused.unwrap_err(), Error::NotAManager);
    report("firm.suspended", 1).await;
    let rotated = rotate(&world, &firm, "").await;
    assert_eq!(rotated.status, 200);
    report("firm.closed", 2).await;
    rotate(&world, &firm, "").await.refused(403, "firm_inactive");
    assert_eq!(reveal(&world, &firm).await.secret.as_str(), rotated.body["secret"]);
    let nobody = Firm { id: world.id(), ..firm.clone() };
    rotate(&world, &nobody, "").await.refused(404, "firm_not_found");
}

#[tokio::test]
async fn an_operator_rotates_at_the_terminal() {
    let world = World::new().await;
    let firm = world.firm().await;
    let arguments = ["secrets", "rotate", "--yes", "--firm", &firm.id.to_string(), "--json"];
    let said = firmforms(&world.database).args(arguments).output().await.unwrap();
    assert!(said.status.success(), "{said:?}");
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["secret"], reveal(&world, &firm).await.secret.as_str());
}
