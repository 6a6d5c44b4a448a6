//! How many statements a batch takes: as many for 10 reports as for 1,000.

use std::ops::Range;

use api::intake::{EventFormat, accept, parse_events};
use tests::counting_statements;

use super::*;

/// Activities that these places report at first, and activities that they report next.
fn told(places: &[Place]) -> [Vec<Value>; 2] {
    let first = |place: &Place| {
        let bounced = place.event_of("address.bounced", json!({"email": "ann@example.com"}));
        let published = later(place.of_form("form.published"), 1);
        [place.opened(), place.joined(), place.created(), bounced, published]
    };
    let next = |place: &Place| {
        let (looks, address) = (json!({"color": "red"}), json!({"reply_to": "new@example.com"}));
        let brand = if place.0.is_multiple_of(2) { looks } else { address };
        let end = if place.0.is_multiple_of(2) { "firm.closed" } else { "firm.suspended" };
        [
            later(place.event_of("firm.changed", json!({"name": "G", "brand": brand})), 1),
            later(place.event_of(end, json!({})), 2),
            later(place.of_member("member.disabled"), 1),
            later(place.of_form("form.unpublished"), 2),
            later(place.of_form("form.deleted"), 3),
        ]
    };
    [places.iter().flat_map(first).collect(), places.iter().flat_map(next).collect()]
}

/// How many statements it takes to tell of so many places at once, at first and next.
async fn statements(world: &World, numbers: Range<u64>) -> [usize; 2] {
    let places: Vec<Place> = numbers.map(Place).collect();
    let [first, next] = told(&places);
    let at_first = statements_of(world, &first).await;
    for place in places.iter().filter(|place| place.0 % 10 < 2) {
        place.subscribe(world).await;
    }
    [at_first, statements_of(world, &next).await]
}

async fn statements_of(world: &World, events: &[Value]) -> usize {
    let batch = parse_events(EventFormat::Batch, &serde_json::to_vec(events).unwrap()).unwrap();
    let accepting = accept(world.service(), batch, Actor::Product(Uuid::nil()));
    let (accepted, statements) = counting_statements(accepting).await;
    assert_eq!(accepted.unwrap().accepted, events.len());
    statements
}

/// A batch of 1,000 activities takes as many statements as one of 10.
#[tokio::test]
async fn a_batchs_size_adds_no_statements() {
    let world = World::new().await;
    let few = statements(&world, 0..2).await;
    assert!(few.iter().all(|count| (5..40).contains(count)), "{few:?}");
    assert_as_many(&statements(&world, 100..300).await, &few);
}

/// An append that took long reads the followers' cursors again, with one statement.
fn assert_as_many(many: &[usize; 2], few: &[usize; 2]) {
    let is_as_few = |(many, few): (&usize, &usize)| (*few..=few + 1).contains(many);
    assert!(many.iter().zip(few).all(is_as_few), "{many:?}, not {few:?}");
}

/// One of the place's responses and its parts, by number.
#[derive(Clone, Copy)]
struct About(Place, u64);

impl About {
    fn id(self, kind: u64) -> Uuid {
        Uuid::from_u64_pair(kind, self.1)
    }

    fn email(self) -> String {
        format!("p{}@example.com", self.1)
    }

    fn response(self, kind: &str, id: u64, at: &str) -> Value {
        let data = json!({
            "response_id": self.id(id), "form_id": self.0.form(), at: "2026-11-01T11:00:00Z",
            "respondent": {"email": self.email()},
            "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "a"}],
        });
        self.0.event_of(kind, data)
    }

    fn report(self, kind: &str) -> Value {
        let data = json!({
            "report_id": self.id(21), "response_id": self.id(10), "title": "T", "status": "draft",
            "review_url": "https://forms.test/r/1",
        });
        self.0.event_of(kind, data)
    }

    fn of_report(self, kind: &str) -> Value {
        self.0.event_of(kind, json!({"report_id": self.id(21), "at": "2026-11-01T12:00:00Z"}))
    }

    fn booked(self) -> Value {
        let data = json!({
            "booking_id": self.id(22), "response_id": self.id(10), "title": "Call",
            "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
            "ends_at": "2026-11-02T09:30:00Z", "duration_min": 30, "time_zone": "Europe/Paris",
        });
        self.0.event_of("booking.made", data)
    }

    fn moved(self, day: u32) -> Value {
        let data = json!({
            "booking_id": self.id(22), "moved_at": format!("2026-11-01T12:00:{day:02}Z"),
            "starts_at": format!("2026-11-{day:02}T10:00:00Z"),
            "ends_at": format!("2026-11-{day:02}T10:45:00Z"), "duration_min": 45,
            "time_zone": "Europe/London",
        });
        self.0.event_of("booking.rescheduled", data)
    }

    fn paid(self, payment: u64, response: u64) -> Value {
        let data = json!({
            "payment_id": self.id(payment), "response_id": self.id(response), "amount": 100,
            "currency": "EUR", "at": "2026-11-01T12:00:00Z",
        });
        self.0.event_of("payment.received", data)
    }

    fn hot(self, person: &str) -> Value {
        let data = json!({"person": person, "response_id": self.id(10), "band": "hot", "score": 9});
        self.0.event_of("lead.scored", data)
    }

    /// At first: a response, everything about it, and one that is not finished.
    fn first(self) -> [Value; 10] {
        [
            self.paid(30, 10),
            self.response("response.saved", 11, "saved_at"),
            self.response("response.submitted", 10, "submitted_at"),
            self.report("report.created"),
            self.of_report("report.approved"),
            self.of_report("report.sent"),
            self.booked(),
            self.moved(3),
            self.hot(&self.email()),
            self.paid(31, 12),
        ]
    }

    /// Next: more about the response, a response for which a fact waited, and erasures.
    fn next(self) -> [Value; 10] {
        let cancelled = json!({"booking_id": self.id(22)});
        [
            later(self.report("report.changed"), 1),
            self.of_report("report.opened"),
            self.moved(4),
            self.0.event_of("booking.cancelled", cancelled),
            self.paid(32, 10),
            self.hot(&format!("other-{}", self.email())),
            self.response("response.submitted", 12, "submitted_at"),
            self.paid(33, 13),
            self.0.event_of("response.erased", json!({"response_id": self.id(11)})),
            self.0.event_of("person.erased", json!({"email": self.email()})),
        ]
    }
}

/// How many statements it takes to tell at once of so many responses, at first and next.
async fn statements_about(world: &World, numbers: Range<u64>) -> [usize; 2] {
    let place = Place(numbers.start);
    take(world, &[place.opened(), place.joined(), place.created()]).await;
    let about: Vec<About> = numbers.map(|number| About(place, number)).collect();
    let first: Vec<Value> = about.iter().flat_map(|about| about.first()).collect();
    let next: Vec<Value> = about.iter().flat_map(|about| about.next()).collect();
    [statements_of(world, &first).await, statements_of(world, &next).await]
}

/// A batch of 1,000 activities about responses takes as many statements as one of 10.
#[tokio::test]
async fn a_batchs_responses_add_no_statements() {
    let world = World::new().await;
    let few = statements_about(&world, 0..1).await;
    assert!(few.iter().all(|count| (5..40).contains(count)), "{few:?}");
    assert_as_many(&statements_about(&world, 100..200).await, &few);
}

/// Nothing is asked about a new response: a key is made for it, its form is looked up, and five
/// tables are written.
#[tokio::test]
async fn a_submission_takes_eight_statements_at_most() {
    let world = World::new().await;
    let place = Place(1);
    take(&world, &[place.opened(), place.joined(), place.created()]).await;
    let submitted =
        |number| About(place, number).response("response.submitted", 10, "submitted_at");
    let statements = statements_of(&world, &[submitted(1)]).await;
    assert!((5..=8).contains(&statements), "{statements}");
}
