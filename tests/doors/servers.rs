//! Several servers on one database share their counters.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::json;
use tests::{Firm, TestDatabase, World};

use tests::process::{Served, call, serve};

const TARGET: &str = r#"{"target_url":"https://93.184.216.34/","trigger":"form_submitted"}"#;

/// Three servers, and a world that prepares their data.
async fn three() -> (World, Vec<Served>) {
    let world = World::real_time(TestDatabase::new().await).await;
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(serve(&world.database, &["--role", "api"]).await);
    }
    (world, servers)
}

/// Makes calls at once, spread over the servers. Returns the answers by status.
async fn at_once(
    servers: &[Served],
    count: usize,
    keys: &[&str],
    (request, body): ((&str, &str), &str),
) -> BTreeMap<u16, Vec<String>> {
    let calls = (0..count).map(|n| {
        let (server, key) = (servers[n % servers.len()].public, keys[n % keys.len()]);
        call(server, request, key, body)
    });
    let mut answers: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for (status, answer) in join_all(calls).await {
        answers.entry(status.as_u16()).or_default().push(answer);
    }
    answers
}

fn retry_after(answer: &str) -> u64 {
    let line = answer.lines().find_map(|line| line.strip_prefix("retry-after: "));
    line.unwrap().parse().unwrap()
}

async fn another_key(world: &World, firm: &Firm) -> String {
    let key = world.new_key(firm, "second").await;
    key.key.as_str().to_owned()
}

/// B11, in five runs: of 200 calls at once 120 pass. B12: another key of the firm has its own rate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b11_three_servers_pass_120_calls() {
    let (world, servers) = three().await;
    for _ in 0..5 {
        let firm = world.firm().await;
        let me = (("GET", "/me"), "");
        let answers = at_once(&servers, 200, &[&firm.key], me).await;
        let counts: Vec<_> = answers.iter().map(|(status, all)| (*status, all.len())).collect();
        assert_eq!(counts, [(200, 120), (429, 80)]);
        for answer in &answers[&429] {
            assert!(answer.contains(r#""code":"rate_limited""#), "{answer}");
            assert!((50..=60).contains(&retry_after(answer)), "{answer}");
        }
        let other = another_key(&world, &firm).await;
        assert_eq!(at_once(&servers, 3, &[&other], me).await[&200].len(), 3);
    }
}

/// B13: of 60 wrong keys at once 20 get 401, over all servers. The keys are well-formed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b13_three_servers_count_wrong_keys_together() {
    let (world, servers) = three().await;
    let firm = world.firm().await;
    let wrong = format!("ffk_{}", "A".repeat(43));
    let me = (("GET", "/me"), "");
    let answers = at_once(&servers, 60, &[&wrong], me).await;
    assert_eq!(
        answers.iter().map(|(s, all)| (*s, all.len())).collect::<Vec<_>>(),
        [(401, 20), (429, 40)]
    );
    assert_eq!(at_once(&servers, 3, &[&firm.key], me).await[&200].len(), 3);
}

/// B9: 20 requests at once, at 99 subscriptions, over two keys and three servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_racing_creates_fill_one_last_place() {
    let (world, servers) = three().await;
    let firm = world.firm().await;
    let other = another_key(&world, &firm).await;
    for _ in 0..99 {
        world.subscribe(&firm, "https://93.184.216.34/").await;
    }
    // The key that made the subscriptions has nearly used up its rate.
    let keys = [other.as_str(), &another_key(&world, &firm).await].map(str::to_owned);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let answers = at_once(&servers, 20, &keys, (("POST", "/hooks"), TARGET)).await;
    let counts: Vec<_> = answers.iter().map(|(status, all)| (*status, all.len())).collect();
    assert_eq!(counts, [(201, 1), (409, 19)]);
    assert!(answers[&409].iter().all(|answer| answer.contains("too_many_hooks")));
    let made = json!(answers[&201][0].lines().last());
    let id = made.as_str().unwrap().split('"').nth(3).unwrap().to_owned();
    let delete = (("DELETE", format!("/hooks/{id}")), "");
    let statuses = join_all(
        keys.iter().map(|key| call(servers[0].public, (delete.0.0, &delete.0.1), key, "")),
    )
    .await;
    assert_eq!(statuses.iter().filter(|(status, _)| *status == 200).count(), 1);
    let again = at_once(&servers, 1, &keys, (("POST", "/hooks"), TARGET)).await;
    assert_eq!(again[&201].len(), 1);
}
