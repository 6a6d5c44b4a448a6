//! Calls per minute: of a key, and with wrong keys from an address (rulings 1, 3, 4 and 5).

use std::net::IpAddr;
use std::time::Duration;

use api::public::PeerAddress;
use axum::body::Body;
use axum::http::Request;
use eventstore::Clock;
use serde_json::Value;
use tests::{Answer, Firm, TestDatabase, World};

/// A call to `GET /me` from this address, with these hops in `X-Forwarded-For`.
async fn from(world: &World, peer: &str, key: Option<&str>, hops: &[&str]) -> Answer {
    let mut request =
        Request::get("/api/v1/me").extension(PeerAddress(peer.parse::<IpAddr>().unwrap()));
    if let Some(key) = key {
        request = request.header("x-api-key", key);
    }
    for hop in hops {
        request = request.header("x-forwarded-for", *hop);
    }
    world.public(request.body(Body::empty()).unwrap()).await
}

fn wrong_key(n: u32) -> String {
    format!("ffk_{n:042}A")
}

async fn me(world: &World, firm: &Firm) -> u16 {
    world.get(firm, "/me").await.status.as_u16()
}

/// B11: a call leaves the window after 60 s, and a refused call never enters the window.
#[tokio::test]
async fn b11_the_window_of_a_key_slides() {
    let world = World::new().await;
    let firm = world.firm().await;
    for _ in 0..60 {
        assert_eq!(me(&world, &firm).await, 200);
    }
    world.pass(Duration::from_millis(30_500));
    for _ in 0..60 {
        assert_eq!(me(&world, &firm).await, 200);
    }
    for _ in 0..5 {
        let refused = world.get(&firm, "/me").await;
        assert_eq!(refused.code(), (429, "rate_limited"));
        assert_eq!(refused.headers["retry-after"], "30");
    }
    world.pass(Duration::from_secs(30));
    for _ in 0..60 {
        assert_eq!(me(&world, &firm).await, 200);
    }
    let refused = world.get(&firm, "/me").await;
    assert_eq!(
        (refused.status.as_u16(), &refused.headers["retry-after"]),
        (429, &"30".parse().unwrap())
    );
    world.pass(Duration::from_secs(30));
    assert_eq!(me(&world, &firm).await, 200);
}

/// Ruling 1: the rate is checked after the key and before the firm, the route and the body.
#[tokio::test]
async fn the_rate_is_checked_before_the_firm() {
    let world = World::new().await;
    let firm = world.firm().await;
    for _ in 0..120 {
        assert_eq!(me(&world, &firm).await, 200);
    }
    world.suspend_firm(&firm).await;
    for (method, path) in [("GET", "/me"), ("GET", "/nothing"), ("PUT", "/me"), ("POST", "/hooks")]
    {
        let refused = world.call(&firm.key, method, path, Value::Null).await;
        assert_eq!(refused.code(), (429, "rate_limited"), "{method} {path}");
    }
    world.pass(Duration::from_secs(60));
    world.get(&firm, "/me").await.refused(403, "firm_inactive");
}

/// B13: wrong keys count by address and minute. A good key still works.
#[tokio::test]
async fn b13_the_21st_wrong_key_gets_429() {
    let world = World::new().await;
    let firm = world.firm().await;
    let revoked = world.new_key(&firm, "old").await;
    world.revoke_key(&firm, revoked.id).await;
    let (sprayer, other) = ("192.0.2.1", "192.0.2.2");
    for n in 0..18 {
        assert_eq!(from(&world, sprayer, Some(&wrong_key(n)), &[]).await.status, 401);
        assert_eq!(from(&world, sprayer, None, &[]).await.status, 401, "missing is not wrong");
    }
    assert_eq!(from(&world, sprayer, Some("ffk_short"), &[]).await.status, 401);
    assert_eq!(from(&world, sprayer, Some(revoked.key.as_str()), &[]).await.status, 401);
    for key in [&wrong_key(99), "ffk_short", revoked.key.as_str()] {
        let refused = from(&world, sprayer, Some(key), &[]).await;
        assert_eq!(refused.code(), (429, "rate_limited"), "{key}");
        assert_eq!(refused.headers["retry-after"], "60");
    }
    assert_eq!(from(&world, sprayer, None, &[]).await.status, 401);
    assert_eq!(from(&world, sprayer, Some(&firm.key), &[]).await.status, 200, "a good key works");
    assert_eq!(from(&world, other, Some(&wrong_key(1)), &[]).await.status, 401);
    world.pass(Duration::from_secs(60));
    assert_eq!(from(&world, sprayer, Some(&wrong_key(1)), &[]).await.status, 401);
}

/// A second server, which counted none of the wrong keys, writes nothing over the limit either.
#[tokio::test]
async fn wrong_keys_over_the_limit_write_nothing() {
    let database = TestDatabase::new().await;
    let again = TestDatabase::from_main(database.main.clone(), database.keyring.clone());
    let clock = || Clock::standing_at("2026-11-01T12:00:00.000Z".parse().unwrap());
    let first = World::at(again, clock()).await;
    let second = World::at(database, clock()).await;
    let sprayer = "192.0.2.1";
    for n in 0..20 {
        assert_eq!(from(&first, sprayer, Some(&wrong_key(n)), &[]).await.status, 401);
    }
    let version = async || -> (String, String, String) {
        let row = "select xmin::text, xmax::text, ctid::text from wrong_keys";
        sqlx::query_as(row).fetch_one(first.pool()).await.unwrap()
    };
    let before = version().await;
    for n in 0..40 {
        let refused = from(&second, sprayer, Some(&wrong_key(n)), &[]).await;
        assert_eq!(refused.code(), (429, "rate_limited"));
        assert_eq!(refused.headers["retry-after"], "60");
    }
    assert_eq!(version().await, before);
    first.pass(Duration::from_secs(60));
    second.pass(Duration::from_secs(60));
    for world in [&second, &first] {
        assert_eq!(from(world, sprayer, Some(&wrong_key(1)), &[]).await.status, 401);
    }
}

/// B14: forwarded addresses count only behind a trusted proxy.
#[tokio::test]
async fn b14_forged_addresses_evade_no_count() {
    let database = TestDatabase::new().await;
    let clock = Clock::standing_at("2026-11-01T12:00:00.000Z".parse().unwrap());
    let world = World::with(database, clock, |mut setup| {
        setup.trusted_proxies.push("10.0.0.0/8".parse().unwrap());
        setup
    })
    .await;
    let call = async |peer: &str, hops: &[&str]| {
        from(&world, peer, Some(&wrong_key(1)), hops).await.status.as_u16()
    };
    for n in 0..20 {
        assert_eq!(call("192.0.2.1", &[&format!("1.1.1.{n}")]).await, 401);
        assert_eq!(call("10.0.0.1", &[&format!("1.1.1.{n}, 192.0.2.7")]).await, 401);
        assert_eq!(call(&format!("2001:db8::{n}"), &[]).await, 401);
    }
    assert_eq!(call("192.0.2.1", &["1.1.1.99"]).await, 429);
    assert_eq!(call("::ffff:192.0.2.1", &[]).await, 429, "mapped is the same");
    assert_eq!(call("10.0.0.1", &["1.1.1.99, 192.0.2.7"]).await, 429);
    assert_eq!(call("10.0.0.2", &["192.0.2.7, 10.0.0.1"]).await, 429, "another way, one client");
    assert_eq!(call("10.0.0.1", &["192.0.2.8"]).await, 401);
    assert_eq!(call("2001:db8::ffff", &[]).await, 429, "one network of 64 bits");
    assert_eq!(call("2001:db8:0:1::1", &[]).await, 401);
}

/// B14: there is a fixed number of counters, in the table and in the server.
#[tokio::test]
async fn b14_addresses_with_one_counter_share_it() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (one, two) = sharing();
    for _ in 0..20 {
        assert_eq!(from(&world, &one, Some(&wrong_key(1)), &[]).await.status, 401);
    }
    assert_eq!(from(&world, &two, Some(&wrong_key(1)), &[]).await.status, 429);
    assert_eq!(from(&world, &two, Some(&firm.key), &[]).await.status, 200);
    assert_eq!(world.count("wrong_keys").await, 1);
}

/// Two addresses with one counter.
fn sharing() -> (String, String) {
    let mut seen = std::collections::HashMap::new();
    for n in 1.. {
        let address = format!("2001:db8:0:{n:x}::1");
        let counter = domain::access::rate::address_counter(address.parse().unwrap());
        if let Some(other) = seen.insert(counter, address.clone()) {
            return (other, address);
        }
    }
    unreachable!("there are fewer counters than networks")
}
