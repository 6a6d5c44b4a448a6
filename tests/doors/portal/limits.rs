//! Rates of the portal: look-ups of a request, wrong codes and cookies, requests of a session,
//! samples.

use std::time::Duration;

use api::portal::sessions::{self, PortalSession, PortalStanding};
use api::portal::views;
use axum::http::Request;
use axum::http::request::Parts;
use serde_json::json;
use tests::counting_statements;

use super::{PortalScene, PortalVisitor, get, order_link, path_of};

const COOKIE: &str = "__Host-firmforms_portal";

fn parts() -> Parts {
    Request::get("/portal/keys").body(()).unwrap().into_parts().0
}

/// A well-formed code or cookie.
fn secret(number: usize) -> String {
    format!("{number:043}")
}

async fn session_of(visitor: &PortalVisitor<'_>) -> PortalSession {
    let (_, cookie) = visitor.cookie.split_once('=').unwrap();
    let found = sessions::find(visitor.world.service(), &parts(), &[cookie]).await.unwrap();
    let PortalStanding::Open(session) = found else { panic!("{found:?}") };
    session
}

/// One request with 600 cookies once made 600 look-ups.
#[tokio::test]
async fn many_cookies_cost_two_statements() {
    let scene = PortalScene::new().await;
    let service = scene.world.service();
    let known: Vec<String> = (0..600).map(secret).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let (found, statements) = counting_statements(sessions::find(service, &parts(), &known)).await;
    assert!(matches!(found, Ok(PortalStanding::Unknown)), "{found:?}");
    assert!(statements <= 2, "the look-up and the count, not {statements}");
    let empty = vec!["AAAA"; 600];
    let (found, statements) = counting_statements(sessions::find(service, &parts(), &empty)).await;
    assert!(matches!(found, Ok(PortalStanding::Unknown)), "{found:?}");
    assert_eq!(statements, 0, "of another form");
    let owner = scene.owner().await;
    let twice = format!("{COOKIE}=; {COOKIE}={}; {}", secret(1), owner.cookie);
    let page = get(&scene.world, "/portal/keys", &[("cookie", &twice)]).await;
    assert_eq!(page.status, 200, "{}", page.text());
}

/// Wrong codes could once be tried without a limit.
#[tokio::test]
async fn after_20_wrong_codes_an_address_waits() {
    let scene = PortalScene::new().await;
    for number in 0..20 {
        let wrong = if number % 2 == 0 { secret(number) } else { "AAAA".to_owned() };
        let path = format!("/portal/enter?code={wrong}");
        assert_eq!(get(&scene.world, &path, &[]).await.status, 401, "{number}");
    }
    for path in [format!("/portal/enter?code={}", secret(99)), "/portal/enter?code=x".into()] {
        let refused = get(&scene.world, &path, &[]).await;
        assert_eq!(refused.status, 429, "{path}: {}", refused.text());
        assert_eq!(refused.headers["retry-after"], "60", "{path}");
    }
    let owner = scene.owner().await;
    assert_eq!(owner.get("/portal/keys").await.status, 200, "the right code is let in");
}

/// Wrong cookies could once be tried without a limit.
#[tokio::test]
async fn after_20_wrong_cookies_an_address_waits() {
    let scene = PortalScene::new().await;
    let asked = async |number: usize| {
        let cookie = format!("{COOKIE}={}", secret(number));
        get(&scene.world, "/portal/keys", &[("cookie", &cookie)]).await
    };
    for number in 0..20 {
        assert_eq!(asked(number).await.status, 401, "{number}");
    }
    let refused = asked(20).await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(get(&scene.world, "/portal/keys", &[]).await.status, 401, "without a cookie");
}

/// A session could once append thousands of readings.
#[tokio::test]
async fn a_session_makes_120_requests_a_minute() {
    let scene = PortalScene::new().await;
    let (owner, other) = (scene.owner().await, scene.owner().await);
    for _ in 0..120 {
        assert_eq!(owner.get("/portal/secret").await.status, 200);
    }
    let refused = owner.get("/portal/hooks").await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert_eq!(refused.headers["retry-after"], "60");
    assert!(refused.text().contains("too many requests"), "{}", refused.text());
    assert_eq!(other.get("/portal/secret").await.status, 200, "another session");
    scene.world.pass(Duration::from_secs(60));
    assert_eq!(owner.get("/portal/secret").await.status, 200);
}

/// An ended session could once be asked for without a limit.
#[tokio::test]
async fn an_ended_session_keeps_its_rate() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    scene.world.pass(Duration::from_secs(30 * 60));
    for _ in 0..120 {
        assert_eq!(owner.get("/portal/secret").await.status, 401);
    }
    assert_eq!(owner.get("/portal/secret").await.status, 429);
}

/// The limit is the firm's. While a sample is under way, a second one is refused. A script could
/// once send samples without a limit.
#[tokio::test]
async fn samples_are_limited_to_five_a_minute() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let path = format!("/portal/hooks/{}/test", scene.hook);
    let before = scene.receiver.received().len();
    scene.receiver.hold();
    let (first, second) = tokio::join!(owner.send(&path, &[]), async {
        scene.receiver.wait_for(before + 1).await;
        let second = owner.send(&path, &[]).await;
        scene.receiver.release();
        second
    });
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(second.status, 429, "while the first is under way: {}", second.text());
    for _ in 1..5 {
        assert_eq!(owner.send(&path, &[]).await.status, 200);
    }
    let sixth = owner.send(&path, &[]).await;
    assert_eq!(sixth.status, 429, "{}", sixth.text());
    assert_eq!(sixth.headers["retry-after"], "60");
    assert_eq!(scene.receiver.received().len(), before + 5);
    scene.world.pass(Duration::from_secs(60));
    assert_eq!(owner.send(&path, &[]).await.status, 200);
}

/// The history of a subscription may have many events. The history of another firm's subscription
/// was once read before the refusal.
#[tokio::test]
async fn another_firms_subscription_costs_one_statement() {
    let scene = PortalScene::new().await;
    let other = scene.world.firm().await;
    let link = order_link(&scene.world, other.id, other.owner, json!({})).await;
    let stranger = PortalVisitor::with(&scene.world, &path_of(&link)).await;
    let session = session_of(&stranger).await;
    let service = scene.world.service();
    let (found, statements) = counting_statements(views::hook(service, &session, scene.hook)).await;
    assert_eq!(found.err(), Some(api::Error::NotFound));
    assert_eq!(statements, 1);
}
