//! Sizes of the tables, their growth and a forecast.

use std::time::Duration;

use eventstore::worker::Worker;
use projector::housekeeping::HousekeepingWorker;
use serde_json::{Value, json};

use super::Desk;

async fn sweep(desk: &Desk) {
    let clock = desk.world.clock.clone();
    let mut worker = HousekeepingWorker::new(desk.world.pool().clone(), clock);
    worker.step().await.unwrap();
}

fn table(stats: &Value, name: &str) -> Value {
    let mut tables = stats["main"]["tables"].as_array().unwrap().iter();
    tables.find(|one| one["table"] == name).cloned().unwrap_or_default()
}

#[tokio::test]
async fn growth_is_measured_from_noted_sizes() {
    let desk = Desk::new().await;
    let first = desk.ask("/stats").await;
    assert_eq!(first["main"]["growth"], Value::Null);
    assert!(
        first["main"]["bytes"].as_i64() > Some(0) && first["keyring"]["bytes"].as_i64() > Some(0)
    );
    assert!(table(&first, "events")["bytes"].as_i64() > Some(0), "{first}");
    sweep(&desk).await;
    sweep(&desk).await;
    let tables = i64::try_from(first["main"]["tables"].as_array().unwrap().len()).unwrap();
    let days = async || desk.world.ask_number("select count(distinct day) from table_sizes").await;
    assert_eq!((desk.world.count("table_sizes").await, days().await), (tables, 1));
    let smaller =
        "update table_sizes set bytes = bytes - 4096, rows = 0 where table_name = 'events'";
    desk.world.change_database(smaller).await;
    desk.world.pass(Duration::from_hours(4 * 24));
    let events = table(&desk.ask("/stats").await, "events");
    let growth = &events["growth"];
    assert_eq!(growth["over_days"], 4);
    let (bytes, now) =
        (growth["bytes_per_day"].as_i64().unwrap(), events["bytes"].as_i64().unwrap());
    assert!(bytes >= 1_024, "{events}");
    assert_eq!(growth["bytes_in_30_days"], now + 30 * bytes);
    desk.world.pass(Duration::from_hours(97 * 24));
    sweep(&desk).await;
    assert_eq!(days().await, 1, "of the last hundred days");
}

/// A table that the server had never analyzed once had 0 rows here.
#[tokio::test]
async fn small_tables_are_counted_and_not_estimated() {
    let desk = Desk::new().await;
    desk.world.submit(&desk.firm).await;
    let stats = desk.ask("/stats").await;
    for (name, rows) in [("members", 1), ("responses", 1), ("hooks", 0), ("firms", 1)] {
        assert_eq!(table(&stats, name)["rows"], rows, "{name}");
    }
    let tables = stats["keyring"]["tables"].as_array().unwrap();
    let keys = tables.iter().find(|one| one["table"] == "data_keys").unwrap();
    assert!(keys["rows"].as_i64() > Some(0), "{keys}");
    let (code, _, told) = desk.run(&["stats"]).await;
    assert_eq!((code, told.as_str()), (0, "growth is known after a day\n"));
}

#[tokio::test]
async fn sizes_are_for_readers_of_all_firms() {
    let desk = Desk::new().await;
    let limited = desk.limited(vec![desk.firm.id]).await;
    desk.get(&limited, "/stats").await.refused(403, "forbidden");
    let wrong = desk.call("POST", &desk.operator, "/stats", json!({})).await;
    assert_eq!(wrong.status, 405);
}
