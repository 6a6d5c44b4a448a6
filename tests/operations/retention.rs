//! Retention of answers (ruling 59), as operators plan it.

use serde_json::{Value, json};
use tests::process::firmforms;
use tests::{Receiver, Reply, World};

async fn run_json(world: &World, arguments: &[&str]) -> Vec<Value> {
    let output = firmforms(&world.database).args(arguments).arg("--json").output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Of three responses one has a delivery that waits for its next try.
#[tokio::test]
async fn a_plan_counts_what_would_expire() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    receiver.reply([Reply::status(500)]);
    world.submit(&firm).await;
    world.deliver().await;
    world.submit(&world.firm().await).await;
    world.submit(&world.firm().await).await;
    // The command goes by the database's clock, and the world's stands.
    let days_ago = |days: u32| {
        format!(
            "update subjects set reported_on = current_date - {days};
             update responses set saved_at = now() - interval '{days} days',
                                  submitted_at = now() - interval '{days} days'"
        )
    };
    world.change_database(&days_ago(10)).await;
    let plan = ["retention", "plan", "--keep-responses-days"];
    assert!(
        run_json(&world, &[&plan[..], &["10"]].concat()).await.is_empty(),
        "the last day counts"
    );
    let firms = run_json(&world, &[&plan[..], &["9"]].concat()).await;
    let counts = |name: &str| firms.iter().map(|of| of[name].clone()).collect::<Vec<_>>();
    assert_eq!(counts("expire"), [1, 1, 0].map(Value::from));
    assert_eq!(counts("held"), [0, 0, 1].map(Value::from));
    assert!(firms[0]["bytes"].as_u64().is_some_and(|bytes| bytes > 100), "{firms:?}");
    assert_eq!(firms[2]["firm"], json!(firm.id));
    assert!(run_json(&world, &["retention", "plan"]).await.is_empty(), "by default all are kept");
    assert_eq!(world.count("responses").await, 3);
}

/// `doctor` says in one line that answers are kept for good.
#[tokio::test]
async fn doctor_says_how_long_answers_are_kept() {
    let world = World::new().await;
    for (days, says) in [(None, "for good"), (Some("400"), "for 400 days")] {
        let mut command = firmforms(&world.database);
        command.args(["doctor", "--json"]);
        command.envs(days.map(|days| ("FIRMFORMS_KEEP_RESPONSES_DAYS", days)));
        let output = command.output().await.unwrap();
        let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let about = |one: &&Value| one["check"] == "responses";
        let found: Vec<&Value> = findings.iter().filter(about).collect();
        assert!(found.len() == 1 && found[0]["says"].to_string().contains(says), "{found:?}");
    }
}
