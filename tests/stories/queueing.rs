//! Queueing and spreading: the transaction that records an occurrence inserts the rows of its
//! deliveries. Rows that are too many for it are spread later.

use std::collections::BTreeSet;
use std::time::Duration;

use deliverer::inspect::proof::{LogFilter, ProofReport, ProofScope, verify};
use deliverer::send::SpreadWorker;
use deliverer::send::deliver_once;
use eventstore::worker::{NextStep, Worker};
use serde_json::{Value, json};
use tests::{Firm, Received, Receiver, Sending, World, activity, submitted};
use uuid::Uuid;

const ALL: ProofScope = ProofScope {
    from: 1,
    to: i64::MAX,
    part: LogFilter { firm_id: None, since: None, until: None },
    examples: 3,
};

/// Cancellations that come before one of an older occurrence (ruling 26).
const CANCELLED_OUT_OF_ORDER: &str = "
    with cancelled as (
        select c.position, o.position as occurrence_position
          from events c
          join events o on o.aggregate_type = 'Occurrence'
           and o.aggregate_id = c.payload -> 'DeliveryCancelled' -> 'of' ->> 'occurrence_id'
         where c.event_type = 'DeliveryCancelled'),
    next as (
        select occurrence_position,
               lead(occurrence_position) over (order by position) as next_position
          from cancelled)
    select count(*) from next where next_position < occurrence_position";

struct Scene {
    world: World,
    receiver: Receiver,
}

impl Scene {
    async fn new() -> Self {
        Self { world: World::new().await, receiver: Receiver::start().await }
    }

    /// A firm with so many subscriptions.
    async fn firm(&self, hooks: usize) -> (Firm, Vec<Uuid>) {
        let (firm, mut ids) = (self.world.firm().await, Vec::new());
        for hook in 0..hooks {
            ids.push(self.world.subscribe(&firm, &self.receiver.url(&format!("/{hook}"))).await);
        }
        (firm, ids)
    }

    /// One call with so many responses; their ids.
    async fn submit(&self, firm: &Firm, count: usize) -> Vec<Uuid> {
        let ids: Vec<Uuid> = (0..count).map(|_| self.world.id()).collect();
        let call: Vec<Value> = ids.iter().map(|id| submitted(firm, *id)).collect();
        self.world.report(&call).await.ok();
        ids
    }

    /// Rows of the outbox, and occurrences that are not spread into it yet.
    async fn queue(&self) -> (i64, i64) {
        let queue = "select (select count(*) from outbox), (select count(*) from unspread)";
        sqlx::query_as(queue).fetch_one(self.world.pool()).await.unwrap()
    }

    async fn unspread_of(&self, firm: &Firm) -> i64 {
        self.world.count(&format!("unspread where firm_id = '{}'", firm.id)).await
    }

    fn spreader(&self) -> SpreadWorker {
        SpreadWorker::new(self.world.deliverer().clone())
    }

    /// One piece, by a spreader that has just begun.
    async fn spread_some(&self) {
        assert_ne!(self.spreader().step().await.unwrap(), NextStep::IDLE);
    }

    /// Moves all queued deliveries back to `unspread`.
    async fn gather(&self) {
        let gather = "
            with queued as (delete from outbox returning firm_id, position, occurrence_id)
            insert into unspread (firm_id, position, occurrence_id)
            select distinct firm_id, position, occurrence_id from queued";
        self.world.change_database(gather).await;
        self.world.change_database("delete from lane_wakes").await;
    }

    /// States of all deliveries, and their causes, each with how many there are.
    async fn states(&self) -> Vec<(String, Option<String>, i64)> {
        self.world.project().await;
        let states = "select state, cause, count(*) from deliveries group by 1, 2 order by 1, 2";
        sqlx::query_as(states).fetch_all(self.world.pool()).await.unwrap()
    }

    async fn assert_proven(&self) -> ProofReport {
        let report = verify(self.world.pool(), ALL, |_, _| ()).await.unwrap();
        assert!(report.is_proven(), "{:?}", report.examples);
        report
    }

    /// Sends all there is, and fails unless each of so many arrives once.
    async fn assert_all_arrive_once(&self, count: usize) {
        assert_eq!(self.world.deliver().await, count);
        let received = self.receiver.received();
        let id = |one| Received::header(one, "x-service-delivery");
        let ids: BTreeSet<_> = received.iter().map(id).collect();
        assert_eq!((received.len(), ids.len()), (count, count));
        assert_eq!(self.states().await, [state("delivered", count)]);
        assert_eq!(self.queue().await, (0, 0));
        assert_eq!(self.assert_proven().await.unspread, 0);
    }
}

fn state(state: &str, count: usize) -> (String, Option<String>, i64) {
    (state.to_owned(), None, i64::try_from(count).unwrap())
}

fn cancelled(cause: &str, count: i64) -> (String, Option<String>, i64) {
    ("cancelled".to_owned(), Some(cause.to_owned()), count)
}

/// The call queues its first 100 rows. Each step takes the oldest of the rest, and never one twice.
#[tokio::test]
async fn a_large_call_is_spread_in_order() {
    let scene = Scene::new().await;
    let (firm, _) = scene.firm(100).await;
    scene.submit(&firm, 12).await;
    let behind = "select count(*) from outbox o join unspread u on u.position <= o.position";
    assert_eq!(scene.queue().await, (100, 11));
    for queue in [(600, 6), (1_100, 1), (1_200, 0)] {
        assert_eq!(scene.world.ask_number(behind).await, 0, "the oldest first");
        scene.spread_some().await;
        assert_eq!(scene.queue().await, queue);
    }
    assert_eq!(scene.spreader().step().await.unwrap(), NextStep::IDLE);
    scene.assert_all_arrive_once(1_200).await;
}

/// The list of the firm's oldest occurrence says how many are looked at.
#[tokio::test]
async fn a_step_leaves_lists_that_grow() {
    let scene = Scene::new().await;
    let (firm, _) = scene.firm(1).await;
    scene.submit(&firm, 101).await;
    for hook in 1..100 {
        scene.world.subscribe(&firm, &scene.receiver.url(&format!("/{hook}"))).await;
    }
    scene.submit(&firm, 12).await;
    assert_eq!(scene.queue().await, (200, 12));
    scene.spread_some().await;
    assert_eq!(scene.queue().await, (601, 7), "of 501 rows the last 100 are left");
    scene.spread_some().await;
    assert_eq!(scene.queue().await, (1_101, 2));
}

/// Each of these deliveries once got a row in a step of ten, and the cancel worker took the row out
/// again: below 1,000 a second.
#[tokio::test]
async fn revoked_keys_get_no_spread_rows() {
    let scene = Scene::new().await;
    let (firm, _) = scene.firm(1).await;
    scene.submit(&firm, 300).await;
    assert_eq!(scene.queue().await, (100, 200));
    scene.world.revoke_key(&firm, firm.key_id).await;
    scene.world.cancel().await;
    assert_eq!(scene.queue().await, (0, 200));
    assert_eq!(scene.spreader().step().await.unwrap(), NextStep::Busy);
    assert_eq!(scene.queue().await, (0, 0));
    assert_eq!(scene.states().await, [cancelled("key_revoked", 300)]);
    assert_eq!(scene.world.ask_number(CANCELLED_OUT_OF_ORDER).await, 0);
    scene.assert_proven().await;
    assert_eq!(scene.spreader().step().await.unwrap(), NextStep::IDLE);
}

#[tokio::test]
async fn a_call_within_budget_needs_no_spread() {
    let scene = Scene::new().await;
    let (firm, _) = scene.firm(10).await;
    scene.submit(&firm, 10).await;
    assert_eq!(scene.queue().await, (100, 0));
    scene.submit(&firm, 10).await;
    assert_eq!(scene.queue().await, (200, 0), "each call has its own");
    assert_eq!(scene.world.count("lane_wakes").await, 20, "one a lane and call");
}

/// F3: somebody has locked a lane, and the lane has more wakes than are taken at a time.
#[tokio::test]
async fn f3_a_locked_lane_delays_no_wake() {
    let scene = Scene::new().await;
    let ((held, hooks), (other, _)) = (scene.firm(1).await, scene.firm(1).await);
    scene.submit(&held, 1).await;
    let wakes = format!("select '{}'::uuid from generate_series(1, 1000)", hooks[0]);
    scene.world.change_database(&format!("insert into lane_wakes (lane_id) {wakes}")).await;
    let holder = scene.world.hold_lane(hooks[0]).await;
    scene.submit(&other, 1).await;
    assert_eq!(deliver_once(scene.world.deliverer()).await.unwrap(), 1, "the other firm's");
    holder.rollback().await.unwrap();
    assert_eq!(deliver_once(scene.world.deliverer()).await.unwrap(), 1);
}

/// F3: two firms with 60 occurrences each.
#[tokio::test]
async fn f3_firms_with_bursts_take_turns() {
    let scene = Scene::new().await;
    let (one, another) = (scene.firm(10).await.0, scene.firm(10).await.0);
    for firm in [&one, &another] {
        scene.submit(firm, 70).await;
        assert_eq!(scene.unspread_of(firm).await, 60);
    }
    scene.spread_some().await;
    for firm in [&one, &another] {
        assert_eq!(scene.unspread_of(firm).await, 35, "each has half of the rows");
    }
    scene.world.spread().await;
    scene.assert_all_arrive_once(1_400).await;
}

/// F3: there are more firms than are taken at a time.
#[tokio::test]
async fn f3_first_turns_precede_second_ones() {
    let scene = Scene::new().await;
    for _ in 0..12 {
        let (firm, _) = scene.firm(1).await;
        scene.submit(&firm, 30).await;
    }
    scene.gather().await;
    assert_eq!(scene.queue().await, (0, 360));
    let mut spreader = scene.spreader();
    let had_a_turn = "select count(distinct firm_id) from outbox";
    for (rows, firms) in [(10, 10), (14, 12)] {
        while scene.queue().await.0 < rows {
            spreader.step().await.unwrap();
        }
        assert_eq!(
            (scene.queue().await.0, scene.world.ask_number(had_a_turn).await),
            (rows, firms)
        );
    }
    scene.world.spread().await;
    scene.assert_all_arrive_once(360).await;
}

/// E20: three that spread beside each other, as processes do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e20_racing_spreads_queue_each_row_once() {
    let scene = Scene::new().await;
    for _ in 0..2 {
        let (firm, _) = scene.firm(10).await;
        scene.submit(&firm, 60).await;
    }
    tokio::join!(scene.world.spread(), scene.world.spread(), scene.world.spread());
    assert_eq!(scene.queue().await, (1_200, 0));
    scene.assert_all_arrive_once(1_200).await;
}

/// E8: the transaction is cut off before its commit, once. Nothing is repeated either.
#[tokio::test]
async fn e8_an_aborted_spread_loses_nothing() {
    let scene = Scene::new().await;
    let (firm, _) = scene.firm(10).await;
    scene.submit(&firm, 25).await;
    let cut_off = "create sequence cut_off;
        create function cut_off_once() returns trigger
            language plpgsql security definer as $$ begin
            if nextval('cut_off') = 1 then
                raise exception 'terminating connection' using errcode = '57P01';
            end if;
            return null;
        end $$;
        create constraint trigger cut_off_once after insert on outbox
            deferrable initially deferred for each row execute function cut_off_once();";
    scene.world.change_database(cut_off).await;
    let mut spreader = scene.spreader();
    spreader.step().await.expect_err("it is cut off");
    assert_eq!(scene.queue().await, (100, 15));
    while scene.queue().await != (250, 0) {
        spreader.step().await.unwrap();
    }
    scene.assert_all_arrive_once(250).await;
}

/// An occurrence that lists no subscription wakes nobody.
#[tokio::test]
async fn an_unsubscribed_occurrence_queues_nothing() {
    let scene = Scene::new().await;
    let (firm, _) = scene.firm(0).await;
    let deliveries = scene.world.service().store.nudge().subscribe_to_deliveries();
    scene.submit(&firm, 200).await;
    assert_eq!(scene.queue().await, (0, 0));
    assert_eq!(scene.world.count("lane_wakes").await, 0);
    assert!(!deliveries.has_changed().unwrap(), "nothing waits");
    assert!(scene.states().await.is_empty());
    let report = scene.assert_proven().await;
    assert_eq!((report.occurrences, report.listed), (200, 0));
}

/// The list is in the log before its rows are in the outbox: history and the proof go by the list.
#[tokio::test]
async fn history_and_proof_know_unspread_deliveries() {
    let scene = Scene::new().await;
    let (firm, _) = scene.firm(100).await;
    scene.submit(&firm, 2).await;
    assert_eq!(scene.queue().await, (100, 1));
    assert_eq!(scene.states().await, [state("pending", 200)]);
    let report = scene.assert_proven().await;
    assert_eq!((report.listed, report.unspread), (200, 100));
    let shown = "select count(distinct (occurrence_id, hook_id)) from deliveries";
    assert_eq!(scene.world.ask_number(shown).await, 200);
    assert_eq!(deliver_once(scene.world.deliverer()).await.unwrap(), 32);
    assert_eq!(scene.states().await, [state("delivered", 32), state("pending", 168)]);
    assert_eq!(scene.assert_proven().await.unspread, 100, "others are on their way");
    scene.world.spread().await;
    assert_eq!(scene.queue().await, (168, 0));
    assert_eq!(scene.assert_proven().await.unspread, 0);
    assert_eq!(scene.world.deliver().await, 168);
    assert_eq!(scene.states().await, [state("delivered", 200)]);
}

/// Ruling 27: a delivery is cancelled with its subscription, whenever it is spread.
#[tokio::test]
async fn a_closed_lanes_unspread_deliveries_are_cancelled() {
    let scene = Scene::new().await;
    let (firm, hooks) = scene.firm(100).await;
    scene.submit(&firm, 2).await;
    scene.world.remove_hook(&firm, hooks[0]).await.ok();
    scene.world.cancel().await;
    assert_eq!(scene.queue().await, (99, 1));
    assert_eq!(scene.assert_proven().await.unspread, 100);
    scene.world.spread().await;
    scene.world.cancel().await;
    assert_eq!(scene.queue().await, (198, 0));
    assert_eq!(scene.world.deliver().await, 198);
    let states = [cancelled("subscription_deleted", 2), state("delivered", 198)];
    assert_eq!(scene.states().await, states);
    scene.assert_proven().await;
}

/// H1: the response is erased after its occurrence was recorded, and before the spread.
#[tokio::test]
async fn h1_erased_unspread_deliveries_are_cancelled() {
    let scene = Scene::new().await;
    let (firm, _) = scene.firm(51).await;
    let responses = scene.submit(&firm, 2).await;
    assert_eq!(scene.queue().await, (51, 1));
    scene.world.order_erasure(&firm, responses[1]).await;
    scene.world.erase().await;
    let mut sent = 0;
    while scene.queue().await != (0, 0) {
        sent += scene.world.deliver().await;
    }
    assert_eq!(sent, 51);
    assert_eq!(scene.states().await, [cancelled("source_erased", 51), state("delivered", 51)]);
    let of_other = |one: &Received| one.json()["response"]["id"] == json!(responses[0]);
    assert!(scene.receiver.received().iter().all(of_other));
    scene.assert_proven().await;
}

/// The append leases as many rows as the receiver has room for. Occurrences beyond the budget are
/// left to be spread.
#[tokio::test]
async fn rows_beyond_the_budget_are_not_leased() {
    let scene = Scene::new().await;
    let (firm, _) = scene.firm(10).await;
    let process = Sending::with(scene.world.deliverer().clone());
    process.claims_in_appends(&scene.world);
    scene.submit(&firm, 15).await;
    assert_eq!(scene.queue().await, (40, 11));
    let leased = "select count(*) from outbox where leased_at is not null";
    assert_eq!(scene.world.ask_number(leased).await, 32);
    process.answered(32).await;
    assert_eq!(scene.assert_proven().await.unspread, 110);
    process.ends(&scene.world).await;
    assert_eq!(scene.world.deliver().await, 118);
    assert_eq!(scene.states().await, [state("delivered", 150)]);
}

/// Ruling 28: the suspension has lasted 72 hours.
#[tokio::test]
async fn a_suspended_firms_unspread_deliveries_are_cancelled() {
    let scene = Scene::new().await;
    let (firm, _) = scene.firm(10).await;
    scene.submit(&firm, 15).await;
    let mut suspended = activity(firm.id, "firm.suspended", json!({}));
    suspended["time"] = json!("2026-11-01T12:00:01.000Z");
    scene.world.report_one(suspended).await;
    scene.world.pass(Duration::from_secs(72 * 3_600));
    assert_eq!(scene.world.deliver().await, 0);
    assert_eq!(scene.queue().await, (0, 0));
    assert_eq!(scene.states().await, [cancelled("firm_suspended", 150)]);
    scene.assert_proven().await;
}
