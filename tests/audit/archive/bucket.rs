//! The archive in a bucket of S3.

use std::collections::BTreeMap;

use auditor::archive::{BucketAccess, BucketPlace};
use axum::http::Method;
use tests::BucketFault;

use super::*;

/// The time for new tries of a request, so short that a test does not wait for it.
const RETRY_TIME_MAX: Duration = Duration::from_millis(300);

/// The archive in a bucket. Requests that are not answered end soon.
pub(super) fn archive_in(bucket: &BucketDouble) -> LogArchive {
    let mut variables = bucket.variables();
    variables.push(("AWS_TIMEOUT".to_owned(), "300ms".to_owned()));
    let access = BucketAccess { variables, retry_time_max: RETRY_TIME_MAX };
    LogArchive::in_bucket(BucketPlace::from_url(bucket.url()).unwrap(), &access).unwrap()
}

impl Archived {
    async fn in_bucket() -> Self {
        Self { bucket: Some(BucketDouble::start().await), ..Self::new().await }
    }

    fn bucket(&self) -> &BucketDouble {
        self.bucket.as_ref().unwrap()
    }

    /// Requires two segments, which are byte for byte those of a folder.
    async fn require_files_of_a_folder(mut self) {
        assert!(self.flaws().is_empty(), "{:?}", self.flaws());
        let bucket = self.bucket.take().unwrap();
        self.write_all().await;
        let files = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap());
        let files: BTreeMap<String, Vec<u8>> = files
            .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
            .collect();
        assert_eq!(files.len(), 6);
        assert!(bucket.objects() == files, "{:?}", bucket.objects().keys());
    }
}

/// The name of the object of a segment with this ending.
fn name_of(objects: &BTreeMap<String, Vec<u8>>, number: u64, ending: &str) -> String {
    let begin = format!("{number:08}");
    let mut names =
        objects.keys().filter(|name| name.starts_with(&begin) && name.ends_with(ending));
    names.next().unwrap().clone()
}

/// The bucket is busy at first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_has_a_folders_files() {
    let log = Archived::in_bucket().await;
    log.bucket().set_fault(BucketFault::Busy(3));
    let (code, text) = {
        let output = log.writer("").output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(code, Some(0), "{text}");
    let status = log.as_json(&["archive", "status"]).await;
    assert_eq!((&status["segments"], &status["waiting"]), (&2.into(), &0.into()));
    let (code, text) = log.command(&["archive", "verify"]).await;
    assert!(code == 0 && text.contains("intact: 2 segments up to position 2097152"), "{text}");
    let attempts = log.as_json(&["archive", "find", "--event-type", "DeliveryAttempted"]).await;
    let id = attempts[0]["event"]["aggregate_id"].as_str().unwrap();
    let shown = log.as_json(&["archive", "show", id]).await;
    assert_eq!(shown[0], attempts[0]);
    let (_, text) = log.command(&["doctor"]).await;
    assert!(text.contains("the archive ends at position 2097152"), "{text}");
    log.require_files_of_a_folder().await;
}

/// Each fault is told with its object, and no manifest is stored. Afterwards the segment is
/// archived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_faulty_bucket_is_named_and_unsigned() {
    let log = Archived::in_bucket().await;
    log.world.pass(Duration::from_secs(2 * 86_400));
    let place = "s3://bucket/archive/of-a-log/";
    for (fault, told) in [
        (BucketFault::Busy(usize::MAX), "503 Service Unavailable: <Error> <Code>SlowDown</Code>"),
        (BucketFault::Silent, "the store fails: check AWS_ENDPOINT_URL"),
        (BucketFault::Denied, "access is denied: AWS_ACCESS_KEY_ID or the role must be allowed"),
        (BucketFault::Absent, "there is no such bucket: make it, or name another one"),
    ] {
        log.bucket().set_fault(fault);
        let refused = log.write_next().await.unwrap_err();
        assert!(refused.starts_with(place) && refused.contains(told), "{fault:?}: {refused}");
    }
    log.bucket().set_fault(BucketFault::Denied);
    let (code, text) = log.command(&["archive", "verify"]).await;
    assert!(code == 2 && text.contains(place) && text.contains("access is denied"), "{text}");

    log.bucket().set_fault(BucketFault::Lying);
    let refused = log.write_next().await.unwrap_err();
    assert!(refused.starts_with("segment 1, block "), "{refused}");
    assert!(!log.bucket().objects().contains_key("00000001.json"));
    // The object cannot be replaced.
    log.bucket().set_fault(BucketFault::None);
    let refused = log.write_next().await.unwrap_err();
    let named = format!("segment 1: its file {place}00000001-");
    assert!(refused.starts_with(&named) && refused.contains("with other bytes"), "{refused}");
    log.bucket().set_objects(BTreeMap::new());

    log.bucket().set_fault(BucketFault::Overtaken);
    assert_eq!(log.write_next().await, Ok(ArchiveStep::ArchivedElsewhere { number: 1 }));
    let mut objects = log.bucket().objects();
    objects.remove("00000001.json");
    log.bucket().set_objects(objects);
    // The objects of the other writer are the same, and are taken.
    log.bucket().set_fault(BucketFault::Forgetful);
    assert_eq!(log.write_all().await, 2);
    log.require_files_of_a_folder().await;
}

/// An object is changed, and then removed. A store that changes the manifest is named at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_and_missing_objects_are_named() {
    let log = Archived::in_bucket().await;
    log.world.pass(Duration::from_secs(2 * 86_400));
    assert!(matches!(log.write_next().await, Ok(ArchiveStep::Archived(_))));
    let first = log.bucket().objects();
    assert!(matches!(log.write_next().await, Ok(ArchiveStep::Archived(_))));
    let whole = log.bucket().objects();
    let flaws_of = |objects: &BTreeMap<String, Vec<u8>>| {
        log.bucket().set_objects(objects.clone());
        log.flaws()
    };
    for (number, ending, told) in [
        (2, ".gz", "segment 2, block "),
        (1, ".index", "segment 1: the index is not the one of its events"),
        (2, ".json", "segment 2: the signature of its manifest is wrong"),
    ] {
        let name = name_of(&whole, number, ending);
        let mut changed = whole.clone();
        let content = changed.get_mut(&name).unwrap();
        // The last digit of a manifest is in its signature.
        let place = content.iter().rposition(u8::is_ascii_digit).unwrap_or(0);
        content[place] ^= 1;
        assert!(flaws_of(&changed)[0].starts_with(told), "{:?}", log.flaws());
        changed.remove(&name);
        let told = match ending {
            ".json" => continue,
            _ => format!("segment {number}: its file {}/{name} is missing", log.bucket().url()),
        };
        assert_eq!(flaws_of(&changed), [told]);
        if ending == ".index" {
            let (code, text) = log.command(&["archive", "show", &log.firm]).await;
            assert!(code == 2 && text.contains("is missing"), "{text}");
        }
    }
    // The files are whole, and the store changes the manifest.
    let mut unsigned = whole;
    unsigned.remove("00000002.json");
    log.bucket().set_objects(unsigned);
    log.bucket().set_fault(BucketFault::Lying);
    let refused = log.write_next().await.unwrap_err();
    assert!(refused.contains("00000002.json: it was written, and has other content"), "{refused}");
    log.bucket().set_objects(first);
    assert!(log.flaws().is_empty());
}

/// A writer is killed between any two objects. Objects that are there are not put again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_writer_resumes_in_a_bucket() {
    let log = Archived::in_bucket().await;
    for (point, kept) in [("archiving:1", 1), ("archiving:2", 2), ("archiving:3", 2)] {
        let ended = log.writer(point).status().await.unwrap();
        assert_eq!(ended.code(), None, "{point} killed it");
        assert_eq!(log.bucket().objects().len(), kept, "{point}");
    }
    let write = async || log.writer("").output().await.unwrap();
    let (one, two) = tokio::join!(write(), write());
    for output in [one, two] {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || told.contains("archives now"), "{told}");
    }
    assert_eq!(log.bucket().count(&Method::DELETE), 0);
    log.require_files_of_a_folder().await;
}

/// The service archives by itself, does not begin an archive, and waits for no store when it stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_archives_into_a_bucket() {
    let log = Archived::in_bucket().await;
    log.world.pass(Duration::from_secs(2 * 86_400));
    let stop = CancellationToken::new();
    let (pool, clock) = (log.world.pool().clone(), log.world.clock.clone());
    let worker = || {
        let (pool, clock) = (pool.clone(), clock.clone());
        Archiver::new(log.archive(), log.notary(), pool, clock, stop.clone())
    };
    assert_eq!(worker().step().await.unwrap(), NextStep::IDLE);
    assert!(log.bucket().objects().is_empty(), "a wrong bucket is not begun");
    assert!(matches!(log.write_next().await, Ok(ArchiveStep::Archived(_))));
    log.bucket().set_fault(BucketFault::Busy(usize::MAX));
    assert_eq!(worker().step().await.unwrap(), NextStep::IDLE);
    log.bucket().set_fault(BucketFault::None);
    for step in [NextStep::Busy, NextStep::IDLE] {
        assert_eq!(worker().step().await.unwrap(), step);
    }
    log.bucket().set_fault(BucketFault::Silent);
    stop.cancel();
    assert_eq!(worker().step().await.unwrap(), NextStep::IDLE);
    log.bucket().set_fault(BucketFault::None);
    log.require_files_of_a_folder().await;
}
