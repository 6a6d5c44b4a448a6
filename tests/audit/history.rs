//! Months of history that leave the database (migration 0059).

use std::path::Path;
use std::time::Duration;

use api::queries::find::{self, FoundText};
use api::queries::listing::{self, DeliveryListQuery};
use domain::access::HolderRole;
use eventstore::connect;
use projector::rebuild::{ReadModel, RebuildAct};
use serde_json::Value;
use sqlx::{Executor, PgPool};
use tests::process::firmforms;
use tests::{Firm, Receiver, TestDatabase, World, history_ranges};
use uuid::Uuid;

use crate::dropping::PAUSED_REPLAY;
use crate::rebuild::make;

const DAY: Duration = Duration::from_hours(24);
const OLDEST: &str = "ranges.deliveries_2026_11";
const NOVEMBERS_END: &str = "2026-12-01T00:00:00.000Z";

/// A world with a delivery in November, one in December and one in January. Now it is February 2.
struct Months {
    world: World,
    firm: Firm,
    hook: Uuid,
}

impl Months {
    async fn new() -> Self {
        let world = World::new().await;
        let firm = world.firm().await;
        let receiver = Receiver::start().await;
        let hook = world.subscribe(&firm, &receiver.url("/hook")).await;
        for _ in 0..3 {
            world.submit(&firm).await;
            assert_eq!(world.deliver().await, 1);
            world.pass(31 * DAY);
        }
        Self { world, firm, hook }
    }

    /// The world without November.
    async fn shorter() -> Self {
        let months = Self::new().await;
        months.world.drop_old_history(63 * DAY).await;
        assert_eq!(history_ranges(months.world.pool()).await.len(), 2);
        months
    }

    async fn drop_until(&self, range_end: &str) -> Result<Option<i64>, sqlx::Error> {
        let drop = format!("select drop_history_range('{range_end}')");
        sqlx::query_scalar(&drop).fetch_one(self.world.pool()).await
    }

    async fn ask(&self, path: &str) -> tests::Answer {
        let token = self.world.new_token(HolderRole::Auditor).await;
        self.world.get_internally(&token, path).await.ok()
    }

    /// Standard output and standard error of a command.
    async fn command(&self, arguments: &[&str]) -> [String; 2] {
        let output = firmforms(&self.world.database).args(arguments).output().await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    }
}

#[tokio::test]
async fn a_month_leaves_when_old_enough() {
    let Months { world, .. } = Months::new().await;
    let made = history_ranges(world.pool()).await;
    assert_eq!(made[0], OLDEST);
    for (keep_days, left) in [(64, 0), (63, 1), (33, 1), (32, 2), (32, 2)] {
        world.drop_old_history(keep_days * DAY).await;
        assert_eq!(history_ranges(world.pool()).await, made[left..], "{keep_days} days");
    }
    let drops = "select string_agg(range_name || ' ' || row_count, ', ' order by kept_since)
                   from history_drops";
    let drops: String = sqlx::query_scalar(drops).fetch_one(world.pool()).await.unwrap();
    assert_eq!(drops, "deliveries_2026_11 1, deliveries_2026_12 1");
}

/// The table of 0.2.0 has rows of several months.
#[tokio::test]
async fn the_table_of_before_leaves_whole() {
    let Months { world, .. } = Months::new().await;
    world
        .change_database(
            "alter table deliveries detach partition ranges.deliveries_2026_11;
             alter table deliveries detach partition ranges.deliveries_2026_12;
             alter table ranges.deliveries_2026_11 rename to deliveries_before;
             insert into ranges.deliveries_before table ranges.deliveries_2026_12;
             drop table ranges.deliveries_2026_12;
             alter table deliveries attach partition ranges.deliveries_before
                 for values from (minvalue) to ('2027-01-01 00:00:00+00')",
        )
        .await;
    world.drop_old_history(33 * DAY).await;
    assert_eq!(history_ranges(world.pool()).await.len(), 2);
    world.drop_old_history(32 * DAY).await;
    assert_eq!(history_ranges(world.pool()).await, ["ranges.deliveries_2027_01"]);
    assert_eq!(world.ask_number("select max(row_count) from history_drops").await, 2);
}

/// Each refusal of the database itself.
#[tokio::test]
async fn a_needed_month_stays() {
    let months = Months::new().await;
    let world = &months.world;
    for (needs, says, back) in [
        (
            "update deliveries set state = 'pending' where created_at < '2026-12-01'",
            "is pending",
            "update deliveries set state = 'delivered' where state = 'pending'",
        ),
        (
            "insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
                                 response_id, position, due_at, tries_max)
             select delivery_id, gen_random_uuid(), firm_id, occurrence_id, trigger, form_id,
                    response_id, 1, created_at, 9
               from deliveries where created_at < '2026-12-01'",
            "a delivery of the range waits",
            "delete from outbox",
        ),
        (
            "insert into step_headers (delivery_id, firm_id, response_id, headers)
             select delivery_id, firm_id, response_id, '' from deliveries
              where created_at < '2026-12-01'",
            "its headers are kept",
            "delete from step_headers",
        ),
        (PAUSED_REPLAY, "a replay has not ended", "delete from replays"),
        (
            "update checkpoints set position = 1 where name = 'deliveries'",
            "history has not followed",
            "update checkpoints set position = (select max(position) from events)
              where name = 'deliveries'",
        ),
    ] {
        world.change_database(needs).await;
        let refused = months.drop_until(NOVEMBERS_END).await.unwrap_err();
        assert!(refused.to_string().contains(says), "{says}: {refused}");
        world.drop_old_history(DAY).await;
        assert_eq!(world.count("history_drops").await, 0, "{says}");
        world.change_database(back).await;
    }
    let refused = months.drop_until("2027-01-01T00:00:00Z").await.unwrap_err();
    assert!(refused.to_string().contains("an older range is there"), "{refused}");
    assert_eq!(months.drop_until(NOVEMBERS_END).await.unwrap(), Some(1));
    assert_eq!(months.drop_until(NOVEMBERS_END).await.unwrap(), None, "it has left already");
}

/// A rebuild holds its lock for as long as it takes.
#[tokio::test]
async fn no_month_leaves_beside_a_rebuild() {
    let months = Months::new().await;
    let mut rebuild = months.world.pool().acquire().await.unwrap();
    rebuild.execute("select pg_advisory_lock(hashtext('firmforms rebuild'))").await.unwrap();
    let refused = months.drop_until(NOVEMBERS_END).await.unwrap_err();
    assert!(refused.to_string().contains("a rebuild or another drop is running"), "{refused}");
    rebuild.execute("select pg_advisory_unlock_all()").await.unwrap();
    assert_eq!(months.drop_until(NOVEMBERS_END).await.unwrap(), Some(1));
}

/// The log still has the events of the month.
#[tokio::test]
async fn a_rebuild_brings_no_month_back() {
    let Months { world, firm, .. } = Months::shorter().await;
    for act in [RebuildAct::Verify, RebuildAct::Replace, RebuildAct::Verify] {
        let reports = make(&world, &[ReadModel::Deliveries], act).await.unwrap();
        assert_eq!((&reports[0].difference, reports[0].digest.rows), (&None, 2), "{act:?}");
        assert_eq!(history_ranges(world.pool()).await.len(), 2, "{act:?}");
    }
    let wrong = "update deliveries set state = 'failed' where created_at < '2027-01-01'";
    world.change_database(wrong).await;
    let reports = make(&world, &[ReadModel::Deliveries], RebuildAct::Verify).await.unwrap();
    assert!(reports[0].difference.is_some(), "the rest is proven");
    make(&world, &[ReadModel::Deliveries], RebuildAct::Replace).await.unwrap();
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);
}

/// Each answer about a period that reaches before the border.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_name_the_border_of_history() {
    let months = Months::shorter().await;
    let Months { world, firm, hook } = &months;
    let firm = firm.id;
    for (question, is_bounded) in [
        ("", true),
        ("?since=2026-11-30T23:59:59Z", true),
        ("?since=2026-12-01", false),
        ("?state=pending", false),
        ("?as_of=2026-11-20T00:00:00Z", true),
    ] {
        let body = months.ask(&format!("/firms/{firm}/deliveries{question}")).await.body;
        let before = body.get("archived_before").and_then(Value::as_str);
        assert_eq!(before, is_bounded.then_some(NOVEMBERS_END), "{question}: {body}");
    }
    for (question, is_bounded) in [("", true), ("?since=2026-12-01", false)] {
        let answer = months.ask(&format!("/firms/{firm}/deliveries/export{question}")).await;
        assert_eq!(answer.headers.contains_key("archived-before"), is_bounded, "{question}");
    }
    let unknown = Uuid::from_u128(7);
    let found = months.ask(&format!("/find?q={unknown}")).await.body;
    assert_eq!(found["archived_before"], NOVEMBERS_END, "{found}");
    let left: String = sqlx::query_scalar(
        "select aggregate_id from events where aggregate_type = 'Delivery' order by position limit 1",
    )
    .fetch_one(world.pool())
    .await
    .unwrap();
    let found = months.ask(&format!("/find?q={left}")).await.body;
    assert_eq!(found["items"][0]["kind"], "delivery", "the log has it: {found}");
    world.remove_hook(&months.firm, *hook).await.ok();
    let history = months.ask(&format!("/firms/{firm}/hooks/{hook}/history")).await.body;
    assert_eq!(history["removal"]["archived_before"], NOVEMBERS_END, "{history}");

    let firm = firm.to_string();
    let note = format!("`firmforms archive find --firm {firm} --until {NOVEMBERS_END}`");
    for (arguments, is_noted) in [
        (&["deliveries", "list", "--firm", &firm][..], true),
        (&["deliveries", "list", "--firm", &firm, "--limit", "1"], false),
        (&["deliveries", "list", "--firm", &firm, "--since", "2026-12-01"], false),
        (&["deliveries", "list", "--firm", &firm, "--as-of", "2026-11-20"], true),
        (&["deliveries", "export", "--firm", &firm], true),
    ] {
        let [_, told] = months.command(arguments).await;
        assert_eq!(told.contains(&note), is_noted, "{arguments:?}: {told}");
    }
    let [_, told] = months.command(&["find", &unknown.to_string()]).await;
    assert!(told.contains("firmforms archive find"), "{told}");
}

/// Nothing has left of an installation that keeps all.
#[tokio::test]
async fn whole_history_has_no_border() {
    let Months { world, firm, .. } = Months::new().await;
    let service = world.service();
    let page = listing::deliveries(service, firm.id, &DeliveryListQuery::default()).await.unwrap();
    assert_eq!((page.rows.len(), page.archived_before), (3, None));
    let found = find::find_text(service, None, &Uuid::from_u128(7).to_string()).await.unwrap();
    assert_eq!(found, FoundText::default());
    world.drop_old_history(63 * DAY).await;
    let page = listing::deliveries(service, firm.id, &DeliveryListQuery::default()).await.unwrap();
    assert_eq!((page.rows.len(), page.ends_at().is_some()), (2, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_keeps_dropped_months_away() {
    let months = Months::shorter().await;
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup");
    // The first start writes what a backup looks for.
    months.command(&["firms", "list"]).await;
    months.command(&["backup", backup.to_str().unwrap()]).await;
    let database = restored(&backup).await;
    let pool = connect(database.main.clone(), 1);
    assert_eq!(history_ranges(&pool).await, history_ranges(months.world.pool()).await);
    assert_eq!(kept(&pool).await, kept(months.world.pool()).await);
    let output = firmforms(&database).args(["projections", "verify", "deliveries"]).output().await;
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A delivery is sent for 35 days after its body was kept for 30.
#[tokio::test]
async fn a_short_history_is_refused() {
    let world = World::new().await;
    for (days, is_good) in [("64", false), ("65", true)] {
        let mut command = firmforms(&world.database);
        command.args(["serve", "--check", "--role", "projector", "--keep-history-days", days]);
        let output = command.output().await.unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), is_good, "{days}: {told}");
        assert_eq!(told.contains("--keep-history-days: at least 65"), !is_good, "{told}");
    }
}

async fn restored(backup: &Path) -> TestDatabase {
    let database = TestDatabase::without_schema().await;
    let mut command = firmforms(&database);
    command.env_remove("FIRMFORMS_WRAPPING_KEY");
    let output = command.arg("restore").arg(backup).arg("--even-if-forged").output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    database
}

/// The border and the rows, as text.
async fn kept(pool: &PgPool) -> String {
    sqlx::query_scalar(
        "select (select string_agg(h::text, ' ' order by kept_since) from history_drops h)
             || (select string_agg(d::text, ' ' order by delivery_id) from deliveries d)",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}
