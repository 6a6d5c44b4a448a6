//! The archive: segments of the log in files, read by us and by a script that shares no code.

mod bucket;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use auditor::archive::{ArchiveStep, LogArchive, SegmentWriter, VerifiedPart, verify};
use auditor::{Archiver, CheckpointFolder, KeyFolder, Notary};
use domain::audit::SegmentManifest;
use eventstore::worker::{NextStep, Worker};
use serde_json::Value;
use sqlx::PgPool;
use tempfile::TempDir;
use tests::process::firmforms;
use tests::{BucketDouble, Receiver, World};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use vault::SystemEntropy;

const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/recipes/read_archive.py");

/// A world whose log reaches into the third segment, with a key that signs.
struct Archived {
    world: World,
    firm: String,
    folder: TempDir,
    /// The archive is in a bucket, if there is one.
    bucket: Option<BucketDouble>,
}

impl Archived {
    async fn new() -> Self {
        let world = World::new().await;
        let firm = world.firm().await;
        let receiver = Receiver::start().await;
        world.subscribe(&firm, &receiver.url("/hook")).await;
        for number in 1..=3 {
            world.submit(&firm).await;
            world.deliver().await;
            // The next events are in the next segment.
            world.change_database(&jump_to(SegmentManifest::ends_at(number) - 2)).await;
        }
        let (firm, folder) = (firm.id.to_string(), tempfile::tempdir().unwrap());
        let made = Self { world, firm, folder, bucket: None };
        made.follow().await;
        made
    }

    async fn follow(&self) {
        self.world.project().await;
        self.world.seal().await;
        let at = self.world.clock.now();
        self.notary().take_checkpoint(self.world.pool(), &SystemEntropy, at).await.unwrap();
    }

    fn notary(&self) -> Notary {
        Notary {
            keys: KeyFolder::in_folder(self.folder.path().join("keys")),
            checkpoints: CheckpointFolder::in_folder(self.folder.path().join("checkpoints")),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    fn archive(&self) -> LogArchive {
        match &self.bucket {
            None => LogArchive::in_folder(self.path()),
            Some(bucket) => bucket::archive_in(bucket),
        }
    }

    async fn write_next(&self) -> Result<ArchiveStep, String> {
        self.write_next_of(self.world.pool()).await
    }

    async fn write_next_of(&self, pool: &PgPool) -> Result<ArchiveStep, String> {
        let archive = self.archive();
        let notary = self.notary();
        let writer = SegmentWriter::new(pool, &archive, &notary);
        writer.write_next(self.world.clock.now()).await.map_err(|error| error.to_string())
    }

    /// Archives all that is old enough, and returns the number of segments.
    async fn write_all(&self) -> usize {
        self.world.pass(Duration::from_secs(2 * 86_400));
        let mut written = 0;
        while let ArchiveStep::Archived(_) = self.write_next().await.unwrap() {
            written += 1;
        }
        written
    }

    /// The flaws of the archive, in words.
    fn flaws(&self) -> Vec<String> {
        let keys = self.notary().keys.public_keys().unwrap();
        let report = verify(&self.archive(), &keys, VerifiedPart::All, |_, _| {}).unwrap();
        report.flaws.iter().map(ToString::to_string).collect()
    }

    /// The real program, told where keys and archive are.
    fn process(&self, arguments: &[&str]) -> Command {
        let mut process = firmforms(&self.world.database);
        process
            .env("FIRMFORMS_ARCHIVE_URL", self.path())
            .env("FIRMFORMS_AUDIT_KEYS_DIR", self.folder.path().join("keys"))
            .args(arguments);
        if let Some(bucket) = &self.bucket {
            process.env("FIRMFORMS_ARCHIVE_URL", bucket.url()).envs(bucket.variables());
        }
        process
    }

    /// The real command.
    async fn command(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.process(arguments).output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    }

    /// A process that writes, and is killed at this point if it comes to it.
    fn writer(&self, crash_at: &str) -> Command {
        let mut process = self.process(&["archive", "write"]);
        process
            .env("FIRMFORMS_CHECKPOINTS_DIR", self.folder.path().join("checkpoints"))
            .env("CRASH_AT", crash_at);
        process
    }

    /// Requires two whole segments and no other file.
    fn require_whole(&self) {
        assert!(self.flaws().is_empty(), "{:?}", self.flaws());
        let names: Vec<_> = fs::read_dir(self.path()).unwrap().collect();
        assert_eq!(names.len(), 6, "two manifests and four files: {names:?}");
    }

    async fn as_json(&self, arguments: &[&str]) -> Value {
        let (code, text) = self.command(&[arguments, &["--json"]].concat()).await;
        assert_eq!(code, 0, "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

fn jump_to(position: i64) -> String {
    format!("select setval('events_position_seq', {position})")
}

/// The second reader.
async fn theirs(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = Command::new("python3").arg(READER).arg(folder).args(arguments).output().await;
    let output = output.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// The file of a segment with this ending.
fn file_of(folder: &Path, number: u64, ending: &str) -> PathBuf {
    let begin = format!("{number:08}");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut mine = files.filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&begin) && name.ends_with(ending)
    });
    mine.next().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_segments_are_archived_after_a_day() {
    let log = Archived::new().await;
    assert_eq!(log.write_next().await.unwrap(), ArchiveStep::TooYoung { number: 1 });
    assert_eq!(log.write_all().await, 2);
    let next = log.write_next().await.unwrap();
    assert!(matches!(next, ArchiveStep::NotWhole { number: 3, .. }), "{next:?}");
    assert!(log.flaws().is_empty(), "{:?}", log.flaws());
    let status = log.as_json(&["archive", "status"]).await;
    assert_eq!(status["segments"], 2);
    assert_eq!(status["waiting"], 0);
    let (code, text) = log.command(&["archive", "verify"]).await;
    assert!(code == 0 && text.contains("intact: 2 segments up to position 2097152"), "{text}");
    let names: Vec<_> = fs::read_dir(log.path()).unwrap().collect();
    assert_eq!(names.len(), 6, "two manifests and four files: no draft is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_readers_find_the_same_events() {
    let log = Archived::new().await;
    log.write_all().await;
    let attempts = log.as_json(&["archive", "find", "--event-type", "DeliveryAttempted"]).await;
    assert!(attempts.as_array().unwrap().len() >= 2, "{attempts}");
    let id = attempts[0]["event"]["aggregate_id"].as_str().unwrap();
    let shown = log.as_json(&["archive", "show", id]).await;
    assert_eq!(shown.as_array().unwrap().len(), 1, "{shown}");
    let rows: Vec<(i64, String)> = sqlx::query_as(
        "select position, encode(digest, 'hex') from events where aggregate_id = $1",
    )
    .bind(id)
    .fetch_all(log.world.pool())
    .await
    .unwrap();
    assert_eq!(shown[0]["position"], rows[0].0);

    let (code, text) = theirs(&log.path(), &["stream", id]).await;
    let (position, event) = text.trim().split_once(' ').unwrap();
    assert_eq!((code, position), (0, rows[0].0.to_string().as_str()));
    assert_eq!(serde_json::from_str::<Value>(event).unwrap(), shown[0]["event"]);

    let of_firm = log.as_json(&["archive", "find", "--firm", &log.firm, "--limit", "1000"]).await;
    let (_, month) = theirs(&log.path(), &["firm", &log.firm, "2026-11"]).await;
    assert!(of_firm.as_array().unwrap().len() > 5);
    assert_eq!(of_firm.as_array().unwrap().len(), month.lines().count(), "{month}");
    let (_, none) = theirs(&log.path(), &["firm", &log.firm, "2026-10"]).await;
    assert_eq!(none, "");

    let (code, text) = theirs(&log.path(), &["verify"]).await;
    let seal: String =
        sqlx::query_scalar("select encode(hash, 'hex') from seals where last_position = 2097152")
            .fetch_one(log.world.pool())
            .await
            .unwrap();
    assert!(code == 0 && text.contains(&seal), "{text}");
}

/// Runs the statements of the recipe, and counts the events of a stream, of a firm, and the tries of
/// the firm in November.
const DUCKDB: &str = "
import duckdb, pathlib, sys
recipe, archive, stream, firm = sys.argv[1:]
base = duckdb.connect()
base.execute(f\"set variable archive = '{archive}'\")
base.execute(pathlib.Path(recipe).read_text())
november = 'firm_id = ? and year(recorded_at) = 2026 and month(recorded_at) = 11'
for rows, asked in (('archived where id = ?', stream), ('archived where firm_id = ?', firm),
                    ('attempts where ' + november, firm)):
    print(base.execute('select count(*) from ' + rows, [asked]).fetchone()[0])
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs DuckDB: `make release-check` gets it"]
async fn duckdb_finds_the_same_events() {
    let log = Archived::new().await;
    log.write_all().await;
    let find = async |with: &[&str]| {
        let found = log.as_json(&[&["archive", "find", "--limit", "1000"], with].concat()).await;
        found.as_array().unwrap().clone()
    };
    let attempts = find(&["--event-type", "DeliveryAttempted"]).await;
    let of_firm = find(&["--firm", &log.firm]).await;
    let id = attempts[0]["event"]["aggregate_id"].as_str().unwrap();
    let recipe = Path::new(READER).with_file_name("archive.sql");
    let mut python = Command::new("python3");
    python.args(["-c", DUCKDB]).arg(recipe).arg(log.path()).args([id, &log.firm]);
    let output = python.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let counted = String::from_utf8(output.stdout).unwrap();
    assert_eq!(counted, format!("1\n{}\n{}\n", of_firm.len(), attempts.len()));
}

/// A byte is flipped in each part of each file, and both readers name the block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_is_named_by_block() {
    let log = Archived::new().await;
    log.write_all().await;
    let events = file_of(&log.path(), 2, "events.jsonl.gz");
    let whole = fs::read(&events).unwrap();
    // A block without events is a gzip member of 20 bytes, and its header counts too.
    for place in [0, 1, 9, 15, whole.len() / 2, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[place] ^= 1;
        fs::write(&events, &flipped).unwrap();
        let flaws = log.flaws();
        assert!(flaws[0].starts_with("segment 2, block "), "byte {place}: {flaws:?}");
        assert_eq!(flaws.len(), 1);
        let (code, text) = theirs(&log.path(), &["verify"]).await;
        assert!(code == 1 && text.starts_with("BROKEN: block "), "{text}");
    }
    fs::write(&events, [&whole[..], b"x"].concat()).unwrap();
    assert_eq!(log.flaws(), ["segment 2: the file of events goes on after its last block"]);
    fs::remove_file(&events).unwrap();
    assert!(log.flaws()[0].ends_with("events.jsonl.gz is missing"), "{:?}", log.flaws());
    fs::write(&events, &whole[..whole.len() - 1]).unwrap();
    assert!(log.flaws()[0].contains("block 2048: the file of events ends before it"));
    fs::write(&events, &whole).unwrap();
    assert!(log.flaws().is_empty());

    let index = file_of(&log.path(), 1, "index");
    let mut flipped = fs::read(&index).unwrap();
    flipped[3] ^= 1;
    fs::write(&index, flipped).unwrap();
    assert_eq!(log.flaws(), ["segment 1: the index is not the one of its events"]);
    let (code, text) = log.command(&["archive", "show", &log.firm]).await;
    assert!(code == 2 && text.contains("segment 1: the index"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_and_missing_manifests_are_named() {
    let log = Archived::new().await;
    log.write_all().await;
    let first = file_of(&log.path(), 1, ".json");
    let text = fs::read_to_string(&first).unwrap();
    fs::write(&first, text.replacen("\"v\":1", "\"v\":2", 1)).unwrap();
    assert!(log.flaws()[0].contains("segment 1: the signature of its manifest is wrong"));
    fs::rename(file_of(&log.path(), 2, ".json"), log.folder.path().join("later")).unwrap();
    let refused = log.write_next().await.unwrap_err();
    assert!(refused.contains("segment 1: the signature of its manifest is wrong"), "{refused}");
    fs::rename(log.folder.path().join("later"), log.path().join("00000002.json")).unwrap();
    fs::write(&first, &text).unwrap();

    let other = KeyFolder::in_folder(log.folder.path().join("others"));
    let unknown = [other.rotate(&SystemEntropy).unwrap()];
    let report =
        verify(&log.archive(), &unknown, VerifiedPart::Segments { first: 1, last: 1 }, |_, _| {})
            .unwrap();
    assert_eq!(report.flaws.len(), 2);
    assert!(report.flaws[0].to_string().contains("which is not trusted"), "{report:?}");

    let (code, text) = log.command(&["archive", "verify", "--segment", "9"]).await;
    assert!(code == 2 && text.contains("segment 9: the archive has no such segment"), "{text}");
    fs::rename(&first, log.folder.path().join("elsewhere")).unwrap();
    assert_eq!(log.flaws(), ["segment 2: the segments before it are missing"]);
    fs::rename(log.folder.path().join("elsewhere"), &first).unwrap();

    let second = file_of(&log.path(), 2, ".json");
    fs::rename(&second, log.path().join("00000003.json")).unwrap();
    let (code, text) = log.command(&["archive", "verify"]).await;
    assert!(code == 2 && text.contains("it is the manifest of segment 2"), "{text}");
}

/// A crash after the files and before the manifest is made good by the next run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_without_a_manifest_are_completed() {
    let log = Archived::new().await;
    log.write_all().await;
    let manifest = file_of(&log.path(), 2, ".json");
    let before = fs::read_to_string(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    assert_eq!(log.write_all().await, 1);
    assert_eq!(fs::read_to_string(&manifest).unwrap(), before, "nothing is written twice");

    // A damaged file of the right name is neither replaced nor signed.
    fs::remove_file(&manifest).unwrap();
    fs::write(file_of(&log.path(), 2, "events.jsonl.gz"), "damaged").unwrap();
    let refused = log.write_next().await.unwrap_err();
    assert!(refused.contains("events.jsonl.gz is there already, with other bytes"), "{refused}");
    assert!(!manifest.exists());
}

/// An archive of another log is never continued.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_of_another_log_is_refused() {
    let log = Archived::new().await;
    let other = World::new().await;
    log.write_all().await;
    let refused = log.write_next_of(other.pool()).await.unwrap_err();
    assert!(refused.contains("it is of another installation"), "{refused}");

    let lost = "alter table seals disable trigger user;
                delete from seals where last_position >= 2097152";
    log.world.change_database(lost).await;
    let refused = log.write_next().await.unwrap_err();
    assert!(refused.contains("the database lost the end of its log"), "{refused}");
}

/// A changed event is not archived as if it were whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tampered_event_is_not_archived() {
    let log = Archived::new().await;
    log.world.pass(Duration::from_secs(2 * 86_400));
    log.world
        .change_database(
            "alter table events disable trigger user;
             update events set payload = replace(payload::text, 'form_submitted', 'lead_hot')::json
              where event_type = 'OccurrenceRecorded'",
        )
        .await;
    let refused = log.write_next().await.unwrap_err();
    assert!(refused.contains("its digest is not the one of its row"), "{refused}");
    assert!(fs::read_dir(log.path()).unwrap().next().is_none(), "and no draft is left");
    let keyless = Notary { keys: KeyFolder::in_folder("/nonexistent".into()), ..log.notary() };
    let archive = log.archive();
    let writer = SegmentWriter::new(log.world.pool(), &archive, &keyless);
    let refused = writer.write_next(log.world.clock.now()).await.unwrap_err();
    assert!(refused.to_string().contains("no key signs here"), "{refused}");
}

/// Events and seals were made anew after the last signed checkpoint was made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_differs_is_not_signed() {
    let log = Archived::new().await;
    log.world.pass(Duration::from_secs(2 * 86_400));
    let forged = "alter table seals disable trigger user;
                  update seals set hash = sha256(hash), previous_hash = sha256(previous_hash)";
    log.world.change_database(forged).await;
    let refused = log.write_next().await.unwrap_err();
    assert!(refused.contains("is not what checkpoint 1 has signed"), "{refused}");
    assert!(!log.path().exists(), "nothing is copied");
}

/// A segment waits for a signed checkpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsigned_segment_waits() {
    let log = Archived::new().await;
    log.world.change_database(&jump_to(SegmentManifest::ends_at(3) + 5)).await;
    log.world.firm().await;
    log.world.project().await;
    log.world.seal().await;
    assert_eq!(log.write_all().await, 2);
    assert_eq!(log.write_next().await.unwrap(), ArchiveStep::Unsigned { number: 3 });
    log.follow().await;
    assert_eq!(log.write_all().await, 1);
    assert!(log.flaws().is_empty());
}

/// A writer is killed between any two files, before each name, and around each signature.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_writer_leaves_nothing_wrong() {
    let log = Archived::new().await;
    let mut kills = 0;
    for point in ["checkpointing:1", "archiving:1", "checkpointing:2", "archiving:2", "archiving:3"]
    {
        for _ in 0..2 {
            let ended = log.writer(point).status().await.unwrap();
            assert_eq!(ended.code(), None, "{point} killed it");
            kills += 1;
        }
    }
    for point in ["checkpointing:3", "archiving:4", "archiving:4", "checkpointing:1"] {
        let ended = log.writer(point).status().await.unwrap();
        kills += i32::from(ended.code().is_none());
        assert!(log.flaws().is_empty(), "{point}: {:?}", log.flaws());
    }
    assert!(kills > 12, "{kills}");
    // Drafts that a living writer may have are kept for an hour.
    for entry in fs::read_dir(log.path()).unwrap() {
        let file = fs::File::open(entry.unwrap().path()).unwrap();
        let written = file.metadata().unwrap().modified().unwrap();
        file.set_modified(written - Duration::from_secs(2 * 3_600)).unwrap();
    }
    assert!(log.writer("").status().await.unwrap().success());
    log.require_whole();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writers_archive_each_segment_once() {
    let log = Archived::new().await;
    let write = async || log.writer("").output().await.unwrap();
    let (one, two) = tokio::join!(write(), write());
    for output in [one, two] {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || told.contains("archives now"), "{told}");
    }
    log.require_whole();
}

/// The service archives by itself. A folder that cannot be written stops nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_archives_whole_segments() {
    let log = Archived::new().await;
    log.world.pass(Duration::from_secs(2 * 86_400));
    let stop = CancellationToken::new();
    let worker = |folder: PathBuf| {
        let archive = LogArchive::in_folder(folder);
        let (pool, clock) = (log.world.pool().clone(), log.world.clock.clone());
        Archiver::new(archive, log.notary(), pool, clock, stop.clone())
    };
    let file = log.folder.path().join("file");
    fs::write(&file, "").unwrap();
    for unusable in [file, log.path()] {
        assert_eq!(worker(unusable).step().await.unwrap(), NextStep::IDLE);
    }
    assert!(!log.path().exists(), "an unmounted folder is not begun");
    assert!(matches!(log.write_next().await, Ok(ArchiveStep::Archived(_))));
    let mut archiver = worker(log.path());
    for step in [NextStep::Busy, NextStep::IDLE] {
        assert_eq!(archiver.step().await.unwrap(), step);
    }
    log.require_whole();

    fs::remove_file(file_of(&log.path(), 2, ".json")).unwrap();
    stop.cancel();
    assert_eq!(worker(log.path()).step().await.unwrap(), NextStep::IDLE);
    assert_eq!(log.archive().read_manifests().unwrap().len(), 1, "the copy was given up");
}
