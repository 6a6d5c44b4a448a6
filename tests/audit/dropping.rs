//! Ranges of the log that leave the database, and come back from the archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::queries::{as_of, history};
use api::{AuditAccess, Service};
use auditor::archive::{ArchiveReader, LogArchive};
use auditor::{AuditVerifier, CheckpointFolder, KeyFolder, Notary};
use chrono::{DateTime, TimeDelta, Utc};
use domain::audit::{EndedVerification, VerificationOutcome};
use domain::event::Actor;
use domain::values::AsOf;
use eventstore::connect;
use eventstore::ranges::RANGE_POSITIONS;
use eventstore::worker::Worker;
use projector::verifications;
use serde_json::Value;
use service::dropping::{RangeDropWorker, RangeDropper};
use sqlx::Executor;
use tempfile::TempDir;
use tests::process::{assert_killed, data_dir, firmforms};
use tests::{Copies, Firm, Receiver, TestDatabase, World, submitted, whole_story};
use tokio::sync::OnceCell;
use uuid::Uuid;
use vault::SystemEntropy;

use crate::proof::{DAY, daily};
use crate::ranges;

/// A replay that waits for an operator, for the tests of what holds a range.
pub(crate) const PAUSED_REPLAY: &str = "
    insert into replays (replay_id, firm_id, state, reason, force, rate_per_second, selected,
                         requested_at, sequence)
    values (gen_random_uuid(), gen_random_uuid(), 'paused', 'r', false, 1, 0, now(), 1)";

/// A world whose log has filled its first range, with an archive of it.
struct Full {
    world: World,
    firm: Firm,
    receiver: Receiver,
    response: Uuid,
    folder: TempDir,
}

/// The databases and the archive that tests copy.
struct Made {
    database: TestDatabase,
    firm: Firm,
    response: Uuid,
    folder: TempDir,
}

static MADE: OnceCell<Made> = OnceCell::const_new();

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

impl Full {
    /// A copy of the one that was made first. To make it takes most of a test's time.
    async fn new() -> Self {
        let made = MADE.get_or_init(async || {
            let made = Self::begun_in(World::new().await).await;
            made.fill_range(0).await;
            let Self { world, firm, response, folder, .. } = made;
            Made { database: world.database.for_the_run(), firm, response, folder }
        });
        let Made { database, firm, response, folder } = made.await;
        let copy = database.copy().await;
        let ours = tempfile::tempdir().unwrap();
        copy_files(&folder.path().join("archive"), &ours.path().join("archive"));
        for kept in ["audit-keys", "checkpoints"] {
            copy_files(&data_dir(database).join(kept), &data_dir(&copy).join(kept));
        }
        Self {
            world: World::on(copy).await,
            firm: firm.clone(),
            receiver: Receiver::start().await,
            response: *response,
            folder: ours,
        }
    }

    /// A log whose first events are in this world.
    async fn begun_in(world: World) -> Self {
        let firm = whole_story::tell(&world).await;
        let receiver = Receiver::start().await;
        let hook = world.subscribe(&firm, &receiver.url("/hook")).await;
        let response = world.id();
        world.report_one(submitted(&firm, response)).await;
        world.deliver().await;
        world.remove_hook(&firm, hook).await.ok();
        end_replays(&world).await;
        Self { world, firm, receiver, response, folder: tempfile::tempdir().unwrap() }
    }

    /// Moves on to the range after this one, and archives all of it.
    async fn fill_range(&self, number: i64) {
        self.go_to((number + 1) * RANGE_POSITIONS - 2).await;
        self.world.subscribe(&self.firm, &self.receiver.url(&format!("/{number}"))).await;
        self.world.submit(&self.firm).await;
        self.world.deliver().await;
        self.go_to((number + 1) * RANGE_POSITIONS + 2_000).await;
        self.write_archive().await;
    }

    /// Archives all segments that are whole.
    async fn write_archive(&self) {
        self.world.submit(&self.firm).await;
        self.world.deliver().await;
        self.follow().await;
        let (code, text) = self.command(&["archive", "write"]).await;
        assert_eq!(code, 0, "{text}");
    }

    async fn go_to(&self, position: i64) {
        let jump = format!("select setval('events_position_seq', {position})");
        self.world.change_database(&jump).await;
        let ahead = "select make_log_range(last_value >> 24) from events_position_seq";
        self.world.change_database(ahead).await;
    }

    /// Brings all followers to the end, and signs.
    async fn follow(&self) {
        self.world.project().await;
        self.world.purge().await;
        self.world.begin_to_erase().await;
        self.world.erase().await;
        self.world.seal().await;
        let (code, text) = self.command(&["audit", "checkpoint"]).await;
        assert_eq!(code, 0, "{text}");
    }

    fn archive(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    /// A command that knows the archive.
    async fn command(&self, arguments: &[&str]) -> (i32, String) {
        let mut process = firmforms(&self.world.database);
        process.env("FIRMFORMS_ARCHIVE_URL", self.archive()).args(arguments);
        let output = process.output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    }

    /// A command that knows no archive.
    async fn without_archive(&self, arguments: &[&str]) -> (i32, String) {
        let output = firmforms(&self.world.database).args(arguments).output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    }

    /// The report of a verification, without the count that a drop changes.
    async fn verified(&self) -> Value {
        let mut process = firmforms(&self.world.database);
        process.env("FIRMFORMS_ARCHIVE_URL", self.archive());
        let output = process.args(["audit", "verify", "--json"]).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report.as_object_mut().unwrap().remove("archived");
        report
    }

    async fn drop_all(&self) -> (i32, String) {
        self.command(&["archive", "drop", "--keep-days", "1"]).await
    }

    /// Lets the first range leave.
    async fn dropped(self) -> Self {
        if self.world.count_events("LogRangeDropOrdered").await == 0 {
            let (code, text) = self.drop_all().await;
            assert!(code == 2 && text.contains("no signed checkpoint"), "{code}: {text}");
            self.follow().await;
        }
        let (code, text) = self.drop_all().await;
        assert!(code == 0 && text.contains("dropped"), "{code}: {text}");
        self
    }

    /// All events of the database, as one digest.
    async fn events(&self) -> String {
        sqlx::query_scalar("select md5(string_agg(e::text, '' order by position)) from events e")
            .fetch_one(self.world.pool())
            .await
            .unwrap()
    }

    /// The digest of all events but those that order ranges to leave.
    async fn events_but_orders(&self) -> String {
        sqlx::query_scalar(
            "select md5(string_agg(e::text, '' order by position)) from events e
              where event_type <> 'LogRangeDropOrdered'",
        )
        .fetch_one(self.world.pool())
        .await
        .unwrap()
    }

    /// Occurrences and deliveries of the first range.
    async fn traffic(&self) -> i64 {
        let question = format!(
            "select count(*) from events where aggregate_type in ('Occurrence', 'Delivery')
                and position <= {RANGE_POSITIONS}"
        );
        self.world.ask_number(&question).await
    }
}

/// The daily verification of a log.
impl Full {
    /// A process that has the archive. It reads each event again within five days.
    fn verifier(&self) -> AuditVerifier {
        self.lone_verifier().with_archive(Some(LogArchive::in_folder(self.archive())))
    }

    /// A process without the archive.
    fn lone_verifier(&self) -> AuditVerifier {
        let pool = self.world.pool().clone();
        let clock = self.world.clock.clone();
        AuditVerifier::new(self.notary(), pool, clock, daily(5))
    }

    fn notary(&self) -> Notary {
        let folder = data_dir(&self.world.database);
        Notary {
            keys: KeyFolder::in_folder(folder.join("audit-keys")),
            checkpoints: CheckpointFolder::in_folder(folder.join("checkpoints")),
        }
    }

    /// Steps until a verification has ended; `None` if none begins.
    async fn verdict(&self, verifier: &mut AuditVerifier) -> Option<EndedVerification> {
        let before = self.last_verdict().await;
        // The session of the verification before may still hold the place.
        for _ in 0..3 {
            for _ in 0..100 {
                verifier.step().await.unwrap();
                let ended = self.last_verdict().await;
                if ended != before {
                    return ended;
                }
            }
            self.world.pass(Duration::from_secs(61));
        }
        None
    }

    async fn last_verdict(&self) -> Option<EndedVerification> {
        let mut connection = self.world.pool().acquire().await.unwrap();
        verifications::state(&mut connection).await.unwrap().ended
    }
}

/// Replays that wait for an operator hold a range.
async fn end_replays(world: &World) {
    world.change_database("update replays set state = 'stopped' where state <> 'finished'").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_leaves_and_comes_back() {
    let log = Full::new().await;
    let (before, events, traffic) = (log.verified().await, log.events().await, log.traffic().await);
    assert!(traffic > 50, "{traffic}");
    let dry = log.command(&["archive", "drop", "--keep-days", "1", "--dry-run"]).await;
    assert!(dry.0 == 0 && dry.1.contains("can leave"), "{dry:?}");
    assert_eq!(log.events().await, events, "a dry run changes nothing");

    let log = log.dropped().await;
    assert_eq!(log.traffic().await, 0);
    log.follow().await;
    let after = log.verified().await;
    let number = |report: &Value, name: &str| report[name].as_i64().unwrap();
    for (name, more) in [("events", 1), ("entries", 1), ("firms", 0)] {
        assert_eq!(number(&after, name), number(&before, name) + more, "{name}: {after}");
    }
    let (code, text) = log.without_archive(&["audit", "verify"]).await;
    assert!(code == 2 && text.contains("name it by --archive-url"), "{code}: {text}");
    let (code, text) = log.command(&["verify", "deliveries"]).await;
    assert_eq!(code, 0, "{text}");

    let (code, text) = log.command(&["archive", "attach", "0"]).await;
    assert!(code == 0 && text.contains(&traffic.to_string()), "{text}");
    assert_eq!(log.events_but_orders().await, events, "each event is as it was");
    let (code, text) = log.without_archive(&["audit", "verify"]).await;
    assert_eq!(code, 0, "{text}");
    let (code, text) = log.command(&["projections", "verify", "--all"]).await;
    assert_eq!(code, 0, "{text}");
    let (code, text) = log.command(&["archive", "attach", "0"]).await;
    assert!(code != 0 && text.contains("no range has left"), "{text}");
    let log = log.dropped().await;
    assert_eq!(log.traffic().await, 0, "it leaves again, by the same order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_goes_on_beside_what_left() {
    let log = Full::new().await.dropped().await;
    let occurrences = log.world.count_events("OccurrenceRecorded").await;
    log.world.change_database("delete from activity_seen").await;
    log.world.report_one(submitted(&log.firm, log.response)).await;
    assert_eq!(
        log.world.count_events("OccurrenceRecorded").await,
        occurrences,
        "a repeated report of what has left changes nothing"
    );
    log.world.subscribe(&log.firm, &log.receiver.url("/new")).await;
    log.world.submit(&log.firm).await;
    log.world.deliver().await;
    assert!(!log.receiver.received().is_empty());
    log.world.order_erasure(&log.firm, log.response).await;
    log.follow().await;
    log.verified().await;
    let (code, text) = log.command(&["verify", "deliveries"]).await;
    assert_eq!(code, 0, "{text}");
}

impl Full {
    /// A delivery of each kind, and its history; an error as its text.
    async fn shown_deliveries(&self, archive: Option<LogArchive>) -> Vec<String> {
        let audit = AuditAccess::new(Some(self.notary()), archive);
        let service = Service { audit, ..self.world.service().clone() };
        let asked = format!(
            "select distinct on (state, trigger, occurrence_id is null) firm_id, delivery_id
               from deliveries
              where created_at < (select min(recorded_at) from events
                                   where position > {RANGE_POSITIONS})
              order by state, trigger, occurrence_id is null, delivery_id"
        );
        let asked: Vec<(Uuid, Uuid)> =
            sqlx::query_as(&asked).fetch_all(self.world.pool()).await.unwrap();
        assert!(asked.len() > 2, "{}", asked.len());
        let mut shown = Vec::new();
        for (firm_id, delivery_id) in asked {
            let then = as_of::delivery(&service, firm_id, delivery_id, AsOf::NOW).await;
            shown.push(then.map_or_else(|error| error.to_string(), |then| format!("{then:?}")));
            if shown.len() < 2 {
                let then =
                    as_of::delivery(&service, firm_id, delivery_id, AsOf::Position(90)).await;
                shown.push(then.map_or_else(|error| error.to_string(), |then| format!("{then:?}")));
            }
            let told = history::of_delivery(&service, firm_id, delivery_id).await;
            shown.push(told.map_or_else(
                |error| error.to_string(),
                |told| serde_json::to_string(&told).unwrap(),
            ));
        }
        shown
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_are_found_by_time() {
    let log = Full::new().await;
    let (id, began): (String, DateTime<Utc>) = sqlx::query_as(
        "select aggregate_id, recorded_at from events where event_type = 'DeliveryAttempted'
          order by position limit 1",
    )
    .fetch_one(log.world.pool())
    .await
    .unwrap();
    let keys = log.notary().known_keys().unwrap().keys;
    let found = |days: i64, most: usize| {
        let archive = LogArchive::in_folder(log.archive());
        let begin = began + TimeDelta::days(days);
        let period = begin.into()..=(begin + TimeDelta::hours(1)).into();
        let opened =
            ArchiveReader::open_periods(archive, &keys, RANGE_POSITIONS, &[period], most).unwrap();
        opened.map(|reader| reader.find_streams(std::slice::from_ref(&id)).unwrap().len())
    };
    assert!(found(0, 100).unwrap() > 0);
    assert_eq!((found(-30, 100), found(300, 100)), (Some(0), Some(0)));
    assert_eq!(found(0, 0), None, "too many segments");
}

/// The archive has the events of a delivery, and history knows where they lie.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_are_shown_from_the_archive() {
    let log = Full::new().await;
    let before = log.shown_deliveries(None).await;
    let question = "select delivery_id from deliveries where state = 'delivered' limit 1";
    let id: Uuid = sqlx::query_scalar(question).fetch_one(log.world.pool()).await.unwrap();
    let id = id.to_string();
    let one = ["deliveries", "show", "--json", &id];
    let by_command = log.command(&one).await;
    let log = log.dropped().await;
    let archive = || Some(LogArchive::in_folder(log.archive()));
    assert_eq!(log.shown_deliveries(archive()).await, before);
    assert_eq!(log.command(&one).await, by_command);
    let left = log.shown_deliveries(None).await;
    assert!(left.iter().all(|text| text.contains("have left the database")), "{left:?}");

    let manifest = log.archive().join("00000001.json");
    fs::remove_file(&manifest).unwrap();
    let lacking = log.shown_deliveries(archive()).await;
    assert!(lacking.iter().all(|text| text.contains("wrong on our side")), "{lacking:?}");
}

/// Each answer that needs events which have left says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_left_is_named_and_not_denied() {
    let log = Full::new().await;
    let id: Uuid = sqlx::query_scalar(
        "select delivery_id from deliveries where state = 'delivered' order by created_at limit 1",
    )
    .fetch_one(log.world.pool())
    .await
    .unwrap();
    let id = id.to_string();
    let firm = log.firm.id.to_string();
    let log = log.dropped().await;
    for (arguments, says) in [
        (&["deliveries", "show", &id][..], "archive"),
        (&["deliveries", "list", "--firm", &firm, "--as-of", "2026-11-01T12:30:00Z"], "archive"),
        (&["projections", "rebuild", "deliveries"], "firmforms archive attach"),
        (&["projections", "verify", "--all"], "firmforms archive attach"),
    ] {
        let (code, text) = log.without_archive(arguments).await;
        assert!(code != 0 && text.contains(says), "{arguments:?}: {code}: {text}");
    }
    let (code, text) = log.command(&["projections", "verify", "hooks"]).await;
    assert_eq!(code, 0, "{text}");
    let (code, text) = log.command(&["archive", "show", &id]).await;
    assert!(code == 0 && text.contains("DeliveryAttempted"), "{text}");
}

/// The events that the database keeps of a dropped range must be those of the archive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgeries_where_a_range_left_are_found() {
    let log = Full::new().await.dropped().await;
    let copy = "create table kept as select * from events where event_type = 'KeyCreated'";
    for (forged, back) in [
        (
            "update events set recorded_at = recorded_at + interval '1 millisecond'
              where position = (select min(position) from kept)",
            "update events e set recorded_at = k.recorded_at from kept k
              where e.position = k.position",
        ),
        (
            "delete from events where position = (select min(position) from kept)",
            "insert into events overriding system value
             select * from kept where position = (select min(position) from kept)",
        ),
        (
            "create table ranges.forged partition of ranges.log_traffic
                 for values from (1) to (16777217);
             insert into events overriding system value
             select 7000, 'Delivery', gen_random_uuid()::text, 9, event_type, event_version,
                    payload, metadata, firm_id, recorded_at, digest from kept limit 1",
            "drop table ranges.forged",
        ),
    ] {
        let mut session = log.world.pool().acquire().await.unwrap();
        session.execute("set session_replication_role = replica").await.unwrap();
        session
            .execute(copy.replace("table kept", "table if not exists kept").as_str())
            .await
            .unwrap();
        session.execute(forged).await.unwrap();
        let (code, text) = log.command(&["audit", "verify"]).await;
        assert!(code == 1 && text.contains("BROKEN"), "{forged}: {code}: {text}");
        session.execute(back).await.unwrap();
        session.execute("reset session_replication_role").await.unwrap();
    }
    log.verified().await;
}

/// Each refusal, and that nothing was dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_needed_range_stays() {
    let log = Full::new().await;
    let events = log.events().await;
    let kept = async |says: &str| {
        let (_, text) = log.drop_all().await;
        assert!(text.contains("the range 0 stays") && text.contains(says), "{says}: {text}");
    };
    let (code, text) = log.command(&["archive", "drop", "--keep-days", "36000"]).await;
    assert!(code == 0 && text.contains("younger than 36000 days"), "{code}: {text}");
    let archive = log.archive();
    let elsewhere = log.folder.path().join("elsewhere");
    fs::rename(&archive, &elsewhere).unwrap();
    kept("it has no segment 16").await;
    fs::rename(&elsewhere, &archive).unwrap();
    let of = |ending: &str| {
        let files = fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path());
        let mut mine = files.filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("00000001") && name.ends_with(ending)
        });
        mine.next().unwrap()
    };
    for ending in [".gz", ".index", ".json"] {
        let whole = fs::read(of(ending)).unwrap();
        let mut flipped = whole.clone();
        flipped[200] ^= 1;
        fs::write(of(ending), flipped).unwrap();
        let (code, text) = log.drop_all().await;
        assert!(code != 0 && text.contains("00000001") || text.contains("segment 1"), "{text}");
        fs::write(of(ending), whole).unwrap();
    }
    assert_eq!(log.events().await, events, "no order was written");

    kept("no signed checkpoint covers the order").await;
    log.follow().await;
    for (needs, says, back) in [
        (PAUSED_REPLAY, "a replay has not ended", "delete from replays where reason = 'r'"),
        (
            "insert into unspread (firm_id, position, occurrence_id)
             values (gen_random_uuid(), 5, gen_random_uuid())",
            "",
            "delete from unspread where position = 5",
        ),
        (
            "update checkpoints set position = 5 where name = 'deliveries'",
            "a follower has not read the range",
            "update checkpoints set position = (select max(position) from checkpoints)
              where name = 'deliveries'",
        ),
    ] {
        log.world.change_database(needs).await;
        kept(says).await;
        log.world.change_database(back).await;
    }
    assert!(log.traffic().await > 0);
    log.dropped().await;
}

/// The database checks again by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_refuses_by_itself() {
    let log = Full::new().await;
    let refused = async |number: i64| {
        let statement = format!("select drop_log_range({number})");
        log.world.pool().execute(statement.as_str()).await.unwrap_err().to_string()
    };
    assert!(refused(0).await.contains("no event says"));
    assert!(refused(1).await.contains("an older range is there"));
    // Absent ranges are gone already.
    log.world.pool().execute("select drop_log_range(77)").await.unwrap();
    assert!(log.traffic().await > 0);
}

/// Of the log before there were ranges only what decides stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_log_leaves_in_part() {
    let log = Full::begun_in(ranges::old_world().await).await;
    log.follow().await;
    ranges::lay_out(&log.world).await;
    log.write_archive().await;
    let (before, events, traffic) = (log.verified().await, log.events().await, log.traffic().await);
    let log = log.dropped().await;
    assert_eq!(log.traffic().await, 0);
    assert_eq!(
        log.verified().await["events"].as_i64(),
        before["events"].as_i64().map(|events| events + 1),
        "the order alone came"
    );
    log.world.change_database("delete from activity_seen").await;
    let occurrences = log.world.count_events("OccurrenceRecorded").await;
    log.world.report_one(submitted(&log.firm, log.response)).await;
    assert_eq!(log.world.count_events("OccurrenceRecorded").await, occurrences);
    let (code, text) = log.command(&["archive", "attach", "-1"]).await;
    assert!(code == 0 && text.contains(&traffic.to_string()), "{text}");
    assert_eq!(log.events_but_orders().await, events);
    let log = log.dropped().await;
    assert_eq!(log.traffic().await, 0);
}

/// The dump has the events that are left, and the places of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_lacks_what_left() {
    if Copies::of_this_machine().is_none() {
        return;
    }
    let log = Full::new().await.dropped().await;
    log.follow().await;
    // The first start writes what a backup looks for.
    assert_eq!(log.command(&["firms", "list"]).await.0, 0);
    let copy = log.folder.path().join("backup");
    let (code, text) = log.command(&["backup", copy.to_str().unwrap()]).await;
    assert_eq!(code, 0, "{text}");
    let again = TestDatabase::without_schema().await;
    let mut restoring = firmforms(&again);
    restoring.env_remove("FIRMFORMS_WRAPPING_KEY").env("FIRMFORMS_ARCHIVE_URL", log.archive());
    restoring.arg("restore").arg(&copy).args(["--even-if-forged", "--json"]);
    let output = restoring.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (part, word) in
        [("audit_log", "intact"), ("deliveries", "proven"), ("read_models", "9 equal the log")]
    {
        assert!(told[part].as_str().unwrap().contains(word), "{told}");
    }
    let pool = connect(again.main.clone(), 1);
    let places: i64 =
        sqlx::query_scalar("select count(*) from places").fetch_one(&pool).await.unwrap();
    assert_eq!(places, log.world.count("places").await);
    let triggers =
        "select count(*) from pg_trigger where tgname = 'take_place' and tgenabled <> 'O'";
    let disabled: i64 = sqlx::query_scalar(triggers).fetch_one(&pool).await.unwrap();
    assert_eq!(disabled, 0);
    // The migration of the restore made the first range, which is empty.
    let mut attaching = firmforms(&again);
    attaching.env("FIRMFORMS_ARCHIVE_URL", log.archive()).args(["archive", "attach", "0"]);
    let keys = data_dir(&log.world.database).join("audit-keys");
    let output = attaching.env("FIRMFORMS_AUDIT_KEYS_DIR", keys).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A process that is killed between any two steps leaves a range that is whole, or gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_droppers_are_followed_by_others() {
    let log = Full::new().await;
    let (before, events) = (log.verified().await, log.events().await);
    let drop_until = async |pass: u32| {
        let mut process = firmforms(&log.world.database);
        process
            .env("FIRMFORMS_ARCHIVE_URL", log.archive())
            .env("CRASH_AT", format!("dropping:{pass}"))
            .args(["archive", "drop", "--keep-days", "1"]);
        process.status().await.unwrap()
    };
    for pass in 1..=4 {
        let status = drop_until(pass).await;
        assert_killed(status, &format!("dropping:{pass}"));
        assert_eq!(log.traffic().await == 0, pass == 4, "pass {pass}");
        assert!(pass == 4 || log.events_but_orders().await == events);
        log.follow().await;
    }
    let orders = log.world.count_events("LogRangeDropOrdered").await;
    assert_eq!(orders, 1, "the order of the first process is the others'");
    let after = log.verified().await;
    assert_eq!(after["events"].as_i64(), before["events"].as_i64().map(|events| events + 1));
}

/// The worker of `serve` drops what an operator would, and takes no range that came back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_drops_old_ranges() {
    let log = Full::new().await;
    let dropper = RangeDropper {
        store: log.world.projector().clone(),
        archive: LogArchive::in_folder(log.archive()),
        notary: log.notary(),
        keep_for: Duration::from_secs(86_400),
        actor: Actor::System,
        takes_attached: false,
    };
    let clock = log.world.clock.clone();
    let mut worker = RangeDropWorker::new(dropper, Arc::new(SystemEntropy), clock);
    worker.step().await.unwrap();
    assert!(log.traffic().await > 0, "its last event is not a day old");
    log.world.pass(Duration::from_secs(12 * 86_400));
    worker.step().await.unwrap();
    log.follow().await;
    log.world.pass(Duration::from_secs(600));
    worker.step().await.unwrap();
    assert_eq!(log.traffic().await, 0);
    assert_eq!(log.command(&["archive", "attach", "0"]).await.0, 0);
    log.world.pass(Duration::from_secs(2 * 86_400));
    worker.step().await.unwrap();
    assert!(log.traffic().await > 0, "it came back for an operator");
}

/// Segments are read in turn. A process without the archive does not take the verdict back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_daily_verification_reads_the_archive() {
    let log = Full::new().await.dropped().await;
    log.follow().await;
    let mut verifier = log.verifier();
    let ended = log.verdict(&mut verifier).await.unwrap();
    assert_eq!(ended.outcome, VerificationOutcome::Intact);
    let files = fs::read_dir(log.archive()).unwrap().map(|entry| entry.unwrap().path());
    let mut events = files.filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("00000001") && name.ends_with(".gz")
    });
    let events = events.next().unwrap();
    let whole = fs::read(&events).unwrap();
    let mut flipped = whole.clone();
    flipped[200] ^= 1;
    fs::write(&events, flipped).unwrap();
    let flaw = log.flaw_within_days(&mut verifier).await;
    assert!(flaw.starts_with("segment 1, block"), "{flaw}");
    fs::write(&events, whole).unwrap();
    log.assert_taken_back(&mut verifier).await;

    // The flaw lies where the segment is opened.
    let manifest = log.archive().join("00000001.json");
    let aside = log.folder.path().join("aside");
    fs::rename(&manifest, &aside).unwrap();
    let flaw = log.flaw_within_days(&mut verifier).await;
    assert!(flaw.contains("segment 1") && flaw.contains("has no such segment"), "{flaw}");
    fs::rename(&aside, &manifest).unwrap();

    // An archive that is not mounted says nothing, and takes no verdict back.
    fs::rename(log.archive(), &aside).unwrap();
    fs::create_dir(log.archive()).unwrap();
    log.world.pass(DAY);
    let ended = log.verdict(&mut verifier).await.unwrap();
    let VerificationOutcome::Incomplete(why) = &ended.outcome else { panic!("{ended:?}") };
    assert!(why.contains("is it mounted?"), "{why}");
    fs::remove_dir(log.archive()).unwrap();
    fs::rename(&aside, log.archive()).unwrap();
    log.assert_taken_back(&mut verifier).await;
}

impl Full {
    /// Verifies day by day until the log is broken. Returns the flaw.
    async fn flaw_within_days(&self, verifier: &mut AuditVerifier) -> String {
        for _ in 0..5 {
            self.world.pass(DAY);
            match self.verdict(verifier).await.unwrap().outcome {
                VerificationOutcome::Intact => {}
                VerificationOutcome::Broken(flaw) => return flaw,
                incomplete => panic!("{incomplete:?}"),
            }
        }
        panic!("intact for five days");
    }

    /// Only a process with the archive says that the log is intact again.
    async fn assert_taken_back(&self, verifier: &mut AuditVerifier) {
        self.world.pass(DAY);
        assert_eq!(self.verdict(&mut self.lone_verifier()).await, None);
        let ended = self.verdict(verifier).await.unwrap();
        assert_eq!(ended.outcome, VerificationOutcome::Intact);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_archive_seals_are_verified() {
    let log = Full::new().await.dropped().await;
    log.follow().await;
    let mut verifier = log.lone_verifier();
    for _ in 0..6 {
        let ended = log.verdict(&mut verifier).await.unwrap();
        assert_eq!(ended.outcome, VerificationOutcome::Intact);
        log.world.pass(DAY);
    }
    let mut session = log.world.pool().acquire().await.unwrap();
    session.execute("set session_replication_role = replica").await.unwrap();
    session.execute("update seals set hash = sha256(hash) where number = 7000").await.unwrap();
    session.execute("reset session_replication_role").await.unwrap();
    let ended = log.verdict(&mut verifier).await.unwrap();
    let VerificationOutcome::Broken(flaw) = &ended.outcome else { panic!("{ended:?}") };
    assert!(flaw.starts_with("seal 7000: its hash"), "{flaw}");
}
