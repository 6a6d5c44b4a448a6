//! Any order, any number of times: each subscription is told of each thing once.

use std::collections::{BTreeMap, BTreeSet};

use domain::activity::occurrence_id;
use door::{Door, DoorSettings};
use futures::future::join_all;
use tests::raw;
use tokio_util::sync::CancellationToken;

use super::*;

/// Number of callers at once.
const CALLERS: usize = 4;

impl Story {
    /// A second subscription to every trigger, for the form alone.
    async fn subscribe_again(&self) {
        for trigger in Trigger::ALL {
            let body = json!({"trigger": trigger.key(), "target_url": self.receiver.url("/"),
                              "form_id": self.firm.form});
            self.world.create_hook(&self.firm, body).await.ok();
        }
    }

    pub(super) fn renew(&mut self) {
        let id = || self.world.id();
        (self.response, self.report, self.booking) = (id(), id(), id());
    }

    /// Everything that leads to something, of one response that is finished.
    pub(super) fn all(&self, person: &str) -> Vec<Value> {
        vec![
            self.saved("2026-11-01T11:50:00Z"),
            self.submitted(),
            self.event("report.created", self.report_data("draft", false)),
            self.moved("report.approved"),
            self.moved("report.sent"),
            self.moved("report.opened"),
            self.paid(),
            self.booked(),
            self.rescheduled(3),
            self.rescheduled(4),
            self.cancelled(),
            self.hot(person),
        ]
    }

    /// Reports of an unfinished response.
    pub(super) fn all_unfinished(&self) -> Vec<Value> {
        vec![self.saved("2026-11-01T11:50:00Z"), self.saved("2026-11-01T11:55:00Z")]
    }

    /// The subscriptions, with their triggers.
    async fn hooks(&self) -> Vec<(Uuid, String)> {
        sqlx::query_as("select hook_id, trigger from hooks")
            .fetch_all(self.world.pool())
            .await
            .unwrap()
    }
}

/// A simple generator is enough: each seed another order, the same each time.
struct Draw(u64);

impl Draw {
    const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for place in (1..items.len()).rev() {
            items.swap(place, self.below(place + 1));
        }
    }

    /// Cuts the items into batches of any size.
    fn cut(&mut self, mut items: Vec<Value>) -> Vec<Vec<Value>> {
        let mut batches = Vec::new();
        while !items.is_empty() {
            let rest = items.split_off(self.below(items.len()) + 1);
            batches.push(std::mem::replace(&mut items, rest));
        }
        batches
    }
}

/// Reports it all by one caller of its own, on sockets.
async fn call(address: std::net::SocketAddr, token: &str, batches: &[Vec<Value>]) {
    for batch in batches {
        let body = serde_json::to_string(batch).unwrap();
        assert_eq!(raw::report(address, token, &body).await.unwrap(), 202);
    }
}

/// Everything comes five times, by other ids, shuffled, from four connections at once. Each
/// subscription hears once, and each trigger has two subscriptions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_reports_make_one_delivery() {
    let mut story = Story::begin(FirstClaim::FromOutbox).await;
    story.subscribe_again().await;
    let door = Door::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let (address, stop) = (door.local_addr().unwrap(), CancellationToken::new());
    let router = api::internal::router(story.world.service().clone());
    let served = tokio::spawn(door.serve(router, DoorSettings::default(), stop.clone()));
    let mut expected = BTreeMap::new();
    for seed in 0..6 {
        let mut draw = Draw::new(seed);
        story.renew();
        let left = story.response;
        let unfinished = (0..5).flat_map(|_| story.all_unfinished()).collect::<Vec<_>>();
        story.renew();
        let mut events: Vec<Value> =
            (0..5).flat_map(|_| story.all(&format!("p{seed}@example.com"))).collect();
        events.extend(unfinished);
        draw.shuffle(&mut events);
        let parts = events.chunks(events.len().div_ceil(CALLERS));
        let parts: Vec<_> = parts.map(|part| draw.cut(part.to_vec())).collect();
        join_all(parts.iter().map(|batches| call(address, story.world.token(), batches))).await;
        story.world.pass(HOUR);
        story.world.time_out().await;
        for (hook_id, trigger) in story.hooks().await {
            let times = 1 + usize::from(trigger == "booking_rescheduled");
            let of = if trigger == "partial_submission" { left } else { story.response };
            expected.insert((hook_id.to_string(), trigger, of.to_string()), times);
        }
    }
    let (mut told, mut deliveries) = (BTreeMap::new(), BTreeSet::new());
    for one in story.arrived().await {
        let response = one.json()["response"]["id"].as_str().unwrap().to_owned();
        let (hook, event) = (one.header("x-service-hook"), one.header("x-service-event"));
        *told.entry((hook.to_owned(), event.to_owned(), response)).or_insert(0) += 1;
        assert!(deliveries.insert(one.header("x-service-delivery").to_owned()));
    }
    assert_eq!(told, expected);
    stop.cancel();
    served.await.unwrap();
}

/// Occurrences of one finished and one unfinished response, by the rule of the ids (rulings,
/// section Occurrences).
fn occurrences(story: &Story, left: Uuid, person: &str) -> Vec<(&'static str, Uuid)> {
    let identity = &story.world.service().inviter.identity;
    let person = identity.person_named(story.firm.id, person);
    let (response, report, booking) = (story.response, story.report, story.booking);
    let moved = |day: u32| {
        format!("{booking}|2026-11-{day:02}T10:00:00.000Z|2026-11-01T12:00:{day:02}.000Z")
    };
    [
        (Trigger::FormSubmitted, response.to_string()),
        (Trigger::PartialSubmission, left.to_string()),
        (Trigger::ReportApproved, report.to_string()),
        (Trigger::ReportSent, report.to_string()),
        (Trigger::ReportOpened, report.to_string()),
        (Trigger::PaymentReceived, response.to_string()),
        (Trigger::BookingMade, response.to_string()),
        (Trigger::BookingRescheduled, moved(3)),
        (Trigger::BookingRescheduled, moved(4)),
        (Trigger::BookingCancelled, booking.to_string()),
        (Trigger::LeadHot, person.to_string()),
    ]
    .map(|(trigger, key)| (trigger.key(), occurrence_id(story.firm.id, trigger, &key)))
    .to_vec()
}

/// 200 orders, cut into batches of any size that speak of several responses: every subscription
/// gets the deliveries of the first order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_order_comes_to_the_same_deliveries() {
    let mut story = Story::begin(FirstClaim::FromOutbox).await;
    story.subscribe_again().await;
    let hooks = story.hooks().await;
    let mut expected: BTreeMap<(Uuid, Uuid), u64> = BTreeMap::new();
    for seed in 0..200 {
        let mut draw = Draw::new(seed);
        let person = format!("p{seed}@example.com");
        story.renew();
        let left = story.response;
        let mut events = story.all_unfinished();
        story.renew();
        events.extend(story.all(&person));
        draw.shuffle(&mut events);
        for batch in draw.cut(events) {
            story.report(&batch).await;
        }
        let of_seed = occurrences(&story, left, &person);
        for (hook_id, listens_to) in &hooks {
            let matching = of_seed.iter().filter(|(trigger, _)| trigger == listens_to);
            expected.extend(matching.map(|(_, occurrence)| ((*hook_id, *occurrence), seed)));
        }
    }
    story.world.pass(HOUR);
    story.world.time_out().await;
    let queued: Vec<(Uuid, Uuid)> = sqlx::query_as("select lane_id, occurrence_id from outbox")
        .fetch_all(story.world.pool())
        .await
        .unwrap();
    assert_eq!(queued.len(), 200 * 11 * 2);
    let queued: BTreeSet<_> = queued.into_iter().collect();
    let missing = expected.iter().find(|(delivery, _)| !queued.contains(*delivery));
    assert_eq!(missing, None, "and its seed");
    assert_eq!(queued.len(), expected.len());
    assert_eq!(story.world.count("waiting_facts").await, 0);
}
