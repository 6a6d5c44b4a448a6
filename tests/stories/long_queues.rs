//! Long queues: the cost of a claim, a record and a cancellation. It does not depend on the rows
//! taken while a snapshot is held, on the rows left, or on the lanes of a full host. The tests
//! count blocks that the server touches, because times depend on the machine.

use deliverer::claim::claim_due;
use deliverer::upkeep::{CancelWorker, EndedLeaseWorker};
use deliverer::{DelivererContext, SendLimits};
use domain::delivery::pressure::HostCaps;
use eventstore::worker::{NextStep, Worker};
use sqlx::{Connection, Executor, PgConnection};
use tests::plans::{Plan, read, write_down};
use tests::{Connections, Firm, Receiver, Sending, Templates, World, own_cluster};
use uuid::Uuid;

/// Rows of a long queue. Each has an index entry, so a scan of them all touches more blocks.
const LONG: i32 = 20_000;

/// Blocks that no statement may touch.
const MANY: f64 = 1_000.0;

/// A world whose plans are written down, and a firm with a subscription.
async fn written_down(cluster: &Templates, target: &str) -> (World, Firm, Uuid) {
    let before = World::connected(cluster.database().await, Connections::Apart).await;
    write_down(before.pool()).await;
    let firm = before.firm().await;
    let hook_id = before.subscribe(&firm, target).await;
    let clock = before.clock.now().get();
    let world = World::connected(before.database, Connections::Apart).await;
    world.pass((clock - world.clock.now().get()).to_std().unwrap());
    (world, firm, hook_id)
}

fn end(cluster: &Templates) -> u64 {
    std::fs::metadata(cluster.log()).unwrap().len()
}

/// The statements of the queues that touched many blocks.
fn costly(plans: &[Plan]) -> Vec<String> {
    let queues = ["outbox", "lanes", "lane_wakes"];
    let of_queues = |plan: &&Plan| queues.iter().any(|table| plan.statement.contains(table));
    // A lane that is parked costs once, and no claim after that.
    let parks = |plan: &&Plan| plan.statement.contains("set parked_in = b.queue");
    let of_claims = plans.iter().filter(of_queues).filter(|plan| !parks(plan));
    let costly = of_claims.filter(|plan| plan.blocks() > MANY);
    costly.map(|plan| format!("{}: {}", plan.blocks(), plan.statement)).collect()
}

/// A snapshot that is held until the connection goes.
async fn hold(world: &World) -> PgConnection {
    let mut holder = PgConnection::connect_with(&world.database.main).await.unwrap();
    holder.execute("begin isolation level repeatable read; select from lanes").await.unwrap();
    holder
}

/// Makes rows that wait in a lane, due a minute before.
async fn queue(world: &World, lane_id: Uuid, due: &str) {
    sqlx::query(
        "insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
                             response_id, position, due_at, tries_max)
         select gen_random_uuid(), $1, firm_id, gen_random_uuid(), 'form_submitted',
                gen_random_uuid(), gen_random_uuid(), n,
                $3 + $4::interval + n * interval '1 microsecond', 8
           from lanes, generate_series(1, $2) as n where lane_id = $1",
    )
    .bind(lane_id)
    .bind(LONG)
    .bind(world.clock.now().get())
    .bind(due)
    .execute(world.pool())
    .await
    .unwrap();
}

/// Queues, wakes, claims and ends many deliveries of a lane, and wakes many other lanes.
async fn finish(world: &World, lane_id: Uuid) {
    queue(world, lane_id, "-1 minute").await;
    let lease =
        "update outbox set lease = 1, leased_at = due_at, due_at = due_at + interval '30 s'";
    let wake = format!(
        "insert into lane_wakes (lane_id) select '{lane_id}' from generate_series(1, {LONG})"
    );
    let lanes = format!(
        "insert into lanes (lane_id, firm_id, kind, host, due_at)
         select gen_random_uuid(), firm_id, 'hook', host, now() - interval '1 year'
           from lanes, generate_series(1, {LONG}) where lane_id = '{lane_id}'"
    );
    let idle = "update lanes set due_at = null where due_at < now() - interval '100 days'";
    for statement in
        [lease, "delete from outbox", &wake, "delete from lane_wakes", &lanes, idle, "analyze"]
    {
        world.change_database(statement).await;
    }
}

/// Each claim and each record once looked at an entry of everything that was taken since a snapshot
/// was held. So a dump of an hour made them slower all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_snapshot_makes_claims_no_slower() {
    let cluster = own_cluster().await;
    let receiver = Receiver::start().await;
    let (world, firm, hook_id) = written_down(&cluster, &receiver.url("/hook")).await;
    let process = Sending::with(world.deliverer().clone());
    let stop = process.stop.clone();
    let running = process.runs();
    let mut leases = EndedLeaseWorker::new(world.deliverer().clone());
    world.submit(&firm).await;
    receiver.wait_for(1).await;
    leases.step().await.unwrap();
    let _held = hold(&world).await;
    finish(&world, hook_id).await;
    let from = end(&cluster);
    for sent in 2..=4 {
        world.submit(&firm).await;
        receiver.wait_for(sent).await;
        leases.step().await.unwrap();
    }
    stop.cancel();
    running.await.unwrap();
    let plans = read(&cluster.log(), from);
    assert!(plans.iter().any(|plan| plan.statement.contains("update outbox set lease")));
    let costly = costly(&plans);
    assert!(costly.is_empty(), "{}", costly.join("\n"));
}

/// Each thousand deliveries of a removed subscription once cost as much as all that were left. With
/// a held snapshot they cost as much as all that were gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_a_long_queue_takes_linear_work() {
    let cluster = own_cluster().await;
    let (world, firm, hook_id) = written_down(&cluster, "http://127.0.0.1:7777/hook").await;
    queue(&world, hook_id, "-1 minute").await;
    world.change_database("vacuum analyze").await;
    world.remove_hook(&firm, hook_id).await.ok();
    let _held = hold(&world).await;
    let from = end(&cluster);
    let mut worker = CancelWorker::new(world.deliverer().clone());
    while worker.step().await.unwrap() == NextStep::Busy {}
    assert_eq!(world.count("outbox").await, 0);
    let plans = read(&cluster.log(), from);
    for statement in ["delete from outbox", "update lanes l set due_at"] {
        let steps = plans.iter().filter(|plan| plan.statement.contains(statement));
        let blocks: Vec<f64> = steps.map(Plan::blocks).collect();
        let (first, last) = (blocks[0], blocks[blocks.len() - 2]);
        assert!(last < 1.5 * first + 100.0, "{statement}: {first} blocks, then {last}");
    }
}

/// Few attempts may be in flight to a host.
fn deliverer(world: &World) -> DelivererContext {
    let mut deliverer = world.deliverer().clone();
    deliverer.settings.caps = HostCaps { per_firm_and_host: 2, per_host: 2 };
    deliverer
}

/// Each claim once walked over all due lanes of a full host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_skips_lanes_of_full_hosts() {
    let cluster = own_cluster().await;
    let (world, firm, hook_id) = written_down(&cluster, "http://127.0.0.1:7777/hook").await;
    let other = world.subscribe(&firm, "http://127.0.0.2:7777/hook").await;
    for _ in 0..4 {
        world.submit(&firm).await;
    }
    let deliverer = deliverer(&world);
    let limits = SendLimits::alone(deliverer.settings);
    let lanes_of = |claimed: &[deliverer::attempt::ClaimedAttempt]| {
        let mut lanes: Vec<Uuid> = claimed.iter().map(|one| one.lane_id).collect();
        lanes.sort_unstable();
        lanes
    };
    let first = claim_due(&deliverer, &limits).await.unwrap();
    let mut both = [hook_id, hook_id, other, other];
    both.sort_unstable();
    assert_eq!(lanes_of(&first), both);
    let (to_other, to_full): (Vec<_>, Vec<_>) =
        first.into_iter().partition(|one| one.lane_id == other);
    drop(to_other);
    // These lanes come before the lane of the other host, and are more than a claim reads in their
    // order.
    sqlx::query(
        "insert into lanes (lane_id, firm_id, kind, host, due_at)
         select gen_random_uuid(), gen_random_uuid(), 'hook', '127.0.0.1',
                $1 - interval '1 minute'
           from generate_series(1, $2)",
    )
    .bind(world.clock.now().get())
    .bind(LONG)
    .execute(world.pool())
    .await
    .unwrap();
    world.change_database("vacuum analyze").await;
    let from = end(&cluster);
    let second = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(lanes_of(&second), [other, other], "the other host has room");
    drop(to_full);
    let costly = costly(&read(&cluster.log(), from));
    assert!(costly.is_empty(), "{}", costly.join("\n"));
    // The full host has room again, and its lanes take turns with the due lanes of others.
    let mut third = Vec::new();
    while third.is_empty() {
        third = claim_due(&deliverer, &limits).await.unwrap();
    }
    assert_eq!(lanes_of(&third), [hook_id, hook_id]);
}

/// Each claim once walked over all due lanes of a paused host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_skips_lanes_of_paused_hosts() {
    let cluster = own_cluster().await;
    let (world, firm, _) = written_down(&cluster, "http://127.0.0.1:7777/hook").await;
    world.submit(&firm).await;
    for statement in [
        format!(
            "insert into lanes (lane_id, firm_id, kind, host, due_at)
             select gen_random_uuid(), gen_random_uuid(), 'hook', 'held.example',
                    '2026-11-01T11:00:00Z'
               from generate_series(1, {LONG})"
        ),
        "insert into pauses (pause_id, kind, host, reason, actor, paused_at)
         values (gen_random_uuid(), 'host', 'held.example', 'r', 'system', now())"
            .to_owned(),
        "vacuum analyze".to_owned(),
    ] {
        world.change_database(&statement).await;
    }
    let from = end(&cluster);
    assert_eq!(claim_due(world.deliverer(), &world.limits(16)).await.unwrap().len(), 1);
    let costly = costly(&read(&cluster.log(), from));
    assert!(costly.is_empty(), "{}", costly.join("\n"));
}
