//! The log in ranges: how a log of before comes to them, and what holds at their borders.

use auditor::verify::{AuditVerdict, VerifiedWith, database};
use auditor::{CheckpointFolder, KeyFolder, Notary};
use domain::event::{Actor, EventContext};
use domain::subscription::{RemovalReason, SubscriptionEvent};
use eventstore::ranges::LogRanges;
use eventstore::worker::{NextStep, Worker};
use eventstore::{AppendError, NewEvent, NewFormats};
use sqlx::Executor;
use tempfile::TempDir;
use tests::{Receiver, TestDatabase, World, submitted, whole_story};
use vault::SystemEntropy;

/// Makes the log as it was before 0.3.0.
const ONE_TABLE: &str = "
    create table plain (like events including all excluding identity);
    drop table events;
    alter table plain rename to events;
    alter table events
        add constraint events_pkey primary key (aggregate_type, aggregate_id, sequence),
        add constraint events_position_key unique (position),
        alter position add generated always as identity (
            sequence name events_position_seq cache 1);
    create index events_erasures_idx on events (position) where aggregate_type = 'Response';
    create trigger events_draw_xid before insert on events
        for each statement execute function events_draw_xid();
    create trigger events_refuse_change before update or delete or truncate on events
        for each statement execute function events_refuse_change()";

const RANGES: &str = "select count(*) from pg_partition_tree('events') where isleaf";

pub(super) async fn old_world() -> World {
    let world = World::on(TestDatabase::new().await).await;
    world.pool().execute(ONE_TABLE).await.unwrap();
    world
}

fn ranges_of(world: &World) -> LogRanges {
    LogRanges::new(world.projector().clone(), NewFormats::allowed())
}

/// Steps until the log is in ranges.
pub(super) async fn lay_out(world: &World) {
    let mut worker = ranges_of(world);
    for _ in 0..6 {
        worker.step().await.unwrap();
    }
    assert!(world.ask_number(RANGES).await >= 5);
}

/// Proves the log, by a checkpoint that was signed before and one that is signed now.
async fn prove(world: &World, folder: &TempDir) {
    let notary = Notary {
        keys: KeyFolder::in_folder(folder.path().join("keys")),
        checkpoints: CheckpointFolder::in_folder(folder.path().join("checkpoints")),
    };
    world.project().await;
    world.seal().await;
    let at = world.clock.now();
    notary.take_checkpoint(world.pool(), &SystemEntropy, at).await.unwrap();
    let verdict =
        database(world.pool(), &notary, VerifiedWith::default(), |_, _| ()).await.unwrap();
    assert!(matches!(verdict, AuditVerdict::Intact(_)), "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_log_becomes_the_first_range() {
    let (world, folder) = (old_world().await, tempfile::tempdir().unwrap());
    let firm = whole_story::tell(&world).await;
    world.deliver().await;
    prove(&world, &folder).await;
    let before = world.verify_log().await;
    let rows = "select count(*) from events";
    let events = world.ask_number(rows).await;
    lay_out(&world).await;
    assert_eq!(world.ask_number(rows).await, events, "no event came or went");
    assert_eq!(world.verify_log().await, before);
    prove(&world, &folder).await;
    whole_story::many(&world, &firm).await;
    world.deliver().await;
    prove(&world, &folder).await;
    let newer = "select count(*) from ranges.log_traffic";
    assert!(world.ask_number(newer).await > 0, "new deliveries are in a range of their own");
    assert_eq!(
        world
            .ask_number("select count(*) from events_position_seq where last_value > 1 << 24")
            .await,
        1
    );
}

/// Both the places and the keys of ranges begin at the border.
#[tokio::test]
async fn what_was_taken_stays_taken() {
    let world = old_world().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let hook = world.subscribe(&firm, &receiver.url("/hook")).await;
    let report = submitted(&firm, world.id());
    world.report(std::slice::from_ref(&report)).await;
    world.deliver().await;
    lay_out(&world).await;
    // The id of the activity is forgotten, as after a month.
    world.change_database("delete from activity_seen").await;
    for _ in 0..2 {
        world.report(std::slice::from_ref(&report)).await;
        world.deliver().await;
        assert_eq!(world.count_events("OccurrenceRecorded").await, 1);
    }
    assert_eq!(receiver.received().len(), 1);

    let removal = |sequence| NewEvent {
        aggregate_id: hook.to_string(),
        sequence,
        event: SubscriptionEvent::SubscriptionRemoved {
            reason: RemovalReason::DeletedByKey,
            evidence: Vec::new(),
        }
        .into(),
        context: EventContext {
            firm_id: firm.id,
            recorded_at: world.clock.now(),
            actor: Actor::System,
            correlation_id: world.id(),
            causation_id: None,
            traceparent: None,
            terminal: None,
        },
    };
    let taken = world.projector().append(vec![removal(1)]).await;
    assert!(matches!(taken, Err(AppendError::Conflict)), "{taken:?}");
    world.projector().append(vec![removal(2)]).await.unwrap();
    let again = world.projector().append(vec![removal(2)]).await;
    assert!(matches!(again, Err(AppendError::Conflict)), "{again:?}");
}

/// An append that waits for the log's lock would wait for its whole time behind it.
#[tokio::test]
async fn a_locked_log_is_laid_out_later() {
    let world = old_world().await;
    world.firm().await;
    let mut worker = ranges_of(&world);
    let mut elsewhere = world.pool().begin().await.unwrap();
    elsewhere.execute("select from events").await.unwrap();
    let later = worker.step().await.unwrap();
    assert!(matches!(later, NextStep::IdleFor(_)), "{later:?}");
    world.firm().await;
    elsewhere.rollback().await.unwrap();
    lay_out(&world).await;
    world.firm().await;
}

/// The table as it is takes no position above the border, so the border goes before it is reached.
#[tokio::test]
async fn a_near_border_is_given_up() {
    let world = old_world().await;
    world.firm().await;
    let mut worker = ranges_of(&world);
    worker.step().await.unwrap();
    let border = "select coalesce(max(substring(pg_get_constraintdef(oid) from '\\d+')::bigint), 0)
                    from pg_constraint where conname = 'events_border_check'";
    let first = world.ask_number(border).await;
    assert_eq!(first, (2 << 24) + 1);
    let jump = format!("select setval('events_position_seq', {})", first - 10);
    world.change_database(&jump).await;
    worker.step().await.unwrap();
    assert_eq!(world.ask_number(border).await, 0);
    lay_out(&world).await;
    world.firm().await;
}

/// The roles' rights are on columns. Their appends were refused from the cut on.
#[tokio::test]
async fn rights_on_columns_stay() {
    let world = old_world().await;
    world.firm().await;
    let role = format!("appender_{}", world.id().simple());
    let granted = format!(
        "create role {role}; grant select, insert (aggregate_type, digest) on events to {role};
         grant select on sequence events_position_seq to {role}"
    );
    world.pool().execute(granted.as_str()).await.unwrap();
    lay_out(&world).await;
    let rights: (bool, bool, bool, bool) = sqlx::query_as(
        "select has_column_privilege($1, 'events', 'digest', 'insert'),
                has_column_privilege($1, 'events', 'position', 'insert'),
                has_table_privilege($1, 'events', 'select'),
                has_sequence_privilege($1, 'events_position_seq', 'select')",
    )
    .bind(&role)
    .fetch_one(world.pool())
    .await
    .unwrap();
    assert_eq!(rights, (true, false, true, true));
    world.pool().execute(format!("drop owned by {role}; drop role {role}").as_str()).await.unwrap();
}

/// An older build names the key of the one table in its appends.
#[tokio::test]
async fn the_log_stays_beside_an_older_build() {
    let world = old_world().await;
    world.firm().await;
    // The begun layout is taken back: its border would refuse the older build's appends.
    ranges_of(&world).step().await.unwrap();
    let mut worker = LogRanges::new(world.projector().clone(), NewFormats::default());
    for _ in 0..6 {
        worker.step().await.unwrap();
    }
    let constraints = "select count(*) from pg_constraint where conname = 'events_border_check'";
    assert_eq!(world.ask_number(constraints).await, 0);
    assert_eq!(world.ask_number(RANGES).await, 0, "one table");
}
