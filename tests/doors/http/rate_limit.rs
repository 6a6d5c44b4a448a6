//! The remaining rate of a key in its answers (ruling 39).

use std::time::Duration;

use axum::body::Body;
use serde_json::{Value, json};
use tests::{Answer, World, make_request};

fn rate(answer: &Answer) -> Option<&str> {
    let policy = answer.headers.get("ratelimit-policy").map(|policy| policy.to_str().unwrap());
    let rate = answer.headers.get("ratelimit").map(|rate| rate.to_str().unwrap());
    assert_eq!(policy, rate.map(|_| r#""key";q=120;w=60"#), "both or none");
    rate
}

/// A client once learnt of the limit by a refusal.
#[tokio::test]
async fn answers_tell_a_key_its_remaining_rate() {
    let world = World::new().await;
    let firm = world.firm().await;
    for (left, method, path, status) in [
        (119, "GET", "/me", 200),
        (118, "GET", "/hooks", 200),
        (117, "GET", "/forms", 200),
        (116, "GET", "/nothing", 404),
        (115, "PUT", "/hooks", 405),
        (114, "POST", "/hooks", 400),
        (113, "DELETE", "/hooks/abc", 404),
    ] {
        let answer = world.call(&firm.key, method, path, Value::Null).await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(rate(&answer).unwrap(), format!(r#""key";r={left};t=60"#), "{method} {path}");
    }
    let long = json!({"trigger": "x".repeat(65 << 10)});
    let long = world.create_hook(&firm, long).await;
    assert_eq!((long.status.as_u16(), rate(&long)), (413, Some(r#""key";r=112;t=60"#)));
    world.suspend_firm(&firm).await;
    for (left, path) in [(111, "/me"), (110, "/hooks")] {
        let answer = world.get(&firm, path).await;
        assert_eq!(answer.code(), (403, "firm_inactive"));
        assert_eq!(rate(&answer).unwrap(), format!(r#""key";r={left};t=60"#));
    }
    for key in ["", "wrong", "ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        let answer = world.call(key, "GET", "/me", Value::Null).await;
        assert_eq!((answer.status.as_u16(), rate(&answer)), (401, None), "{key}");
    }
    let open = make_request("GET", "/api/v1/openapi.json", &[], Body::empty());
    assert_eq!(rate(&world.public(open).await), None);
}

#[tokio::test]
async fn the_remaining_rate_follows_the_window() {
    let world = World::new().await;
    let firm = world.firm().await;
    let ask = async |path: &str| rate(&world.get(&firm, path).await).unwrap().to_owned();
    for calls in 0..3 {
        // Three windows: the ring goes round at another place each time.
        for call in 0..70 {
            assert_eq!(ask("/me").await, format!(r#""key";r={};t=60"#, 119 - call), "{calls}");
        }
        world.pass(Duration::from_millis(20_500));
        for call in 70..120 {
            assert_eq!(ask("/hooks").await, format!(r#""key";r={};t=40"#, 119 - call), "{calls}");
        }
        for path in ["/me", "/hooks"] {
            let refused = world.get(&firm, path).await;
            assert_eq!(refused.code(), (429, "rate_limited"));
            assert_eq!(rate(&refused), Some(r#""key";r=0;t=40"#));
            assert_eq!(refused.headers["retry-after"], "40");
        }
        world.pass(Duration::from_millis(39_500));
        // The first 70 calls have left the window. The other 50 are 39.5 s old.
        assert_eq!(ask("/me").await, r#""key";r=69;t=21"#);
        world.pass(Duration::from_millis(20_500));
        assert_eq!(ask("/me").await, r#""key";r=118;t=40"#);
        world.pass(Duration::from_secs(61));
    }
}

/// A clock that was set back leaves calls of the future in the ring.
#[tokio::test]
async fn the_remaining_rate_stays_within_bounds() {
    let world = World::new().await;
    let firm = world.firm().await;
    for ring in [
        "array_fill(timestamptz '2030-01-01', array[120])",
        "array_fill(timestamptz '2000-01-01', array[120])",
        "array_fill(timestamptz '2030-01-01', array[60]) || array_fill(timestamptz '2000-01-01', array[60])",
        "array[timestamptz '2030-01-01']",
    ] {
        for place in [1, 2, 60, 61, 119, 120] {
            let calls = format!(
                "insert into key_calls (key_id, calls, place)
                 select '{}', calls, least({place}, cardinality(calls) + 1)
                   from (select {ring} as calls) r
                     on conflict (key_id) do update
                    set calls = excluded.calls, place = excluded.place",
                firm.key_id
            );
            world.change_database(&calls).await;
            let answer = world.get(&firm, "/me").await;
            assert_eq!(answer.status, 200, "{ring} {place}");
            let rate = rate(&answer).unwrap();
            let (left, seconds) =
                rate.strip_prefix(r#""key";r="#).unwrap().split_once(";t=").unwrap();
            assert!(left.parse::<u32>().unwrap() <= 120, "{rate}: {ring} {place}");
            assert!((1..=120).contains(&seconds.parse::<u64>().unwrap()), "{rate}: {ring} {place}");
        }
    }
}
