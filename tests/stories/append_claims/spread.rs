//! Leases at the spread: a process that sends leases the deliveries that it spreads, under the same
//! conditions as an append.

use deliverer::AnswerInbox;
use deliverer::send::SpreadWorker;
use deliverer::send::deliver;
use eventstore::worker::Worker;

use super::*;

/// A process that sends the deliveries it spreads.
struct Spreading {
    spread: SpreadWorker,
    dispatch: Arc<Dispatcher>,
    answers: AnswerInbox,
    stop: CancellationToken,
}

impl Spreading {
    fn with(deliverer: DelivererContext) -> Self {
        let stop = CancellationToken::new();
        let (dispatch, answers) =
            Dispatcher::new(deliverer.clone(), SenderCount::alone(), stop.clone());
        let spread = SpreadWorker::new(deliverer).that_leases(Arc::clone(&dispatch));
        Self { spread, dispatch, answers, stop }
    }

    /// Spreads all there is.
    async fn spreads(&mut self, scene: &Scene) {
        while scene.unspread().await > 0 {
            self.spread.step().await.unwrap();
        }
    }

    /// Steps until one fails. Rows of the step before may be locked for a moment: its transaction
    /// was dropped.
    async fn fails(&mut self) {
        while self.spread.step().await.is_ok() {}
    }

    /// Stops the process: its attempts are sent and recorded.
    async fn ends(self, world: &World) {
        let Self { spread, dispatch, answers, stop } = self;
        drop(spread);
        stop.cancel();
        deliver(dispatch, answers, world.service().store.nudge()).await;
    }
}

impl Scene {
    fn spreading(&self, change: impl FnOnce(&mut DelivererContext)) -> Spreading {
        let mut deliverer = self.world.deliverer().clone();
        change(&mut deliverer);
        Spreading::with(deliverer)
    }

    /// Moves all queued deliveries back to `unspread`.
    async fn gather(&self) {
        let gather = "
            with queued as (delete from outbox returning firm_id, position, occurrence_id)
            insert into unspread (firm_id, position, occurrence_id)
            select distinct firm_id, position, occurrence_id from queued";
        self.world.change_database(gather).await;
        self.world.change_database("delete from lane_wakes").await;
        assert_eq!(self.queue().await, (0, 0));
    }

    /// Numbers of leased and of waiting deliveries after `count` more responses were spread.
    async fn queue_after_spread(&self, count: usize, process: &mut Spreading) -> (i64, i64) {
        self.submit(count).await;
        self.gather().await;
        process.spreads(self).await;
        self.queue().await
    }
}

/// No lane is written, and each body is built once.
#[tokio::test]
async fn a_sending_process_leases_at_the_spread() {
    let scene = Scene::new().await;
    scene.world.subscribe(&scene.firm, &scene.receiver.url("/other")).await;
    let (mut process, lanes) = (scene.spreading(|_| {}), scene.lanes().await);
    assert_eq!(scene.queue_after_spread(12, &mut process).await, (24, 0));
    assert_eq!(scene.wakes().await, 0);
    assert_eq!(deliver_once(scene.world.deliverer()).await.unwrap(), 0);
    scene.receiver.wait_for(24).await;
    process.ends(&scene.world).await;
    scene.assert_all_arrived_once(24).await;
    assert_eq!(scene.lanes().await, lanes, "no lane is written");
    assert_eq!(scene.world.count("bodies").await, 12, "built once");
}

/// Such deliveries are left to a claim. A process that stops leases nothing either.
#[tokio::test]
async fn paused_due_and_full_lanes_stay_unleased() {
    let scene = Scene::new().await;
    let mut process = scene.spreading(|deliverer| deliverer.settings.caps.per_firm_and_host = 3);
    scene.receiver.hold();
    assert_eq!(scene.queue_after_spread(4, &mut process).await, (3, 1), "full");
    scene.receiver.release();
    process.ends(&scene.world).await;
    assert_eq!(scene.world.deliver().await, 1);

    let mut process = scene.spreading(|_| {});
    let pause = scene.pause(json!({"firm_id": scene.firm.id})).await;
    assert_eq!(scene.queue_after_spread(1, &mut process).await, (0, 1), "held");
    scene.absorb_wakes().await;
    scene.operate("DELETE", &pause, Value::Null).await;
    assert_eq!(scene.queue_after_another().await, (0, 2));
    let newest = "with newest as (
                      delete from outbox where position = (select max(position) from outbox)
                      returning firm_id, position, occurrence_id)
                  insert into unspread (firm_id, position, occurrence_id)
                  select * from newest";
    scene.world.change_database(newest).await;
    process.spreads(&scene).await;
    assert_eq!(scene.queue().await, (0, 2), "its lane is due");
    scene.world.deliver().await;
    process.stop.cancel();
    assert_eq!(scene.queue_after_spread(1, &mut process).await, (0, 1), "it stops");
    assert_eq!(scene.wakes().await, 1);
    scene.world.deliver().await;
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 7);
}

/// Ruling 27: a claim asks whether the response was finished meanwhile.
#[tokio::test]
async fn a_spread_partial_submission_awaits_a_claim() {
    let scene = Scene::new().await;
    let hook =
        json!({"target_url": scene.receiver.url("/partial"), "trigger": "partial_submission"});
    scene.world.create_hook(&scene.firm, hook).await.ok();
    let saved = json!({
        "response_id": scene.world.id(), "form_id": scene.firm.form,
        "saved_at": "2026-11-01T12:00:00Z",
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "A"}],
    });
    scene.report(&[activity(scene.firm.id, "response.saved", saved)]).await;
    scene.world.pass(Duration::from_secs(3_601));
    scene.world.time_out().await;
    let mut process = scene.spreading(|_| {});
    assert_eq!(scene.queue_after_spread(1, &mut process).await, (1, 1));
    process.ends(&scene.world).await;
    scene.world.deliver().await;
    scene.assert_all_arrived_once(2).await;
}

/// H1: the response is erased after its occurrence was recorded.
#[tokio::test]
async fn h1_an_erasure_cancels_unspread_deliveries() {
    let scene = Scene::new().await;
    let (mut process, response) = (scene.spreading(|_| {}), scene.world.id());
    scene.report(&[submitted(&scene.firm, response)]).await;
    scene.gather().await;
    let erased = json!({"response_id": response});
    scene.report(&[activity(scene.firm.id, "response.erased", erased)]).await;
    scene.world.erase().await;
    process.spreads(&scene).await;
    process.ends(&scene.world).await;
    scene.world.deliver().await;
    assert!(scene.receiver.received().is_empty());
    let histories = scene.histories().await;
    assert_eq!(histories, [("cancelled".to_owned(), Vec::new())], "it was not tried");
    let of_erasure = "select count(*) from deliveries where cause = 'source_erased'";
    assert_eq!(scene.world.ask_number(of_erasure).await, 1);
    assert_eq!(scene.world.count("bodies").await, 0);
}

/// Ruling 29: the subscription is removed after the occurrences were recorded.
#[tokio::test]
async fn a_closed_lane_gets_no_spread_rows() {
    let scene = Scene::new().await;
    let mut process = scene.spreading(|_| {});
    scene.submit(2).await;
    scene.gather().await;
    scene.remove(scene.hook).await;
    process.spreads(&scene).await;
    assert_eq!((scene.queue().await, scene.unspread().await), ((0, 0), 0), "no row is inserted");
    scene.world.cancel().await;
    scene.assert_all_cancelled(2, "subscription_deleted").await;
    process.ends(&scene.world).await;
}

/// The spread fails after it has leased, so nothing is sent. Three of four permits may be leased
/// for a firm: a lost permit would show.
#[tokio::test]
async fn a_failed_spread_gives_its_permits_back() {
    let scene = Scene::new().await;
    let mut process = scene.spreading(|deliverer| deliverer.settings.permits = 4);
    scene.receiver.hold();
    fail_commits(&scene, 3, "P0001").await;
    scene.submit(4).await;
    scene.gather().await;
    for _ in 0..3 {
        process.fails().await;
        assert_eq!((scene.queue().await, scene.unspread().await), ((0, 0), 4));
    }
    process.spreads(&scene).await;
    assert_eq!(scene.queue().await, (3, 1));
    scene.receiver.release();
    process.ends(&scene.world).await;
    assert_eq!(scene.world.deliver().await, 1);
    scene.assert_all_arrived_once(4).await;
}

/// A lease that the database refused once kept everything from being spread.
#[tokio::test]
async fn a_refused_lease_holds_up_no_spread() {
    let scene = Scene::new().await;
    let mut process = scene.spreading(|_| {});
    refuse_leases(&scene).await;
    scene.submit(2).await;
    scene.gather().await;
    process.fails().await;
    process.spreads(&scene).await;
    assert_eq!((scene.queue().await, scene.unspread().await), ((0, 2), 0));
    process.ends(&scene.world).await;
    assert_eq!(scene.world.deliver().await, 2);
    scene.assert_all_arrived_once(2).await;
}
