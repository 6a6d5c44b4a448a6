//! This build restores and migrates the database of each earlier release (`scripts/keep-release`).
//! Then the restore proves the audit log, the deliveries and the read models.

use std::path::Path;
use std::process::Stdio;

use eventstore::ranges::LogRanges;
use eventstore::worker::Worker;
use eventstore::{NewFormats, Store, connect};
use serde_json::Value;
use tests::{Copies, TestDatabase, history_ranges};

use crate::backup;
use tests::process::firmforms;

#[tokio::test]
async fn this_build_restores_and_proves_each_release() {
    if Copies::of_this_machine().is_none() {
        return;
    }
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("releases");
    let mut restored = 0;
    for entry in std::fs::read_dir(kept).expect("./scripts/keep-release keeps a release") {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "tar") {
            continue;
        }
        let database = TestDatabase::without_schema().await;
        let mut command = firmforms(&database);
        if let Some(folder) = std::env::var_os("FIRMFORMS_PG_BIN") {
            command.env("FIRMFORMS_PG_BIN", folder);
        }
        command.env_remove("FIRMFORMS_WRAPPING_KEY").args(["restore", "-", "--json"]);
        let archive = || Stdio::from(std::fs::File::open(&path).unwrap());
        // 0.2.0 signed no backup.
        let refused = command.stdin(archive()).output().await.unwrap();
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && told.contains("--even-if-forged"), "{told}");
        let output = command.arg("--even-if-forged").stdin(archive()).output().await.unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {told}", path.display());
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        for (part, word) in
            [("audit_log", "intact"), ("deliveries", "proven"), ("read_models", "equal the log")]
        {
            assert!(found[part].as_str().unwrap().contains(word), "{}: {found}", path.display());
        }
        assert_eq!(
            history_ranges(&connect(database.main.clone(), 1)).await,
            ["ranges.deliveries_before"],
            "history as it was"
        );
        lay_out(&database).await;
        let verified = firmforms(&database).args(["audit", "verify"]).output().await.unwrap();
        assert!(verified.status.success(), "{}", backup::told(&verified));
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("backup");
        let mut backing_up = backup::command(&database);
        // The key of the release is in the data directory.
        backing_up.env_remove("FIRMFORMS_WRAPPING_KEY").arg("backup").arg(&copy);
        let output = backing_up.output().await.unwrap();
        assert!(output.status.success(), "{}", backup::told(&output));
        let again = TestDatabase::without_schema().await;
        let output = backup::restore_by(&again, &copy, &["--even-if-forged"]).await;
        assert!(output.status.success(), "{}", backup::told(&output));
        let months = history_ranges(&connect(again.main.clone(), 1)).await;
        assert!(months.iter().all(|range| range.starts_with("ranges.deliveries_2")), "{months:?}");
        assert!(!months.is_empty());
        restored += 1;
    }
    assert!(restored > 0, "no release is kept");
}

/// Brings the log of a release into ranges.
async fn lay_out(database: &TestDatabase) {
    let store = Store::new(connect(database.main.clone(), 2), Vec::new());
    let mut worker = LogRanges::new(store.clone(), NewFormats::allowed());
    for _ in 0..6 {
        worker.step().await.unwrap();
    }
    let ranges = "select count(*) from pg_partition_tree('events') where isleaf";
    let ranges: i64 = sqlx::query_scalar(ranges).fetch_one(store.pool()).await.unwrap();
    assert_eq!(ranges, 5, "the table as it was, what decides, and three ranges");
}
