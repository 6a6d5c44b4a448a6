//! `generate` of the real binary makes up activity, which the service takes in once.

use serde_json::Value;
use tests::World;
use tokio::process::Command;

/// Activity that the binary makes up from a seed.
async fn generated(seed: &str) -> Vec<Value> {
    let output = Command::new(tests::program())
        .args(["generate", "--firms", "3", "--responses", "400", "--seed", seed])
        .env_clear()
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Reports all activity, a thousand at a time. Returns how much was new, and how much was not.
async fn report(world: &World, events: &[Value]) -> (u64, u64) {
    let mut sum = (0, 0);
    for chunk in events.chunks(1_000) {
        let answer = world.report(chunk).await.ok();
        sum.0 += answer.body["accepted"].as_u64().unwrap();
        let unchanged = ["duplicates", "stale"].map(|name| answer.body[name].as_u64().unwrap());
        sum.1 += unchanged.iter().sum::<u64>();
    }
    sum
}

async fn in_the_log(world: &World) -> i64 {
    world.count("events").await
}

/// A lead that is not hot is nothing to tell, and no duplicate either.
fn tells(event: &&Value) -> bool {
    event["type"] != "lead.scored" || event["data"]["band"] == "hot"
}

#[tokio::test]
async fn generated_activity_is_recorded_once() {
    let (world, events) = (World::new().await, generated("1").await);
    let sent = events.len() as u64;
    let (accepted, duplicates) = report(&world, &events).await;
    assert_eq!(accepted + duplicates, sent);
    assert!((1..sent / 10).contains(&duplicates), "{duplicates} of {sent}");
    let recorded = in_the_log(&world).await;
    let telling: Vec<Value> = events.iter().filter(tells).cloned().collect();
    assert_eq!(report(&world, &telling).await, (0, telling.len() as u64));
    assert_eq!(in_the_log(&world).await, recorded);
}
