//! Deliveries have the headers and bodies that the description's webhooks state.

use api::sample;
use domain::activity::{Booking, ReportDocument, ResponseDocument};
use domain::delivery::{EventPayload, PayloadSource};
use domain::subscription::Trigger;
use serde_json::{Value, json};
use tests::{Receiver, World};

use super::described::{conforms, description, read, validator};

fn webhook(trigger: Trigger) -> Value {
    description()["webhooks"][trigger.key()]["post"].clone()
}

fn schema(trigger: Trigger) -> Value {
    webhook(trigger)["requestBody"]["content"]["application/json"]["schema"].clone()
}

#[tokio::test]
async fn a_delivery_is_as_described() {
    let world = World::new().await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/")).await;
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);
    let request = receiver.received().remove(0);
    conforms(&schema(Trigger::FormSubmitted), &request.json(), "the body");
    let described = webhook(Trigger::FormSubmitted);
    for header in described["parameters"].as_array().unwrap() {
        let name = header["name"].as_str().unwrap();
        match request.headers.get(name) {
            Some(sent) => {
                let sent = read(sent.to_str().unwrap(), &header["schema"]);
                conforms(&header["schema"], &sent, name);
            }
            None => assert_eq!(header["required"], false, "{name}"),
        }
    }
}

#[test]
fn a_payload_fits_only_its_triggers_schema() {
    for trigger in Trigger::ALL {
        let payload = payload(trigger, None, None);
        conforms(&schema(trigger), &payload, trigger.key());
        for other in Trigger::ALL.into_iter().filter(|other| *other != trigger) {
            assert!(!validator(&schema(other)).is_valid(&payload), "{trigger}");
        }
    }
}

/// An empty response, a locked report and a cancelled booking fit the schema.
#[test]
fn payload_edge_cases_are_as_described() {
    let locked = json!({
        "id": "00000000-0000-4000-8000-000000000003", "title": "", "status": "pending",
        "summary": "x", "highlights": ["x"], "review_url": "https://f", "locked": true,
    });
    let bare = json!({
        "id": "00000000-0000-4000-8000-000000000004", "title": "", "status": "cancelled",
        "starts_at": "2026-11-01T10:00:00Z", "ends_at": "2026-11-01T10:30:00Z",
        "duration_min": 30, "time_zone": "Europe/London",
    });
    let report: ReportDocument = serde_json::from_value(locked).unwrap();
    let booking: Booking = serde_json::from_value(bare).unwrap();
    for trigger in [Trigger::PaymentReceived, Trigger::BookingCancelled, Trigger::FormSubmitted] {
        let payload = payload(trigger, Some(&report), Some(&booking));
        assert_eq!(payload["report"]["summary"], Value::Null);
        assert_eq!(payload["booking"]["join_url"], "");
        conforms(&schema(trigger), &payload, trigger.key());
    }
}

/// A made-up payload, or a payload of an empty document with this report and booking.
fn payload(trigger: Trigger, report: Option<&ReportDocument>, booking: Option<&Booking>) -> Value {
    let now = "2026-11-01T10:00:00.000Z".parse().unwrap();
    let made_up = sample::made_up(trigger, None, now);
    if report.is_none() && booking.is_none() {
        return serde_json::to_value(made_up).unwrap();
    }
    let payload = EventPayload::new(PayloadSource {
        trigger,
        form: made_up.form,
        response_id: made_up.response.id.into(),
        submitted_at: now,
        document: &ResponseDocument::default(),
        report,
        booking,
    });
    serde_json::to_value(payload).unwrap()
}
