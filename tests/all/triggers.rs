//! The ten triggers, from the product's report to the bytes that arrive (contract, section Events;
//! rulings, section Occurrences).

mod several;

use std::collections::BTreeSet;
use std::time::Duration;

use domain::trigger::Trigger;
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Firm, Received, Receiver, World, activity, later};
use uuid::Uuid;

const HOUR: Duration = Duration::from_secs(3_600);

/// A firm whose receiver listens to every trigger, and the ids that its story is about.
struct Story {
    world: World,
    firm: Firm,
    receiver: Receiver,
    response: Uuid,
    report: Uuid,
    booking: Uuid,
}

impl Story {
    async fn begin() -> Self {
        let world = World::new().await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        for trigger in Trigger::ALL {
            let body = json!({"trigger": trigger.key(), "target_url": receiver.url("/")});
            assert_eq!(world.call(&firm.key, "POST", "/hooks", body).await.status, 201);
        }
        let (response, report, booking) = (world.id(), world.id(), world.id());
        Self { world, firm, receiver, response, report, booking }
    }

    fn event(&self, kind: &str, data: Value) -> Value {
        activity(self.firm.id, kind, data)
    }

    async fn report(&self, events: &[Value]) -> (u64, u64) {
        let answer = self.world.report(events).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        let count = |name: &str| answer.body[name].as_u64().unwrap();
        (count("accepted"), count("duplicates"))
    }

    /// What has arrived, in order, after everything due was sent.
    async fn arrived(&self) -> Vec<Received> {
        self.world.deliver().await;
        self.receiver.received()
    }

    async fn events(&self) -> Vec<String> {
        let arrived = self.arrived().await;
        arrived.iter().map(|one| one.header("x-service-event").to_owned()).collect()
    }

    fn submitted(&self) -> Value {
        self.event(
            "response.submitted",
            json!({
                "response_id": self.response, "form_id": self.firm.form,
                "submitted_at": "2026-11-01T11:59:58.250Z",
                "device": "mobile", "lang": "fr", "ending": "vip",
                "respondent": {"name": "Zoé L", "email": "zoe@example.com"},
                "answers": [
                    {"id": "q1", "question": "Q1", "type": "short_text", "answer": "one"},
                    {"id": "q2", "question": "Q2", "type": "long_text", "answer": "two"},
                ],
                "hidden": {"utm_source": "news"},
            }),
        )
    }

    fn saved(&self, at: &str) -> Value {
        self.event(
            "response.saved",
            json!({
                "response_id": self.response, "form_id": self.firm.form, "saved_at": at,
                "device": "mobile", "lang": "fr",
                "answers": [{"id": "q1", "question": "Q1", "type": "short_text", "answer": "one"}],
            }),
        )
    }

    fn report_data(&self, status: &str, locked: bool) -> Value {
        json!({
            "report_id": self.report, "response_id": self.response, "title": "Your report",
            "status": status, "summary": "In short", "highlights": ["a", "b"],
            "review_url": "https://forms.test/r/1", "locked": locked,
        })
    }

    fn moved(&self, kind: &str) -> Value {
        self.event(kind, json!({"report_id": self.report, "at": "2026-11-01T12:00:00.000Z"}))
    }

    fn booked(&self) -> Value {
        self.event(
            "booking.made",
            json!({
                "booking_id": self.booking, "response_id": self.response, "title": "Call",
                "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
                "ends_at": "2026-11-02T09:30:00Z", "duration_min": 30, "time_zone": "Europe/Paris",
                "location": "Video", "join_url": "https://meet.test/1",
                "invitee": {"name": "Zoé L", "email": "zoe@example.com", "phone": "",
                            "time_zone": "Europe/Paris"},
            }),
        )
    }

    fn rescheduled(&self, day: u32) -> Value {
        self.event(
            "booking.rescheduled",
            json!({
                "booking_id": self.booking, "moved_at": format!("2026-11-01T12:00:{day:02}Z"),
                "starts_at": format!("2026-11-{day:02}T10:00:00Z"),
                "ends_at": format!("2026-11-{day:02}T10:45:00Z"), "duration_min": 45,
                "time_zone": "Europe/London",
            }),
        )
    }

    fn cancelled(&self) -> Value {
        self.event("booking.cancelled", json!({"booking_id": self.booking}))
    }

    fn paid(&self) -> Value {
        self.event(
            "payment.received",
            json!({
                "payment_id": self.response, "response_id": self.response,
                "report_id": self.report, "amount": 4_900, "currency": "EUR",
                "at": "2026-11-01T12:00:00Z",
            }),
        )
    }

    fn hot(&self, person: &str) -> Value {
        self.event(
            "lead.scored",
            json!({"person": person, "response_id": self.response, "band": "hot", "score": 91}),
        )
    }
}

fn of<'a>(arrived: &'a [Received], event: &str) -> Vec<&'a Received> {
    arrived.iter().filter(|one| one.header("x-service-event") == event).collect()
}

/// What every payload has, whatever its trigger (contract, section EventPayload).
fn assert_common(story: &Story, payload: &Value) {
    assert_eq!(
        payload["form"],
        json!({"id": story.firm.form, "title": "New client enquiry",
               "url": "https://forms.test/f/enquiry"})
    );
    let response = json!({"id": story.response, "submitted_at": "2026-11-01T11:59:58.250Z",
                          "device": "mobile", "lang": "fr", "ending": "vip"});
    assert_eq!(payload["response"], response);
    assert_eq!(payload["respondent"]["email"], "zoe@example.com");
    assert_eq!(payload["fields"], json!({"q1": "one", "q2": "two"}));
    assert_eq!(payload["answers"].as_array().unwrap().len(), 2);
    assert_eq!(payload["hidden"], json!({"utm_source": "news"}));
}

#[tokio::test]
async fn reports_are_told_once_each_with_the_report_as_it_is() {
    let story = Story::begin().await;
    let created = story.event("report.created", story.report_data("draft", false));
    story.report(&[story.submitted(), created]).await;
    for kind in ["report.approved", "report.sent", "report.opened"] {
        assert_eq!(story.report(&[story.moved(kind)]).await, (1, 0));
        assert_eq!(story.report(&[story.moved(kind), story.moved(kind)]).await, (0, 2));
    }
    let arrived = story.arrived().await;
    for event in ["report_approved", "report_sent", "report_opened"] {
        let [one] = of(&arrived, event)[..] else { panic!("{event} once") };
        let payload = one.json();
        assert_common(&story, &payload);
        let report = json!({
            "id": story.report, "title": "Your report", "status": "approved",
            "summary": "In short", "highlights": ["a", "b"],
            "review_url": "https://forms.test/r/1",
        });
        assert_eq!(payload["report"], report);
        assert_eq!((payload.get("booking"), payload.get("partial")), (None, None));
    }
    assert_eq!(arrived.len(), 4);
}

/// Sold and not yet paid for: neither summary nor highlights; paid for, both.
#[tokio::test]
async fn a_locked_report_shows_neither_summary_nor_highlights() {
    let story = Story::begin().await;
    let locked = story.event("report.created", story.report_data("approved", true));
    story.report(&[story.submitted(), locked, story.moved("report.sent")]).await;
    let unlocked = story.event("report.changed", story.report_data("approved", false));
    assert_eq!(story.arrived().await.len(), 2);
    story.report(&[later(unlocked, 1), story.paid()]).await;
    assert_eq!(story.report(&[story.paid()]).await, (0, 1));
    let arrived = story.arrived().await;
    let sent = of(&arrived, "report_sent")[0].json();
    assert_eq!(
        (&sent["report"]["summary"], &sent["report"]["highlights"]),
        (&Value::Null, &json!([]))
    );
    let [paid] = of(&arrived, "payment_received")[..] else { panic!("once") };
    assert_eq!(paid.json()["report"]["summary"], "In short");
}

#[tokio::test]
async fn a_call_is_booked_moved_and_cancelled() {
    let story = Story::begin().await;
    story.report(&[story.submitted(), story.booked()]).await;
    let arrived = story.arrived().await;
    let made = of(&arrived, "booking_made")[0].json();
    assert_common(&story, &made);
    let expected = json!({
        "id": story.booking, "title": "Call", "status": "confirmed",
        "starts_at": "2026-11-02T09:00:00.000Z", "ends_at": "2026-11-02T09:30:00.000Z",
        "duration_min": 30, "time_zone": "Europe/Paris", "location": "Video",
        "join_url": "https://meet.test/1",
        "invitee": {"name": "Zoé L", "email": "zoe@example.com", "phone": "",
                    "time_zone": "Europe/Paris"},
    });
    assert_eq!(made["booking"], expected);
    for day in [3, 4] {
        assert_eq!(story.report(&[story.rescheduled(day)]).await, (1, 0));
        assert_eq!(story.report(&[story.rescheduled(day)]).await, (0, 1));
        let arrived = story.arrived().await;
        let moved = of(&arrived, "booking_rescheduled").last().unwrap().json();
        assert_eq!(moved["booking"]["starts_at"], format!("2026-11-0{day}T10:00:00.000Z"));
        assert_eq!(moved["booking"]["duration_min"], 45);
        assert_eq!(moved["booking"]["time_zone"], "Europe/London");
    }
    assert_eq!(story.report(&[story.cancelled(), story.cancelled()]).await, (1, 1));
    let arrived = story.arrived().await;
    let [cancelled] = of(&arrived, "booking_cancelled")[..] else { panic!("once") };
    assert_eq!(cancelled.json()["booking"]["status"], "cancelled");
    assert_eq!(of(&arrived, "booking_rescheduled").len(), 2);
    assert_eq!(arrived.len(), 5);
}

/// Once per person in the firm, whatever the response; used up where the plan does not have it.
#[tokio::test]
async fn a_lead_becomes_hot_once_and_only_in_the_plan() {
    let story = Story::begin().await;
    story.report(&[story.submitted()]).await;
    let warm = story.event(
        "lead.scored",
        json!({"person": "zoe@example.com", "response_id": story.response, "band": "warm",
               "score": 40}),
    );
    assert_eq!(story.report(&[warm]).await, (1, 0));
    assert_eq!(story.report(&[story.hot("zoe@example.com")]).await, (1, 0));
    assert_eq!(story.report(&[story.hot("ZOE@Example.com")]).await, (0, 1));
    let without = json!({"plan": {"leads_in_full": false}});
    story.report(&[later(story.event("firm.changed", without), 1)]).await;
    assert_eq!(story.report(&[story.hot("bob@example.com")]).await, (1, 0));
    let with = json!({"plan": {"leads_in_full": true}});
    story.report(&[later(story.event("firm.changed", with), 2)]).await;
    assert_eq!(story.report(&[story.hot("bob@example.com")]).await, (0, 1), "used up");
    let arrived = story.arrived().await;
    let [hot] = of(&arrived, "lead_hot")[..] else { panic!("once") };
    assert_common(&story, &hot.json());
}

#[tokio::test]
async fn an_unfinished_response_is_told_of_an_hour_after_its_last_answer() {
    let story = Story::begin().await;
    story.report(&[story.saved("2026-11-01T11:50:00Z")]).await;
    story.world.pass(HOUR / 2);
    story.report(&[story.saved("2026-11-01T12:20:00.500Z")]).await;
    story.world.pass(HOUR - Duration::from_millis(1));
    story.world.time_out().await;
    assert!(story.arrived().await.is_empty(), "an hour after the last answer, not the first");
    story.world.pass(Duration::from_millis(1));
    story.world.time_out().await;
    let arrived = story.arrived().await;
    let [partial] = &arrived[..] else { panic!("once") };
    assert_eq!(partial.header("x-service-event"), "partial_submission");
    let payload = partial.json();
    assert_eq!(payload["response"]["submitted_at"], "2026-11-01T12:20:00.500Z");
    assert_eq!(payload["response"]["ending"], "");
    let about = json!({"last_answer_at": "2026-11-01T12:20:00.500Z", "answered": 1});
    assert_eq!(payload["partial"], about);
    story.report(&[story.saved("2026-11-01T13:30:00Z")]).await;
    story.world.pass(2 * HOUR);
    story.world.time_out().await;
    assert_eq!(story.events().await, ["partial_submission"], "once");
    story.report(&[story.submitted()]).await;
    assert_eq!(story.events().await, ["partial_submission", "form_submitted"]);
}

/// Whoever answered nothing yet, or finished in time, left nothing unfinished.
#[tokio::test]
async fn a_response_finished_in_time_or_not_begun_is_no_partial() {
    let story = Story::begin().await;
    let opened = json!({"response_id": story.world.id(), "form_id": story.firm.form,
                        "saved_at": "2026-11-01T11:50:00Z"});
    story.report(&[story.event("response.saved", opened)]).await;
    story.report(&[story.saved("2026-11-01T11:50:00Z")]).await;
    story.world.pass(HOUR - Duration::from_millis(1));
    story.report(&[story.submitted()]).await;
    story.world.pass(2 * HOUR);
    story.world.time_out().await;
    assert_eq!(story.events().await, ["form_submitted"]);
}

/// Ruling 27: submitted after the timer and before the first try: cancelled as `finished_later`.
#[tokio::test]
async fn a_partial_that_is_finished_before_its_first_try_is_cancelled() {
    let story = Story::begin().await;
    story.report(&[story.saved("2026-11-01T11:50:00Z")]).await;
    story.world.pass(HOUR);
    story.world.time_out().await;
    story.world.fan_out().await;
    story.report(&[story.submitted()]).await;
    assert_eq!(story.events().await, ["form_submitted"]);
    let causes: Vec<(String, String)> =
        sqlx::query_as("select trigger, cause from deliveries where state = 'cancelled'")
            .fetch_all(story.world.pool())
            .await
            .unwrap();
    assert_eq!(causes, [("partial_submission".to_owned(), "finished_later".to_owned())]);
}

/// Everything five times, by other ids, shuffled, from four callers at once: once per subscription.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_reported_five_times_is_told_once() {
    let story = Story::begin().await;
    let all = |story: &Story| {
        vec![
            story.submitted(),
            story.event("report.created", story.report_data("draft", false)),
            story.moved("report.approved"),
            story.moved("report.sent"),
            story.moved("report.opened"),
            story.paid(),
            story.booked(),
            story.rescheduled(3),
            story.cancelled(),
            story.hot("zoe@example.com"),
        ]
    };
    let mut events: Vec<Value> = (0..5).flat_map(|_| all(&story)).collect();
    shuffle(&mut events, 7);
    let callers = events.chunks(13).map(|events| story.world.report(events));
    for answer in join_all(callers).await {
        assert_eq!(answer.status, 202, "{}", answer.body);
    }
    let mut told = story.events().await;
    told.sort();
    let mut expected: Vec<&str> = Trigger::ALL.map(Trigger::key).to_vec();
    expected.retain(|trigger| *trigger != "partial_submission");
    expected.sort_unstable();
    assert_eq!(told, expected);
}

/// A simple generator is enough: each seed another order, the same each time.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for place in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (place as u64 + 1)).unwrap();
        items.swap(place, other);
    }
}

/// Any order of the reports about responses comes to the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_order_comes_to_the_same_occurrences() {
    let mut story = Story::begin().await;
    let mut expected: Option<BTreeSet<(String, String)>> = None;
    for seed in 0..200 {
        (story.response, story.report, story.booking) =
            (story.world.id(), story.world.id(), story.world.id());
        let person = format!("p{seed}@example.com");
        let mut events = vec![
            story.saved("2026-11-01T11:50:00Z"),
            story.submitted(),
            story.event("report.created", story.report_data("draft", false)),
            story.moved("report.approved"),
            story.moved("report.opened"),
            story.paid(),
            story.booked(),
            story.rescheduled(3),
            story.rescheduled(4),
            story.cancelled(),
            story.hot(&person),
        ];
        shuffle(&mut events, seed);
        let cuts = usize::try_from(seed % 4).unwrap() + 1;
        for part in events.chunks(events.len().div_ceil(cuts)) {
            story.report(part).await;
        }
        let told: BTreeSet<(String, String)> = sqlx::query_as(
            "select payload -> 'OccurrenceRecorded' ->> 'trigger',
                    count(*)::text from events
              where aggregate_type = 'Occurrence'
                and payload -> 'OccurrenceRecorded' ->> 'response_id' = $1 group by 1",
        )
        .bind(story.response.to_string())
        .fetch_all(story.world.pool())
        .await
        .unwrap()
        .into_iter()
        .collect();
        let expected = expected.get_or_insert_with(|| told.clone());
        assert_eq!((&told, told.len()), (&*expected, 8), "seed {seed}");
    }
    let waiting: i64 = sqlx::query_scalar("select count(*) from waiting_facts")
        .fetch_one(story.world.pool())
        .await
        .unwrap();
    assert_eq!(waiting, 0);
}

/// The payload is read when the delivery goes out: a report approved meanwhile is in it.
#[tokio::test]
async fn what_happened_between_event_and_send_is_in_the_payload() {
    let story = Story::begin().await;
    story.report(&[story.submitted()]).await;
    story.world.fan_out().await;
    let created = story.event("report.created", story.report_data("draft", false));
    story.report(&[created, story.moved("report.approved")]).await;
    let arrived = story.arrived().await;
    assert_eq!(of(&arrived, "form_submitted")[0].json()["report"]["status"], "approved");
}

/// The timer and the submission at the same instant, 500 seeds: the submission always counts, the
/// partial only if its commit came first, and then it is cancelled before its first try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_racing_the_timer_counts_always_and_the_partial_only_if_it_was_first() {
    let mut story = Story::begin().await;
    let mut firsts = 0;
    for seed in 0..500_u32 {
        story.response = story.world.id();
        story.report(&[story.saved("2026-11-01T11:50:00Z")]).await;
        story.world.pass(HOUR);
        let timer = async {
            for _ in 0..seed % 7 {
                tokio::task::yield_now().await;
            }
            story.world.time_out().await;
        };
        let submission = async {
            for _ in 0..(seed / 7) % 7 {
                tokio::task::yield_now().await;
            }
            story.report(&[story.submitted()]).await;
        };
        tokio::join!(timer, submission);
        let order: Vec<String> = sqlx::query_scalar(
            "select payload -> 'OccurrenceRecorded' ->> 'trigger' from events
              where aggregate_type = 'Occurrence'
                and payload -> 'OccurrenceRecorded' ->> 'response_id' = $1 order by position",
        )
        .bind(story.response.to_string())
        .fetch_all(story.world.pool())
        .await
        .unwrap();
        firsts += usize::from(order.len() == 2);
        assert!(
            order == ["form_submitted"] || order == ["partial_submission", "form_submitted"],
            "seed {seed}: {order:?}"
        );
    }
    assert!((1..500).contains(&firsts), "both came about: {firsts}");
    story.world.deliver().await;
    let told: Vec<(String, String, i64)> = sqlx::query_as(
        "select trigger, state, count(*) from deliveries group by 1, 2 order by 1, 2",
    )
    .fetch_all(story.world.pool())
    .await
    .unwrap();
    let partials = i64::try_from(firsts).unwrap();
    let expected = [
        ("form_submitted".to_owned(), "delivered".to_owned(), 500),
        ("partial_submission".to_owned(), "cancelled".to_owned(), partials),
    ];
    assert_eq!(told, expected);
}

/// What a batch says of the plan counts for the leads after it.
#[tokio::test]
async fn a_plan_and_a_hot_lead_may_come_in_one_batch() {
    let mut story = Story::begin().await;
    let change = |story: &Story, leads: bool, second| {
        let plan = json!({"plan": {"leads_in_full": leads}});
        later(story.event("firm.changed", plan), second)
    };
    story.report(&[change(&story, false, 1), story.submitted(), story.hot("a@example.com")]).await;
    story.response = story.world.id();
    story.report(&[change(&story, true, 2), story.submitted(), story.hot("b@example.com")]).await;
    let arrived = story.arrived().await;
    assert_eq!(of(&arrived, "lead_hot").len(), 1);
}

/// Hot on a response that never comes, then on one that does: told of once.
#[tokio::test]
async fn a_fact_that_waits_in_vain_stands_in_nobodys_way() {
    let mut story = Story::begin().await;
    story.report(&[story.hot("carl@example.com")]).await;
    story.response = story.world.id();
    story.report(&[story.hot("carl@example.com")]).await;
    story.report(&[story.submitted()]).await;
    let arrived = story.arrived().await;
    assert_eq!(of(&arrived, "lead_hot").len(), 1);
}

/// Two firms may use the same ids: each has its own.
#[tokio::test]
async fn the_same_ids_in_two_firms_are_two_of_everything() {
    let story = Story::begin().await;
    let other = story.world.firm().await;
    let theirs = |event: Value| {
        let mut event = event;
        event["firmid"] = json!(other.id);
        if event["data"].get("form_id").is_some() {
            event["data"]["form_id"] = json!(other.form);
        }
        event
    };
    let created = || story.event("report.created", story.report_data("draft", false));
    let of_both = [
        theirs(story.submitted()),
        theirs(created()),
        created(),
        theirs(story.moved("report.approved")),
        story.moved("report.approved"),
    ];
    assert_eq!(story.report(&of_both).await, (5, 0));
    assert!(story.events().await.is_empty(), "the first firm's response is not known yet");
    story.report(&[story.submitted()]).await;
    assert_eq!(story.events().await.len(), 2);
}
