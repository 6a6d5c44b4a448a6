//! `verify deliveries`: the proof of once per subscription (case I1), its findings when the
//! database was changed behind the service's back, and the repair of deliveries that were never
//! queued.

use std::time::Duration;

use api::commands::tokens::HolderRole;
use deliverer::inspect::proof::{LogFilter, ProofReport, ProofScope, verify};
use domain::audit::once::{DeliveryFault, DeliveryFaultKind};
use serde_json::{Value, json};
use sqlx::Executor;
use sqlx::postgres::PgPoolOptions;
use tests::{Firm, Receiver, Reply, World};
use uuid::Uuid;

use tests::process::firmforms;

const ALL: ProofScope = ProofScope {
    from: 1,
    to: i64::MAX,
    part: LogFilter { firm_id: None, since: None, until: None },
    examples: 3,
};

struct Scene {
    world: World,
    firm: Firm,
    hook: Uuid,
    receiver: Receiver,
}

impl Scene {
    /// A firm with a subscription.
    async fn new() -> Self {
        let world = World::new().await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        let hook = world.subscribe(&firm, &receiver.url("/hook")).await;
        Self { world, firm, hook, receiver }
    }

    async fn submit(&self, times: usize) {
        for _ in 0..times {
            self.world.submit(&self.firm).await;
        }
    }

    async fn remove(&self, hook: Uuid) {
        self.world.remove_hook(&self.firm, hook).await.ok();
    }

    async fn report(&self) -> ProofReport {
        verify(self.world.pool(), ALL, |_, _| ()).await.unwrap()
    }

    async fn assert_proven(&self) -> ProofReport {
        let report = self.report().await;
        assert!(report.is_proven(), "{:?}", report.examples);
        report
    }

    /// Fails unless just this is found, so often.
    async fn assert_found(&self, wrong: &[(DeliveryFault, u64)]) -> ProofReport {
        let report = self.report().await;
        let mut counts: Vec<(DeliveryFaultKind, u64)> =
            report.wrong.iter().map(|(k, n)| (*k, *n)).collect();
        let mut expected: Vec<_> = wrong.iter().map(|(wrong, n)| (wrong.kind(), *n)).collect();
        counts.sort_unstable();
        expected.sort_unstable();
        assert_eq!(counts, expected, "{:?}", report.examples);
        for (wrong, _) in wrong {
            let shown = report.examples.iter().any(|one| one.wrong == *wrong);
            assert!(shown, "{wrong:?}: {:?}", report.examples);
        }
        report
    }

    /// Runs statements as a superuser: no trigger stops them.
    async fn tamper(&self, statements: &[&str]) {
        let pool = PgPoolOptions::new().max_connections(1);
        let pool = pool.connect_with(self.world.database.main.clone()).await.unwrap();
        pool.execute("set session_replication_role = replica").await.unwrap();
        for statement in statements {
            let done = pool.execute(*statement).await.unwrap();
            assert!(done.rows_affected() > 0, "{statement}");
        }
        pool.close().await;
    }

    async fn command(&self, arguments: &[&str]) -> (i32, String) {
        let arguments = [&["verify", "deliveries"], arguments].concat();
        let output = firmforms(&self.world.database).args(arguments).output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
    }

    async fn queued(&self) -> i64 {
        self.world.count_events("DeliveryQueued").await
    }
}

/// A copy of the log's first attempt, for a delivery under another id.
const COPY: &str = "insert into events overriding system value
    select 1000000 + position, aggregate_type, gen_random_uuid()::text, sequence, event_type,
           event_version, payload, metadata, firm_id, recorded_at, digest
      from events where event_type = 'DeliveryAttempted' order by position limit 1";

/// Removes the lists of all occurrences without an attempt, as if no subscription had matched.
const UNLIST: &str = "update events o
       set payload = (o.payload::jsonb #- '{OccurrenceRecorded,hooks}')::json
     where event_type = 'OccurrenceRecorded' and not exists (
           select from events d where d.aggregate_type = 'Delivery' and d.sequence = 1
              and d.payload->'DeliveryAttempted'->'of'->>'occurrence_id' = o.aggregate_id)";

#[tokio::test]
async fn i1_every_end_of_deliveries_is_proven() {
    let scene = Scene::new().await;
    let world = &scene.world;
    scene.submit(2).await;
    let report = scene.assert_proven().await;
    assert_eq!((report.listed, report.deliveries), (2, 0), "nothing came of them yet");

    // Delivered, retried, failed, replayed, cancelled with its subscription, erased.
    scene.receiver.reply([200, 500, 404].map(Reply::status));
    world.deliver().await;
    scene.assert_proven().await;
    scene.submit(1).await;
    world.deliver().await;
    let order = json!({"firm_id": scene.firm.id, "reason": "the receiver was down"});
    start_replay(world, &order).await;
    world.pass(Duration::from_secs(2));
    world.replay().await;
    scene.assert_proven().await;
    world.deliver().await;
    let other = world.subscribe(&scene.firm, &scene.receiver.url("/other")).await;
    let erased = world.submit(&scene.firm).await;
    scene.remove(other).await;
    world.order_erasure(&scene.firm, erased).await;
    world.erase().await;
    scene.assert_proven().await;
    world.pass(Duration::from_secs(3_600));
    world.deliver().await;
    let report = scene.assert_proven().await;
    let counted = (report.occurrences, report.subscriptions, report.listed, report.deliveries);
    assert_eq!(counted, (4, 2, 5, 5));
    assert_eq!((report.unspread, report.overlaps), (0, 0));
}

async fn start_replay(world: &World, order: &Value) {
    let operator = world.new_token(HolderRole::Operator).await;
    world.call_internally(&operator, "POST", "/replays", order.clone()).await.ok();
}

#[tokio::test]
async fn i1_a_repair_queues_only_missing_deliveries() {
    let scene = Scene::new().await;
    let narrow = json!({"target_url": scene.receiver.url("/narrow"), "trigger": "form_submitted",
                        "form_id": scene.firm.form});
    scene.world.create_hook(&scene.firm, narrow).await;
    scene.submit(2).await;
    scene.world.deliver().await;
    scene.submit(3).await;
    scene.tamper(&[UNLIST, "delete from outbox"]).await;
    let report = scene.assert_found(&[(DeliveryFault::Missing, 6)]).await;
    assert_eq!(report.examples.len(), 3, "as many as asked for");

    let (code, text) = scene.command(&["--repair", "--reason", "a restore"]).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("repaired: 6 deliveries queued"), "{text}");
    scene.assert_proven().await;
    assert_eq!(scene.queued().await, 6);
    let (code, text) = scene.command(&["--repair", "--reason", "again"]).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("repaired: 0 deliveries queued"), "{text}");
    assert_eq!(scene.queued().await, 6, "the second time nothing is queued");

    // The command goes by the real clock.
    scene.world.pass(Duration::from_secs(400 * 86_400));
    assert_eq!(scene.world.deliver().await, 6);
    assert_eq!(scene.receiver.received().len(), 10);
    scene.world.project().await;
    let entries = scene.world.audit_entries_of("deliveries_repaired").await;
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    let told = (entry.actor_kind.as_str(), entry.reason.as_deref());
    assert_eq!(told, ("operator", Some("a restore")));
    assert_eq!(entry.evidence_but_terminal(), json!({"deliveries": 6}));
    let belonging = "select count(*) from events d join events r
                         on d.metadata->>'correlation_id' = r.aggregate_id
                      where r.event_type = 'DeliveriesRepaired' and d.event_type = 'DeliveryQueued'";
    assert_eq!(scene.world.ask_number(belonging).await, 6);
}

#[tokio::test]
async fn i1_repairs_for_removed_subscriptions_are_cancelled() {
    let scene = Scene::new().await;
    scene.submit(1).await;
    scene.tamper(&[UNLIST, "delete from outbox"]).await;
    scene.remove(scene.hook).await;
    scene.assert_found(&[(DeliveryFault::Missing, 1)]).await;
    let (code, text) = scene.command(&["--repair", "--reason", "a restore"]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(scene.world.deliver().await, 0);
    scene.assert_proven().await;
    let cause = "select count(*) from deliveries where cause = 'subscription_deleted'";
    assert_eq!(scene.world.ask_number(cause).await, 1);
}

/// Core 1: lost deliveries were found, and no tool put them back. A repair keeps their bytes and
/// their tries.
#[tokio::test]
async fn i1_a_repair_puts_lost_deliveries_back() {
    let scene = Scene::new().await;
    scene.receiver.reply([Reply::status(503)]);
    scene.submit(1).await;
    scene.world.deliver().await;
    scene.submit(1).await;
    scene.tamper(&["delete from outbox"]).await;
    scene.assert_found(&[(DeliveryFault::Lost, 2)]).await;
    let (code, text) = scene.command(&["--repair", "--reason", "a lost tail"]).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("repaired: 2 deliveries queued"), "{text}");
    assert_eq!(scene.queued().await, 0, "the log says already that they are to be there");
    scene.assert_proven().await;
    // The command goes by the real clock.
    scene.world.pass(Duration::from_secs(400 * 86_400));
    assert_eq!(scene.world.deliver().await, 2);
    let received = scene.receiver.received();
    assert_eq!(received[0].body, received[1].body, "its bytes stay");
    scene.world.project().await;
    let second = "select count(*) from events where event_type = 'DeliveryAttempted'
                     and sequence = 2 and payload->'DeliveryAttempted'->>'number' = '2'";
    assert_eq!(scene.world.ask_number(second).await, 1, "its tries go on");
    scene.assert_proven().await;
}

/// The replay has queued the delivery, and its row in the outbox is gone.
#[tokio::test]
async fn i1_a_lost_replayed_delivery_is_found() {
    let scene = Scene::new().await;
    scene.receiver.reply([404, 404].map(Reply::status));
    scene.submit(2).await;
    scene.world.deliver().await;
    start_replay(&scene.world, &json!({"firm_id": scene.firm.id, "reason": "a drill"})).await;
    scene.world.replay().await;
    scene.assert_proven().await;
    scene.tamper(&["delete from outbox where delivery_id = (select min(delivery_id::text)::uuid from outbox)"]).await;
    let requested = scene.world.events_of_type("ReplayRequested").await;
    let replay_id: Uuid = requested[0].aggregate_id.parse().unwrap();
    scene.assert_found(&[(DeliveryFault::ReplayLost(replay_id), 1)]).await;
    let other = LogFilter { firm_id: Some(scene.world.id()), ..ALL.part };
    let of_other = ProofScope { part: other, ..ALL };
    let report = verify(scene.world.pool(), of_other, |_, _| ()).await.unwrap();
    assert!(report.is_proven(), "{:?}", report.examples);
    scene.world.deliver().await;
    scene.assert_found(&[(DeliveryFault::ReplayLost(replay_id), 1)]).await;
}

/// One occurrence has two deliveries to one subscription.
#[tokio::test]
async fn i1_a_second_delivery_is_found() {
    let scene = Scene::new().await;
    scene.submit(1).await;
    scene.world.deliver().await;
    scene.tamper(&[COPY]).await;
    scene.assert_found(&[(DeliveryFault::Second, 1)]).await;
}

/// A row of the outbox after the delivery's end is found, too.
#[tokio::test]
async fn i1_a_second_success_is_found() {
    let scene = Scene::new().await;
    scene.submit(1).await;
    scene.world.deliver().await;
    let again = "insert into events overriding system value
        select 1000000, aggregate_type, aggregate_id, 2, event_type, event_version, payload,
               metadata, firm_id, recorded_at, digest
          from events where event_type = 'DeliveryAttempted'";
    scene.tamper(&[again]).await;
    scene.assert_found(&[(DeliveryFault::Successes(2), 1)]).await;

    let scene = Scene::new().await;
    scene.submit(1).await;
    scene.tamper(&["create table kept as select * from outbox"]).await;
    scene.world.deliver().await;
    scene.tamper(&["insert into outbox select * from kept"]).await;
    scene.assert_found(&[(DeliveryFault::StillQueued, 1)]).await;
}

/// Ruling 30a: overlapping transactions may be in either order, and no others.
#[tokio::test]
async fn i1_an_unseen_old_subscription_is_found() {
    let scene = Scene::new().await;
    scene.submit(1).await;
    scene.world.deliver().await;
    // It saw nobody, since the subscription came a moment before.
    let unseen =
        "update events set payload = (jsonb_set(payload::jsonb #- '{OccurrenceRecorded,hooks}',
                                               '{OccurrenceRecorded,seen}', '0'))::json
                   where event_type = 'OccurrenceRecorded'";
    scene.tamper(&[unseen, "delete from events where aggregate_type = 'Delivery'"]).await;
    let report = scene.assert_proven().await;
    assert_eq!(report.overlaps, 1);
    let long_ago = "update events set recorded_at = recorded_at - interval '61 s'
                     where event_type = 'SubscriptionCreated'";
    scene.tamper(&[long_ago]).await;
    scene.assert_found(&[(DeliveryFault::Unseen, 1)]).await;
}

#[tokio::test]
async fn i1_an_orphaned_delivery_is_found() {
    let scene = Scene::new().await;
    scene.submit(2).await;
    scene.world.deliver().await;
    scene
        .tamper(&["delete from events where position =
                     (select min(position) from events where event_type = 'OccurrenceRecorded')"])
        .await;
    scene.assert_found(&[(DeliveryFault::OfNothing, 1)]).await;

    let scene = Scene::new().await;
    scene.submit(1).await;
    scene.world.deliver().await;
    let elsewhere =
        "update events set payload = replace(payload::text, 'form_submitted', 'lead_hot')::json
                      where event_type = 'SubscriptionCreated'";
    scene.tamper(&[elsewhere]).await;
    scene.assert_found(&[(DeliveryFault::ToNobody, 1)]).await;

    let scene = Scene::new().await;
    scene.submit(1).await;
    scene.tamper(&["update outbox set delivery_id = gen_random_uuid()"]).await;
    scene.assert_found(&[(DeliveryFault::Unknown, 1), (DeliveryFault::Lost, 1)]).await;
}

/// The verdict may be about a part of the log.
#[tokio::test]
async fn i1_each_verdict_has_its_exit_code() {
    let scene = Scene::new().await;
    scene.submit(2).await;
    scene.world.deliver().await;
    let (code, text) = scene.command(&["--json"]).await;
    assert_eq!(code, 0, "{text}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&told["proven"], &told["listed"]), (&json!(true), &json!(2)));
    assert_eq!(told["wrong"], json!({"missing": 0, "doubled": 0, "orphaned": 0, "lost": 0}));

    scene.tamper(&["delete from events where aggregate_type = 'Delivery'", UNLIST]).await;
    assert_eq!(scene.command(&[]).await.0, 1);
    let (code, text) = scene.command(&["--examples", "1", "--json"]).await;
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &told["wrong"]["missing"]), (1, &json!(2)));
    assert_eq!(told["examples"].as_array().unwrap().len(), 1);
    for nothing in [
        ["--to", "1"],
        ["--from", "1000000"],
        ["--until", "2026-11-01T00:00:00Z"],
        ["--since", "2027-11-01T00:00:00Z"],
        ["--firm", &Uuid::nil().to_string()],
    ] {
        assert_eq!(scene.command(&nothing).await.0, 0, "{nothing:?}");
    }
    assert_eq!(scene.command(&["--firm", &scene.firm.id.to_string()]).await.0, 1);
    assert_eq!(scene.command(&["--repair"]).await.0, 2, "it wants a reason");
    assert_eq!(scene.command(&["--repair", "--reason", " "]).await.0, 2);
    let mut away = firmforms(&scene.world.database);
    away.env("DATABASE_URL", "postgres://127.0.0.1:1/nowhere").args(["verify", "deliveries"]);
    assert_eq!(away.output().await.unwrap().status.code(), Some(2));
}
