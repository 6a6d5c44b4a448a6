//! The ten triggers, from the product's report to the bytes that arrive (contract, section Events;
//! rulings, section Occurrences).

mod kinds;
mod leads;
mod once;
mod order;
mod partials;
mod payloads;
mod restore;
mod several;

use std::time::Duration;

use domain::subscription::Trigger;
use rstest::rstest;
use serde_json::{Value, json};
use tests::{Firm, FirstClaim, Handicap, Received, Receiver, World, activity, later};
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
    async fn begin(first: FirstClaim) -> Self {
        let world = World::claiming(first).await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        for trigger in Trigger::ALL {
            let body = json!({"trigger": trigger.key(), "target_url": receiver.url("/")});
            world.create_hook(&firm, body).await.ok();
        }
        let (response, report, booking) = (world.id(), world.id(), world.id());
        Self { world, firm, receiver, response, report, booking }
    }

    fn event(&self, kind: &str, data: Value) -> Value {
        activity(self.firm.id, kind, data)
    }

    async fn report(&self, events: &[Value]) -> (u64, u64) {
        let answer = self.world.report(events).await.ok();
        let count = |name: &str| answer.body[name].as_u64().unwrap();
        (count("accepted"), count("duplicates"))
    }

    /// Requests that have arrived, in order, after everything due was sent.
    async fn arrived(&self) -> Vec<Received> {
        self.world.deliver().await;
        self.receiver.received()
    }

    async fn events(&self) -> Vec<String> {
        let arrived = self.arrived().await;
        arrived.iter().map(|one| one.header("x-service-event").to_owned()).collect()
    }

    fn submitted(&self) -> Value {
        let mut data = self.document();
        data["submitted_at"] = json!("2026-11-01T11:59:58.250Z");
        data["ending"] = json!("vip");
        data["answers"] = answers();
        self.event("response.submitted", data)
    }

    /// Its first question answered, and no more.
    fn saved(&self, at: &str) -> Value {
        let mut data = self.document();
        data["saved_at"] = json!(at);
        data["answers"] = json!([answers()[0]]);
        self.event("response.saved", data)
    }

    fn document(&self) -> Value {
        json!({
            "response_id": self.response, "form_id": self.firm.form, "device": "mobile",
            "lang": "fr", "respondent": respondent(), "variables": variables(), "hidden": hidden(),
        })
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

fn respondent() -> Value {
    json!({"name": "Zoé Lefèvre", "first_name": "Zoé", "last_name": "Lefèvre",
           "email": "zoe@example.com", "phone": "+33 1 23 45 67 89", "company": "Lefèvre & Fils"})
}

fn answers() -> Value {
    json!([
        {"id": "q1", "question": "Who are you?", "type": "contact_group", "answer": "Zoé Lefèvre"},
        {"id": "q2", "question": "Qui ?", "type": "short_text", "answer": "🎉 \"moi\""},
        {"id": "q3", "question": "Pourquoi ?", "type": "long_text", "answer": "Parce que…\nvoilà"},
    ])
}

fn variables() -> Value {
    json!({"score": 7, "tier": "gold", "nested": {"list": [1, null, true]}})
}

/// A field of the form's, and all UTM tags.
fn hidden() -> Value {
    json!({"partner": "acme", "utm_source": "news", "utm_medium": "mail", "utm_campaign": "autumn",
           "utm_term": "tax", "utm_content": "top"})
}

fn with_event<'a>(arrived: &'a [Received], event: &str) -> Vec<&'a Received> {
    arrived.iter().filter(|one| one.header("x-service-event") == event).collect()
}
