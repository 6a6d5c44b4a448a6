//! The claim in the append: the transaction that records an occurrence leases its deliveries, if
//! their lanes have no other work. Otherwise a later claim leases them.

mod ahead;
mod at_once;
mod batches;
mod gate;
mod refused;
mod removals;
mod spread;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::Service;
use api::commands::tokens::{self, HolderRole};
use chrono::{DateTime, Utc};
use deliverer::claim::claim_due;
use deliverer::send::deliver_once;
use deliverer::{DelivererContext, Dispatcher, SenderCount, SenderMembership};
use domain::delivery::LEASE_TIME;
use domain::delivery::pressure::HostCaps;
use domain::subscription::Trigger;
use eventstore::{Clock, WallClock};
use futures::future::join_all;
use serde_json::{Value, json};
use service::claim_in_appends;
use tests::{
    Firm, Received, Receiver, Reply, Sending, TestDatabase, World, activity, later, own_cluster,
    submitted,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A firm with a subscription, and its receiver.
struct Scene {
    world: World,
    firm: Firm,
    hook: Uuid,
    receiver: Receiver,
}

impl Scene {
    async fn new() -> Self {
        let world = World::new().await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        let hook = world.subscribe(&firm, &receiver.url("/hook")).await;
        Self { world, firm, hook, receiver }
    }

    /// A process that leases deliveries of the occurrences it records. A world has one.
    fn process(&self, change: impl FnOnce(&mut DelivererContext)) -> Sending {
        let mut deliverer = self.world.deliverer().clone();
        change(&mut deliverer);
        let process = Sending::with(deliverer);
        process.claims_in_appends(&self.world);
        process
    }

    /// Reports `count` responses in one batch.
    async fn submit(&self, count: usize) {
        let all: Vec<Value> = (0..count).map(|_| submitted(&self.firm, self.world.id())).collect();
        self.report(&all).await;
    }

    /// Reports a response in a batch that needs a transaction of several statements.
    async fn submit_in_steps(&self) {
        let saved = json!({"response_id": self.world.id(), "form_id": self.firm.form,
                           "saved_at": "2026-11-01T12:00:00Z", "answers": []});
        let saved = activity(self.firm.id, "response.saved", saved);
        self.report(&[submitted(&self.firm, self.world.id()), saved]).await;
    }

    async fn report(&self, events: &[Value]) {
        self.world.report(events).await.ok();
    }

    /// Numbers of leased and of waiting deliveries.
    async fn queue(&self) -> (i64, i64) {
        let queue = "select count(*) filter (where leased_at is not null),
                            count(*) filter (where leased_at is null) from outbox";
        sqlx::query_as(queue).fetch_one(self.world.pool()).await.unwrap()
    }

    /// Numbers of leased and of waiting deliveries after one more response.
    async fn queue_after_another(&self) -> (i64, i64) {
        self.submit(1).await;
        self.queue().await
    }

    /// How many occurrences wait to be spread.
    async fn unspread(&self) -> i64 {
        self.world.count("unspread").await
    }

    async fn wakes(&self) -> i64 {
        self.world.count("lane_wakes").await
    }

    /// Versions of the lanes' rows: a row that is written has another one.
    async fn lanes(&self) -> Vec<(Uuid, String, Option<DateTime<Utc>>)> {
        sqlx::query_as("select lane_id, xmin::text, due_at from lanes order by lane_id")
            .fetch_all(self.world.pool())
            .await
            .unwrap()
    }

    /// Has lanes due that were woken: a claim without a permit does no more.
    async fn absorb_wakes(&self) {
        assert!(claim_due(self.world.deliverer(), &self.world.limits(0)).await.unwrap().is_empty());
        assert_eq!(self.wakes().await, 0);
    }

    /// Makes a call as an operator and returns the answer.
    async fn operate(&self, method: &str, path: &str, body: Value) -> Value {
        let service = self.world.service();
        let at_terminal = service.store.with_pool(self.world.pool().clone());
        let terminal = Service { store: at_terminal, ..service.clone() };
        let made = tokens::create(&terminal, "operator", HolderRole::Operator).await.unwrap();
        self.world.call_internally(&made.token, method, path, body).await.ok().body
    }

    /// Pauses the scope and returns the path of the pause.
    async fn pause(&self, mut scope: Value) -> String {
        scope["reason"] = json!("a test");
        let made = self.operate("POST", "/pauses", scope).await;
        format!("/pauses/{}", made["id"].as_str().unwrap())
    }

    /// States of the deliveries, each with the outcomes of its attempts.
    async fn histories(&self) -> Vec<(String, Vec<String>)> {
        self.world.project().await;
        let ids = self.world.delivery_ids().await;
        join_all(ids.into_iter().map(|id| self.world.history(id))).await
    }

    /// Fails unless `count` deliveries arrived, each by its first attempt.
    async fn assert_all_arrived_once(&self, count: usize) {
        assert_eq!(self.histories().await, vec![once(); count]);
        let received = self.receiver.received();
        let id = |one| Received::header(one, "x-service-delivery");
        let ids: BTreeSet<_> = received.iter().map(id).collect();
        assert_eq!((received.len(), ids.len()), (count, count));
    }
}

fn once() -> (String, Vec<String>) {
    ("delivered".to_owned(), vec!["delivered".to_owned()])
}

/// Makes the first `times` commits of leases fail at the last moment.
async fn fail_commits(scene: &Scene, times: usize, sqlstate: &str) {
    let fail = format!(
        "create sequence failed;
         create function fail() returns trigger language plpgsql security definer as $$ begin
             if nextval('failed') <= {times} then
                 raise exception using errcode = '{sqlstate}';
             end if;
             return null;
         end $$;
         create constraint trigger fail after insert on outbox deferrable initially deferred
             for each row when (new.leased_at is not null) execute function fail();"
    );
    scene.world.change_database(&fail).await;
}

/// The database takes no row with a lease.
async fn refuse_leases(scene: &Scene) {
    let refuse = "
        create function refuse() returns trigger language plpgsql as $$ begin
            raise exception 'no lease' using errcode = 'P0001';
        end $$;
        create trigger refuse before insert on outbox
            for each row when (new.leased_at is not null) execute function refuse();";
    scene.world.change_database(refuse).await;
}

/// The append leases both deliveries. No lane is written, and the body is built once.
#[tokio::test]
async fn a_lone_occurrence_needs_no_separate_claim() {
    let scene = Scene::new().await;
    scene.world.subscribe(&scene.firm, &scene.receiver.url("/other")).await;
    let (process, lanes) = (scene.process(|_| {}), scene.lanes().await);
    assert_eq!(scene.queue_after_another().await, (2, 0));
    assert_eq!(scene.wakes().await, 0);
    assert_eq!(deliver_once(scene.world.deliverer()).await.unwrap(), 0);
    let received = scene.receiver.wait_for(2).await;
    assert_eq!(received[0].body, received[1].body);
    process.ends(&scene.world).await;
    scene.assert_all_arrived_once(2).await;
    assert_eq!(scene.queue().await, (0, 0));
    assert!(lanes.iter().all(|(.., due_at)| due_at.is_none()));
    assert_eq!(scene.lanes().await, lanes, "no lane is written");
    assert_eq!(scene.world.count("bodies").await, 1, "built once");
}

#[tokio::test]
async fn only_unleased_deliveries_wake_the_claim_worker() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let claims = scene.world.service().store.nudge().subscribe_to_deliveries();
    assert_eq!(scene.queue_after_another().await, (1, 0));
    assert!(!claims.has_changed().unwrap(), "all of it is leased");
    process.stop.cancel();
    assert_eq!(scene.queue_after_another().await, (1, 1));
    assert!(claims.has_changed().unwrap());
}

/// A wall clock that nobody has set.
struct Unset;

impl WallClock for Unset {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }
}

/// E18, E19: a process leases nothing if it stops, has no permit, goes by a wrong clock or does not
/// know the other senders yet. The delivery waits in the outbox.
#[tokio::test]
async fn e19_a_barred_process_leaves_a_wake() {
    for why in ["it stops", "no permit", "its clock", "not a sender yet", "it is gone"] {
        let scene = Scene::new().await;
        let (pool, mut deliverer) = (scene.world.pool(), scene.world.deliverer().clone());
        let (mut senders, stop) = (SenderCount::alone(), CancellationToken::new());
        match why {
            "it stops" => stop.cancel(),
            "no permit" => deliverer.settings.permits = 0,
            "its clock" => {
                deliverer.clock = Clock::measured_beside(Arc::new(Unset), pool).await.unwrap();
            }
            "not a sender yet" => {
                senders = SenderMembership::new(pool.clone(), Duration::ZERO).sender_count();
            }
            _ => {}
        }
        let (dispatch, _answers) = Dispatcher::new(deliverer, senders, stop);
        claim_in_appends(scene.world.service(), &dispatch);
        let _there = (why != "it is gone").then_some(dispatch);
        assert_eq!(scene.queue_after_another().await, (0, 1), "{why}");
        assert_eq!(scene.wakes().await, 1, "{why}");
        assert_eq!(deliver_once(scene.world.deliverer()).await.unwrap(), 1, "{why}");
        scene.assert_all_arrived_once(1).await;
    }
}

#[tokio::test]
async fn paused_and_suspended_deliveries_are_not_leased() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    for scope in [
        json!({"all": true}),
        json!({"firm_id": scene.firm.id}),
        json!({"hook_id": scene.hook}),
        json!({"host": "127.0.0.1"}),
    ] {
        let pause = scene.pause(scope.clone()).await;
        assert_eq!(scene.queue_after_another().await, (0, 1), "{scope}");
        scene.operate("DELETE", &pause, Value::Null).await;
        assert_eq!(scene.world.deliver().await, 1, "{scope}");
    }
    let told = |kind, second| later(activity(scene.firm.id, kind, json!({})), second);
    scene.report(&[told("firm.suspended", 1)]).await;
    assert_eq!(scene.queue_after_another().await, (0, 1), "suspended");
    assert_eq!(scene.world.deliver().await, 0);
    scene.report(&[told("firm.resumed", 2)]).await;
    assert_eq!(scene.world.deliver().await, 1);
    assert_eq!(scene.queue_after_another().await, (1, 0), "resumed");
    process.ends(&scene.world).await;
    scene.assert_all_arrived_once(6).await;
}

#[tokio::test]
async fn a_delivery_waits_behind_a_due_one() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let pause = scene.pause(json!({"hook_id": scene.hook})).await;
    scene.submit(1).await;
    scene.absorb_wakes().await;
    scene.operate("DELETE", &pause, Value::Null).await;
    assert_eq!(scene.queue_after_another().await, (0, 2));
    scene.receiver.reply([Reply::status(500)]);
    assert_eq!(scene.world.deliver().await, 2);
    assert_eq!(scene.queue_after_another().await, (1, 1), "its retry is due in a minute");
    process.answered(1).await;
    scene.world.pass(Duration::from_secs(60));
    assert_eq!(scene.queue_after_another().await, (1, 2), "now");
    assert_eq!(scene.world.deliver().await, 2);
    process.ends(&scene.world).await;
    let mut histories = scene.histories().await;
    histories.sort();
    let tries = ["retry", "delivered"].map(str::to_owned).to_vec();
    let retried = ("delivered".to_owned(), tries);
    assert_eq!(histories, [once(), once(), once(), retried]);
}

/// A receiver may have 32 of 48 deliveries at once. A claim takes the other 16 later.
#[tokio::test]
async fn deliveries_over_a_hosts_limit_wait() {
    let scene = Scene::new().await;
    scene.world.subscribe(&scene.firm, &scene.receiver.url("/other")).await;
    let process = scene.process(|_| {});
    scene.receiver.hold();
    scene.submit(24).await;
    assert_eq!(scene.queue().await, (32, 16));
    assert_eq!(scene.wakes().await, 2);
    scene.receiver.release();
    process.ends(&scene.world).await;
    assert_eq!(scene.world.deliver().await, 16);
    scene.assert_all_arrived_once(48).await;
}

#[tokio::test]
async fn appends_keep_the_host_and_permit_limits() {
    let one = HostCaps { per_firm_and_host: 1, per_host: 1 };
    let of_host = HostCaps { per_firm_and_host: 9, per_host: 3 };
    // The last permit is kept for other firms.
    for (caps, permits, leased) in [(one, 256, 1), (of_host, 256, 3), (HostCaps::default(), 4, 3)] {
        let scene = Scene::new().await;
        scene.world.subscribe(&scene.firm, &scene.receiver.url("/other")).await;
        scene.receiver.hold();
        let process = scene.process(|deliverer| {
            (deliverer.settings.caps, deliverer.settings.permits) = (caps, permits);
        });
        scene.submit(1).await;
        scene.submit(2).await;
        assert_eq!(scene.queue().await, (leased, 6 - leased), "{caps:?}, {permits} permits");
        scene.receiver.release();
        process.ends(&scene.world).await;
        scene.world.deliver().await;
        scene.assert_all_arrived_once(6).await;
    }
}

/// An attempt is in flight until its receiver answers, recorded or not.
#[tokio::test]
async fn an_answer_frees_its_slot_before_recording() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    scene.submit(32).await;
    process.answered(32).await;
    assert_eq!(scene.queue_after_another().await, (33, 0));
    process.ends(&scene.world).await;
    scene.assert_all_arrived_once(33).await;
}

/// The delivery goes out again when its lease ends, with the same bytes.
#[tokio::test]
async fn an_unrecorded_append_lease_is_resent() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    assert_eq!(scene.queue_after_another().await, (1, 0));
    process.answered(1).await;
    scene.world.pass(LEASE_TIME - Duration::from_millis(1));
    assert_eq!(scene.world.deliver().await, 0);
    scene.world.pass(Duration::from_millis(1));
    assert_eq!(scene.world.deliver().await, 1);
    let received = scene.receiver.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].body, received[1].body);
    let tries = ["interrupted", "delivered"].map(str::to_owned).to_vec();
    assert_eq!(scene.histories().await, [("delivered".to_owned(), tries)]);
}

/// The append leases one of two deliveries. A claim composes the other.
#[tokio::test]
async fn appends_send_the_bytes_of_a_claim() {
    let scene = Scene::new().await;
    scene.world.subscribe(&scene.firm, &scene.receiver.url("/other")).await;
    let one = HostCaps { per_firm_and_host: 1, per_host: 1 };
    let process = scene.process(|deliverer| deliverer.settings.caps = one);
    assert_eq!(scene.queue_after_another().await, (1, 1));
    process.ends(&scene.world).await;
    assert_eq!(scene.world.deliver().await, 1);
    assert_eq!(scene.world.count("bodies").await, 2);
    let received = scene.receiver.received();
    assert_eq!(received[0].json(), received[1].json());
    assert_eq!(received[0].body, received[1].body);
}
