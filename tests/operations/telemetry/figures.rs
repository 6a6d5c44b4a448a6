//! The metrics of a story at `GET /metrics`, and the values that no metric has.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::Executor;
use telemetry::metrics;
use tests::{Receiver, Reply, TestDatabase, World, raw, submitted};

use tests::process::{call, get, serve};
use tests::scrape::Scrape;

const DELIVERED: &str = r#"firmforms_delivery_attempts_total{outcome="delivered",class="2xx"}"#;
const FAILED: &str = r#"firmforms_delivery_attempts_total{outcome="failed",class="410"}"#;
const NO_NAME: &str = r#"firmforms_delivery_attempts_total{outcome="retry",class="dns"}"#;

/// The series that the story leaves behind.
const STORY: &[(&str, f64)] = &[
    (r#"firmforms_intake_reports_total{result="accepted"}"#, 1.0),
    (r#"firmforms_intake_reports_total{result="duplicate"}"#, 1.0),
    (r#"firmforms_wrong_keys_total{kind="unknown"}"#, 1.0),
    (r#"firmforms_wrong_keys_total{kind="malformed"}"#, 1.0),
    (
        r#"firmforms_http_requests_total{door="public",route="/api/v1/me",method="GET",status="200"}"#,
        1.0,
    ),
    (
        r#"firmforms_http_requests_total{door="public",route="/api/v1/me",method="other",status="405"}"#,
        1.0,
    ),
    (
        r#"firmforms_http_requests_total{door="public",route="/api/v1/forms/{id}",method="GET",status="404"}"#,
        1.0,
    ),
    (
        r#"firmforms_http_requests_total{door="public",route="unknown",method="GET",status="404"}"#,
        1.0,
    ),
    (
        r#"firmforms_http_requests_total{door="internal",route="/internal/v1/activity",method="POST",status="202"}"#,
        2.0,
    ),
    (r#"firmforms_api_refusals_total{code="unauthorized"}"#, 2.0),
    (r#"firmforms_api_refusals_total{code="rate_limited"}"#, 0.0),
    ("firmforms_delivery_attempt_duration_seconds_count", 3.0),
    (r#"firmforms_lanes{state="waiting"}"#, 1.0),
    (r#"firmforms_follower_lag_seconds{follower="deliveries"}"#, 0.0),
    (r#"firmforms_worker_step_failures_total{worker="spread"}"#, 0.0),
    ("firmforms_backlog_oldest_due_seconds", 0.0),
    ("firmforms_delivery_permits", 256.0),
    ("firmforms_deliveries_in_flight", 0.0),
    ("firmforms_clock_fault", 0.0),
    ("firmforms_database_up", 1.0),
];

/// No metric has a name, an address, an id or a secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_metrics_count_a_story_without_names() {
    let world = World::real_time(TestDatabase::new().await).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let (good, gone) = (receiver.url("/canary?canary=1"), Receiver::start().await);
    world.subscribe(&firm, &good).await;
    world.subscribe(&firm, &gone.url("/gone")).await;
    world.subscribe(&firm, "https://canary.invalid/hook").await;
    gone.reply([Reply::status(410).body(b"canary")]);
    let served = serve(&world.database, &[]).await;
    let response_id = world.id();
    for _ in 0..2 {
        let batch = json!([submitted(&firm, response_id)]).to_string();
        assert_eq!(raw::report(served.internal, world.token(), &batch).await.unwrap(), 202);
    }
    let wrong = format!("ffk_{}", "A".repeat(43));
    for (path, key, status) in [
        ("/me", firm.key.as_str(), 200),
        ("/forms/canary", &firm.key, 404),
        ("/canary/canary", &firm.key, 404),
        ("/me", &wrong, 401),
        ("/me", "canary", 401),
    ] {
        assert_eq!(call(served.public, ("GET", path), key, "").await.0, status);
    }
    assert_eq!(call(served.public, ("CANARY", "/me"), &firm.key, "").await.0, 405);

    let told = Scrape::until(served.internal, |told| {
        [DELIVERED, FAILED, NO_NAME].iter().all(|series| told.value(series) == 1.0)
            && told.value(r#"firmforms_backlog_deliveries{state="waiting"}"#) == 1.0
            && told.value(r#"firmforms_follower_lag_positions{follower="deliveries"}"#) == 0.0
    })
    .await;
    let readers = ["used", "idle", "free"]
        .map(|state| format!(r#"firmforms_pool_connections{{pool="readers",state="{state}"}}"#));
    assert_eq!(readers.iter().map(|series| told.value(series)).sum::<f64>(), 12.0, "{}", told.text);
    for (series, value) in STORY {
        assert_eq!(told.series.get(*series), Some(value), "{series} in\n{}", told.text);
    }
    assert!(told.value("firmforms_record_duration_seconds_count") >= 1.0);
    assert_whole(&told);
    let (firm_id, response_id) = (firm.id.to_string(), response_id.to_string());
    let names =
        ["canary", "127.0.0.1", "ffk_", "whsec_", "Bearer", &firm_id, &response_id, world.token()];
    for name in names {
        assert!(
            !told.text.to_lowercase().contains(&name.to_lowercase()),
            "{name} in\n{}",
            told.text
        );
    }
}

/// Every metric shows from the start. The documentation has all metrics, and no others.
fn assert_whole(told: &Scrape) {
    let documented = include_str!("../../../docs/reference/metrics.md");
    let (ours, process): (Vec<&str>, Vec<&str>) =
        told.figures().into_iter().partition(|name| name.starts_with("firmforms_"));
    // CPU time counts whole seconds.
    assert!(process.contains(&"process_cpu_seconds_total"), "{process:?}");
    for name in ["process_resident_memory_bytes", "process_open_fds"] {
        assert!(process.contains(&name) && told.value(name) > 0.0, "{name}");
    }
    let mut named = ours;
    named.sort_unstable();
    let mut all: Vec<&str> = metrics::ALL.iter().map(|metric| metric.name).collect();
    all.sort_unstable();
    assert_eq!(named, all);
    let rows = documented.lines().filter_map(|line| line.strip_prefix("| `firmforms_"));
    let mut rows: Vec<String> =
        rows.filter_map(|row| Some(format!("firmforms_{}", row.split('`').next()?))).collect();
    rows.sort_unstable();
    assert_eq!(rows, all, "docs/reference/metrics.md");
}

/// The outbox is locked. All other metrics answer in time, and one metric is the age of the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_a_scrape_answers_during_database_locks() {
    let world = World::real_time(TestDatabase::new().await).await;
    let served = serve(&world.database, &[]).await;
    assert_eq!(Scrape::new(served.internal).await.value("firmforms_database_up"), 1.0);
    let mut transaction = world.pool().begin().await.unwrap();
    transaction.execute("lock table outbox in access exclusive mode").await.unwrap();
    let age = "firmforms_database_figures_age_seconds";
    let held = "insert into pauses (pause_id, kind, reason, actor, paused_at)
                values (gen_random_uuid(), 'all', 'r', 'system', now())";
    world.change_database(held).await;
    let told = Scrape::until(served.internal, |told| {
        told.value(age) >= 5.0 && told.value("firmforms_pauses") == 1.0
    })
    .await;
    assert_eq!(told.value("firmforms_database_up"), 1.0, "it is busy, not away\n{}", told.text);
    // A second scrape gets equal values at once: the database is not asked for some seconds.
    let asked = Instant::now();
    for _ in 0..20 {
        assert!(Scrape::new(served.internal).await.value(age) >= 5.0);
    }
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert_eq!(get(served.internal, "/readyz").await.0, 200, "it is busy, not away");
    transaction.rollback().await.unwrap();
    Scrape::until(served.internal, |told| told.value(age) < 5.0).await;
}

/// Nobody sends: the oldest due delivery waits, and its age grows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h6_the_age_of_the_backlog_grows() {
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await;
    world.subscribe(&firm, "https://canary.invalid/hook").await;
    world.submit(&firm).await;
    let served = serve(&world.database, &["--role", "api"]).await;
    let told = Scrape::until(served.internal, |told| {
        told.value("firmforms_backlog_oldest_due_seconds") > 0.0
    })
    .await;
    assert_eq!(told.value(r#"firmforms_backlog_deliveries{state="due"}"#), 1.0);
    assert_eq!(told.value(r#"firmforms_lanes{state="due"}"#), 1.0);
    let before = told.value("firmforms_backlog_oldest_due_seconds");
    Scrape::until(served.internal, |told| {
        told.value("firmforms_backlog_oldest_due_seconds") > before + 1.0
    })
    .await;
    // A delivery that an operator holds is counted, and not late.
    let held = "insert into pauses (pause_id, kind, host, reason, actor, paused_at)
                values (gen_random_uuid(), 'host', 'canary.invalid', 'r', 'system', now())";
    world.change_database(held).await;
    Scrape::until(served.internal, |told| {
        told.value("firmforms_backlog_oldest_due_seconds") == 0.0
            && told.value("firmforms_pauses") == 1.0
            && told.value(r#"firmforms_lanes{state="due"}"#) == 1.0
    })
    .await;
}
