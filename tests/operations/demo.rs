//! `demo --once` of the real binary exits with 0 if every delivery arrived once with a good
//! signature.

use std::path::Path;
use std::process::Output;

use tests::TestDatabase;

use tests::process::firmforms;

/// Runs the demo in the project's folder.
async fn demo(database: &TestDatabase, arguments: &[&str]) -> Output {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = firmforms(database);
    command.current_dir(project).args(["demo", "--once"]).args(arguments);
    command.output().await.unwrap()
}

/// Standard output of a demo that succeeds.
async fn shown(arguments: &[&str]) -> String {
    let output = demo(&TestDatabase::without_schema().await, arguments).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_demos_file_is_delivered_once() {
    let shown = shown(&[]).await;
    assert!(shown.contains("30 deliveries arrived, 30 different, 30 signatures good"), "{shown}");
    assert_eq!(shown.matches(" → http").count(), 2, "{shown}");
    let [key, hook] = ["key_created", "hook_created"].map(|action| shown.find(action).unwrap());
    assert!(key < hook && shown[hook..].contains("hash    "), "{shown}");
}

/// Each trigger but `partial_submission` has deliveries. The demo itself fails if one comes twice.
#[tokio::test]
async fn a_generated_demo_delivers_all_but_partials() {
    let shown = shown(&["--responses", "60", "--seed", "5"]).await;
    assert!(shown.contains("deliveries arrived"), "{shown}");
    let triggers = [
        "form_submitted",
        "report_approved",
        "report_sent",
        "report_opened",
        "payment_received",
        "booking_made",
        "booking_rescheduled",
        "booking_cancelled",
        "lead_hot",
    ];
    for trigger in triggers {
        assert!(shown.contains(&format!("{trigger} → http")), "{trigger}: {shown}");
    }
    assert!(!shown.contains("partial_submission"), "{shown}");
}

#[tokio::test]
async fn the_demo_fails_without_empty_databases() {
    let output = demo(&TestDatabase::new().await, &["--responses", "1"]).await;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the demo wants empty databases"), "{said}");
}
