//! Leases in a batch: which deliveries its transaction leases, and how they end if the batch fails,
//! is sent twice or is erased.

use tests::until_blocked;

use super::gate::{Gate, ROWS};
use super::*;

/// A response of the scene's firm, as the product reports on it.
struct Lead<'a> {
    firm: &'a Firm,
    response: Uuid,
    report: Uuid,
    booking: Uuid,
}

impl<'a> Lead<'a> {
    fn new(scene: &'a Scene) -> Self {
        let [response, report, booking] = [(); 3].map(|()| scene.world.id());
        Self { firm: &scene.firm, response, report, booking }
    }

    fn submitted(&self) -> Value {
        submitted(self.firm, self.response)
    }

    fn event(&self, kind: &str, mut data: Value) -> Value {
        data["response_id"] = json!(self.response);
        activity(self.firm.id, kind, data)
    }

    fn saved(&self) -> Value {
        let answers = json!([{"id": "q", "question": "Q?", "type": "short_text", "answer": "A"}]);
        let data = json!({"form_id": self.firm.form, "saved_at": "2026-11-01T11:50:00Z",
                          "answers": answers});
        self.event("response.saved", data)
    }

    fn paid(&self) -> Value {
        let data = json!({"payment_id": self.response, "amount": 4_900, "currency": "EUR",
                          "at": "2026-11-01T12:00:00Z"});
        self.event("payment.received", data)
    }

    fn hot(&self) -> Value {
        let data = json!({"person": "zoe@example.com", "band": "hot", "score": 91});
        self.event("lead.scored", data)
    }

    fn booked(&self) -> Value {
        let data = json!({
            "booking_id": self.booking, "title": "Call", "status": "confirmed",
            "starts_at": "2026-11-02T09:00:00Z", "ends_at": "2026-11-02T09:30:00Z",
            "duration_min": 30, "time_zone": "Europe/Paris", "location": "Video",
            "invitee": {"name": "Zoé", "email": "zoe@example.com", "phone": "",
                        "time_zone": "Europe/Paris"},
        });
        self.event("booking.made", data)
    }

    fn rescheduled(&self) -> Value {
        let data = json!({
            "booking_id": self.booking, "moved_at": "2026-11-01T12:00:05Z",
            "starts_at": "2026-11-03T10:00:00Z", "ends_at": "2026-11-03T10:45:00Z",
            "duration_min": 45, "time_zone": "Europe/London",
        });
        activity(self.firm.id, "booking.rescheduled", data)
    }

    fn call_cancelled(&self) -> Value {
        activity(self.firm.id, "booking.cancelled", json!({"booking_id": self.booking}))
    }

    fn reported_on(&self) -> Value {
        let data = json!({"report_id": self.report, "title": "Your report", "status": "draft",
                          "review_url": "https://forms.test/r/1"});
        self.event("report.created", data)
    }

    fn report_moved(&self, kind: &str) -> Value {
        let data = json!({"report_id": self.report, "at": "2026-11-01T12:00:00.000Z"});
        activity(self.firm.id, kind, data)
    }
}

/// A scene whose firm subscribes to everything else, too.
async fn of_every_trigger() -> Scene {
    let scene = Scene::new().await;
    for trigger in Trigger::ALL.into_iter().filter(|one| *one != Trigger::FormSubmitted) {
        let hook = json!({"target_url": scene.receiver.url("/"), "trigger": trigger.key()});
        scene.world.create_hook(&scene.firm, hook).await.ok();
    }
    scene
}

/// Ruling 27: a claim asks whether a partial submission was finished meanwhile. All occurrences but
/// a new submission are composed from the vault.
#[tokio::test]
async fn only_new_submissions_are_leased_in_appends() {
    let scene = of_every_trigger().await;
    let process = scene.process(|_| {});
    let begun = Lead::new(&scene);
    let lead = Lead::new(&scene);
    scene.report(&[begun.saved()]).await;
    scene.world.pass(Duration::from_secs(3_601));
    scene.world.time_out().await;
    assert_eq!(scene.queue().await, (0, 1), "a partial submission");
    scene.world.deliver().await;
    scene.report(&[begun.submitted()]).await;
    assert_eq!(scene.queue().await, (0, 1), "a response that was begun before");
    scene.world.deliver().await;
    scene.report(&[lead.submitted()]).await;
    assert_eq!(scene.queue().await, (1, 0));
    for (waiting, told) in (1..).zip([
        lead.paid(),
        lead.hot(),
        lead.booked(),
        lead.rescheduled(),
        lead.call_cancelled(),
    ]) {
        scene.report(std::slice::from_ref(&told)).await;
        assert_eq!(scene.queue().await, (1, waiting), "{}", told["type"]);
    }
    scene.report(&[lead.reported_on()]).await;
    for (waiting, kind) in (6..).zip(["report.approved", "report.sent", "report.opened"]) {
        scene.report(&[lead.report_moved(kind)]).await;
        assert_eq!(scene.queue().await, (1, waiting), "{kind}");
    }
    process.ends(&scene.world).await;
    scene.world.deliver().await;
    scene.assert_all_arrived_once(11).await;
}

/// A payload shows reports and bookings. If a batch has some, a claim reads the submission too.
#[tokio::test]
async fn other_occurrences_of_a_batch_await_claims() {
    let scene = of_every_trigger().await;
    let (process, [one, two, three]) = (scene.process(|_| {}), [(); 3].map(|()| Lead::new(&scene)));
    scene.report(&[one.submitted(), one.paid()]).await;
    assert_eq!(scene.queue().await, (1, 1));
    scene.report(&[two.submitted(), two.booked()]).await;
    assert_eq!(scene.queue().await, (1, 3), "with a call");
    scene.world.deliver().await;
    scene.report(&[three.reported_on(), three.submitted()]).await;
    assert_eq!(scene.queue().await, (1, 1), "with a report");
    process.ends(&scene.world).await;
    scene.world.deliver().await;
    scene.assert_all_arrived_once(5).await;
    let received = scene.receiver.received();
    let booked = received.iter().find(|one| one.json()["response"]["id"] == json!(two.response));
    assert_eq!(booked.unwrap().json()["booking"]["id"], json!(two.booking));
}

/// F3: both firms are in one batch.
#[tokio::test]
async fn f3_a_full_receiver_delays_no_neighbour() {
    let scene = Scene::new().await;
    let (other, theirs) = (scene.world.firm().await, Receiver::start().await);
    scene.world.subscribe(&other, &theirs.url("/hook")).await;
    let process = scene.process(|_| {});
    scene.receiver.hold();
    let mut batch = vec![submitted(&other, scene.world.id())];
    batch.extend((0..40).map(|_| submitted(&scene.firm, scene.world.id())));
    batch.reverse();
    scene.report(&batch).await;
    assert_eq!(scene.queue().await, (32, 9), "32 of a host that has not answered yet");
    theirs.wait_for(1).await;
    scene.receiver.release();
    process.ends(&scene.world).await;
}

/// The firm is read before the batch, and the batch may change the firm.
#[tokio::test]
async fn a_firms_state_report_prevents_its_leases() {
    let scene = Scene::new().await;
    let (process, other) = (scene.process(|_| {}), scene.world.firm().await);
    let theirs = Receiver::start().await;
    scene.world.subscribe(&other, &theirs.url("/hook")).await;
    let firm = &scene.firm;
    let states = [
        ("form.changed", json!({"form_id": firm.form, "title": "A new title"})),
        ("form.published", json!({"form_id": firm.form})),
        ("firm.changed", json!({"name": "A new name"})),
        ("member.joined", json!({"member_id": scene.world.id(), "role": "member"})),
    ];
    for (second, (kind, data)) in (1..).zip(states) {
        let state = later(activity(firm.id, kind, data), second);
        let [ours, another] = [firm, &other].map(|firm| submitted(firm, scene.world.id()));
        scene.report(&[ours, state, another]).await;
        assert_eq!(scene.queue().await, (i64::from(second), 1), "{kind}");
        assert_eq!(scene.world.deliver().await, 1, "{kind}");
        process.answered(usize::try_from(second).unwrap()).await;
    }
    assert_eq!(scene.queue_after_another().await, (5, 0));
    process.ends(&scene.world).await;
    let received = scene.receiver.received();
    assert!(received.iter().all(|one| one.json()["form"]["title"] == "A new title"));
    assert_eq!((received.len(), theirs.received().len()), (5, 4));
}

/// The append fails after it has leased, as one statement and then in steps, so nothing is sent. A
/// process with four permits leases three for a firm: a lost permit would show.
#[tokio::test]
async fn a_failed_append_gives_its_permits_back() {
    let scene = Scene::new().await;
    let process = scene.process(|deliverer| deliverer.settings.permits = 4);
    scene.receiver.hold();
    fail_commits(&scene, 6, "P0001").await;
    for _ in 0..3 {
        let failed = scene.world.report(&[submitted(&scene.firm, scene.world.id())]).await;
        assert_eq!(failed.status, 500);
        assert_eq!(scene.queue().await, (0, 0));
    }
    scene.submit(4).await;
    assert_eq!(scene.queue().await, (3, 1));
    scene.receiver.release();
    process.ends(&scene.world).await;
    assert_eq!(scene.world.deliver().await, 1);
    scene.assert_all_arrived_once(4).await;
}

#[tokio::test]
async fn a_burst_without_room_is_left_unspread() {
    let scene = Scene::new().await;
    let process = scene.process(|deliverer| deliverer.settings.permits = 0);
    scene.submit(16).await;
    assert_eq!((scene.queue().await, scene.unspread().await), ((0, 16), 0));
    scene.submit(17).await;
    assert_eq!((scene.queue().await, scene.unspread().await), ((0, 16), 17));
    process.ends(&scene.world).await;
    assert_eq!(scene.world.deliver().await, 33);
    scene.assert_all_arrived_once(33).await;
}

/// An occurrence with one leased delivery cannot be spread any more: the append inserts the rest of
/// its rows.
#[tokio::test]
async fn a_partly_leased_occurrence_is_queued_whole() {
    let scene = Scene::new().await;
    for hook in 0..20 {
        scene.world.subscribe(&scene.firm, &scene.receiver.url(&format!("/{hook}"))).await;
    }
    let process = scene.process(|deliverer| deliverer.settings.permits = 4);
    scene.receiver.hold();
    scene.submit(1).await;
    assert_eq!((scene.queue().await, scene.unspread().await), ((3, 18), 0));
    scene.receiver.release();
    process.ends(&scene.world).await;
    assert_eq!(scene.world.deliver().await, 18);
    scene.assert_all_arrived_once(21).await;
}

#[tokio::test]
async fn a_firms_unspread_occurrences_keep_their_turn() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let row = format!("values ('{0}', 1, '{0}')", scene.firm.id);
    let unspread = format!("insert into unspread (firm_id, position, occurrence_id) {row}");
    scene.world.change_database(&unspread).await;
    assert_eq!(scene.queue_after_another().await, (0, 1));
    let other = scene.world.firm().await;
    scene.world.subscribe(&other, &scene.receiver.url("/other")).await;
    scene.receiver.hold();
    scene.world.submit(&other).await;
    assert_eq!(scene.queue().await, (1, 1), "another firm's does not wait");
    scene.receiver.release();
    process.ends(&scene.world).await;
}

/// Four commits lose a race after they have leased, and the fifth succeeds.
#[tokio::test]
async fn a_retried_append_sends_its_delivery_once() {
    let scene = Scene::new().await;
    let process = scene.process(|deliverer| deliverer.settings.permits = 4);
    fail_commits(&scene, 4, "40001").await;
    assert_eq!(scene.queue_after_another().await, (1, 0), "the fifth time");
    process.ends(&scene.world).await;
    scene.assert_all_arrived_once(1).await;
}

/// E25: the process has leased, and stops before it sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e25_a_stop_before_commit_releases_leases() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let gate = Gate::before(&scene.world, ROWS).await;
    let stopping = async {
        until_blocked(scene.world.pool(), 1).await;
        process.stop.cancel();
        gate.open().await;
    };
    tokio::join!(scene.submit(1), stopping);
    process.ends(&scene.world).await;
    assert_eq!(scene.queue().await, (0, 1));
    assert_eq!(scene.wakes().await, 1);
    assert!(scene.receiver.received().is_empty());
    assert_eq!(scene.world.deliver().await, 1);
    scene.assert_all_arrived_once(1).await;
}

/// C1: both posts of a response are decided on before either is recorded.
#[tokio::test]
async fn two_concurrent_posts_make_one_delivery() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    for round in 1..=10 {
        let response = scene.world.id();
        let holder = scene.world.hold_responses(&scene.firm, &[response]).await;
        let post = async || {
            let told = scene.world.report_one(submitted(&scene.firm, response)).await;
            ["accepted", "duplicates"].map(|count| told.body[count].as_u64().unwrap())
        };
        let release = async {
            until_blocked(scene.world.pool(), 2).await;
            holder.rollback().await.unwrap();
        };
        let (one, two, ()) = tokio::join!(post(), post(), release);
        assert_eq!([one[0] + two[0], one[1] + two[1]], [1, 1]);
        process.answered(round).await;
        assert_eq!(scene.queue().await, (i64::try_from(round).unwrap(), 0));
    }
    process.ends(&scene.world).await;
    scene.assert_all_arrived_once(10).await;
}

/// H1: a delivery leased before the erasure is in flight, and nothing of it is kept. A waiting
/// delivery is cancelled.
#[tokio::test]
async fn h1_an_erasure_cancels_unleased_deliveries() {
    let scene = Scene::new().await;
    scene.world.subscribe(&scene.firm, &scene.receiver.url("/other")).await;
    let one = HostCaps { per_firm_and_host: 1, per_host: 1 };
    let process = scene.process(|deliverer| deliverer.settings.caps = one);
    scene.receiver.hold();
    let lead = Lead::new(&scene);
    scene.report(&[lead.submitted()]).await;
    assert_eq!(scene.queue().await, (1, 1));
    scene.report(&[lead.event("response.erased", json!({}))]).await;
    scene.world.erase().await;
    scene.receiver.release();
    process.ends(&scene.world).await;
    assert_eq!(scene.world.deliver().await, 0);
    let mut histories = scene.histories().await;
    histories.sort();
    assert_eq!(histories, [("cancelled".to_owned(), Vec::new()), once()]);
    assert_eq!(scene.receiver.received().len(), 1);
    assert_eq!(scene.world.count("bodies").await, 0);
    assert_eq!(scene.world.count_in_keyring("data_keys").await, 0);
}

/// H1: the batch erases the response that it brings.
#[tokio::test]
async fn h1_a_batchs_own_erasure_prevents_leases() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let lead = Lead::new(&scene);
    scene.report(&[lead.submitted(), lead.event("response.erased", json!({}))]).await;
    assert_eq!(scene.queue().await.0, 0);
    assert_eq!(scene.world.deliver().await, 0);
    process.ends(&scene.world).await;
    assert!(scene.receiver.received().is_empty());
    assert!(scene.histories().await.iter().all(|(state, _)| state == "cancelled"));
}

/// E20: two processes that lease in their appends, beside two that claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e20_racing_leases_send_each_delivery_once() {
    let scene = Scene::new().await;
    for place in 0..4 {
        scene.world.subscribe(&scene.firm, &scene.receiver.url(&format!("/{place}"))).await;
    }
    let (main, keyring) = (&scene.world.database.main, &scene.world.database.keyring);
    let another = World::on(TestDatabase::from_main(main.clone(), keyring.clone())).await;
    let processes = [scene.process(|_| {}), Sending::with(another.deliverer().clone())];
    processes[1].claims_in_appends(&another);
    let claims = async || deliver_once(scene.world.deliverer()).await.unwrap();
    let mut claimed_later = 0;
    for _ in 0..40 {
        let (_, _, some, more) = tokio::join!(
            scene.world.submit(&scene.firm),
            another.submit(&scene.firm),
            claims(),
            claims()
        );
        claimed_later += some + more;
    }
    for process in processes {
        process.ends(&scene.world).await;
    }
    claimed_later += scene.world.deliver().await;
    assert!(claimed_later < 400, "some were leased in their appends");
    scene.assert_all_arrived_once(400).await;
    assert_eq!(scene.queue().await, (0, 0));
}
