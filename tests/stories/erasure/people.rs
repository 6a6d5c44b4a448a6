//! The erasure of a person: every response that names the person, in any part.

use serde_json::{Value, json};
use tests::{Firm, Receiver, World, activity, later};
use uuid::Uuid;

use super::{causes, left, report, submit};

const ANN: &str = "ann@example.com";

/// A response that somebody with this address, or nobody, saved or submitted.
fn response(firm: &Firm, (kind, response_id): (&str, Uuid), email: &str) -> Value {
    let time = if kind == "response.saved" { "saved_at" } else { "submitted_at" };
    let mut data = json!({
        "response_id": response_id, "form_id": firm.form, "respondent": {"email": email},
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "canary"}],
    });
    data[time] = json!("2026-11-01T11:00:00Z");
    activity(firm.id, kind, data)
}

fn submitted(firm: &Firm, response_id: Uuid, email: &str) -> Value {
    response(firm, ("response.submitted", response_id), email)
}

fn saved(firm: &Firm, response_id: Uuid, email: &str) -> Value {
    response(firm, ("response.saved", response_id), email)
}

/// A booking on a response, with somebody.
fn booked(world: &World, firm: &Firm, response_id: Uuid, email: &str) -> Value {
    let data = json!({
        "booking_id": world.id(), "response_id": response_id, "title": "Call",
        "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
        "ends_at": "2026-11-02T09:30:00Z",
        "duration_min": 30, "time_zone": "Europe/Paris", "location": "", "join_url": "",
        "invitee": {"name": "Ann", "email": email, "phone": ""},
    });
    activity(firm.id, "booking.made", data)
}

fn scored(firm: &Firm, response_id: Uuid, band: &str) -> Value {
    let data = json!({"person": "Ann@Example.com", "response_id": response_id, "band": band,
                      "score": 50});
    activity(firm.id, "lead.scored", data)
}

fn person_erased(firm: &Firm) -> Value {
    activity(firm.id, "person.erased", json!({"email": "ANN@example.com"}))
}

async fn take(world: &World, batch: &[Value]) {
    world.report(batch).await.ok();
}

async fn listening(trigger: &str) -> (World, Firm, Receiver) {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let body = json!({"trigger": trigger, "target_url": receiver.url("/")});
    world.create_hook(&firm, body).await.ok();
    (world, firm, receiver)
}

#[tokio::test]
async fn h1_only_the_persons_responses_go() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let mine = [submit(&world, &firm, "Ann@Example.com").await, submit(&world, &firm, ANN).await];
    let bobs = submit(&world, &firm, "bob@example.com").await;
    let elsewhere = submit(&world, &other, ANN).await;
    let body = report(&world, &firm, "person.erased", json!({"email": "ANN@example.com"})).await;
    assert_eq!(body["accepted"], 1);
    world.erase().await;
    for response_id in mine {
        assert_eq!(left(&world, response_id).await, (0, 0));
    }
    for response_id in [bobs, elsewhere] {
        assert_eq!(left(&world, response_id).await, (2, 1));
    }
    let again = report(&world, &firm, "person.erased", json!({"email": ANN})).await;
    assert_eq!(again["accepted"], 1, "by another id it is another erasure");
    let events = world.event_types_in(&["Response", "Person"]).await;
    assert_eq!(events, ["ResponseErased", "ResponseErased", "PersonErased", "PersonErased"]);
}

/// Only the booking names the person, not the response. Such a booking once stayed and was sent.
#[tokio::test]
async fn h1_bookings_of_an_erased_person_go() {
    let (world, firm, receiver) = listening("booking_made").await;
    let response_id = world.id();
    take(&world, &[submitted(&firm, response_id, "")]).await;
    take(&world, &[booked(&world, &firm, response_id, ANN)]).await;
    take(&world, &[person_erased(&firm)]).await;
    world.erase().await;
    world.deliver().await;
    assert!(receiver.received().is_empty());
    assert_eq!(causes(&world).await, ["source_erased"]);
    assert_eq!(left(&world, response_id).await, (0, 0));
}

/// The response is submitted under another address, or under none. The address of its beginning was
/// once forgotten.
#[tokio::test]
async fn h1_responses_an_erased_person_began_go() {
    let (world, firm, receiver) = listening("partial_submission").await;
    let ends = ["", "bob@example.com"].map(|email| (world.id(), email));
    for (response_id, _) in ends {
        take(&world, &[saved(&firm, response_id, ANN)]).await;
    }
    world.pass(std::time::Duration::from_secs(3_600));
    world.time_out().await;
    world.deliver().await;
    assert_eq!(receiver.received().len(), 2);
    for (response_id, email) in ends {
        take(&world, &[submitted(&firm, response_id, email)]).await;
    }
    take(&world, &[person_erased(&firm)]).await;
    world.erase().await;
    for (response_id, _) in ends {
        assert_eq!(left(&world, response_id).await, (0, 0));
    }
}

/// A person that the response itself knows is not `further`, and is found by the response. The
/// others are found without the response.
#[tokio::test]
async fn h1_people_on_an_erased_response_go() {
    let world = World::new().await;
    let firm = world.firm().await;
    let response_id = world.id();
    let call = |email| booked(&world, &firm, response_id, email);
    take(&world, &[call("before@example.com")]).await;
    take(&world, &[saved(&firm, response_id, "")]).await;
    take(&world, &[submitted(&firm, response_id, ANN), call("with@example.com")]).await;
    take(&world, &[call("after@example.com"), call(ANN)]).await;
    assert_eq!(world.count("response_people where further").await, 3);
    assert_eq!(world.count("response_people where not further").await, 1);
    report(&world, &firm, "response.erased", json!({"response_id": response_id})).await;
    world.erase().await;
    assert_eq!(left(&world, response_id).await, (0, 0));
}

/// A process of the build before knows neither column, or wrote before there were any.
#[tokio::test]
async fn h1_people_named_by_older_builds_go() {
    let world = World::new().await;
    let firm = world.firm().await;
    let response_id = world.id();
    take(&world, &[submitted(&firm, response_id, "")]).await;
    let named = "insert into response_people (firm_id, person_id, response_id) values ($1, $2, $3)";
    let named = sqlx::query(named).bind(firm.id).bind(world.id()).bind(response_id);
    named.execute(world.pool()).await.unwrap();
    report(&world, &firm, "response.erased", json!({"response_id": response_id})).await;
    world.erase().await;
    assert_eq!(left(&world, response_id).await, (0, 0));
}

/// The lead is hot or not, and its score may come before the response. Such a response once stayed.
#[tokio::test]
async fn h1_responses_of_an_erased_lead_go() {
    let (world, firm, receiver) = listening("lead_hot").await;
    let (cold, hot, late) = (world.id(), world.id(), world.id());
    take(&world, &[submitted(&firm, cold, ""), submitted(&firm, hot, "")]).await;
    take(&world, &[scored(&firm, cold, "cold"), scored(&firm, hot, "hot")]).await;
    take(&world, &[scored(&firm, late, "warm"), person_erased(&firm)]).await;
    take(&world, &[submitted(&firm, late, "")]).await;
    world.erase().await;
    world.deliver().await;
    assert!(receiver.received().is_empty());
    for response_id in [cold, hot, late] {
        assert_eq!(left(&world, response_id).await, (0, 0));
    }
}

/// One batch names a person in several places and erases the person. Activities behind the erasure
/// change nothing. Such responses once stayed.
#[tokio::test]
async fn h1_people_erased_in_their_batch_go() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (began, called, scored_on) = (world.id(), world.id(), world.id());
    let batch = [
        saved(&firm, began, ANN),
        submitted(&firm, began, ""),
        submitted(&firm, called, "bob@example.com"),
        booked(&world, &firm, called, ANN),
        submitted(&firm, scored_on, ""),
        scored(&firm, scored_on, "warm"),
        person_erased(&firm),
        booked(&world, &firm, began, ANN),
    ];
    take(&world, &batch).await;
    world.erase().await;
    for response_id in [began, called, scored_on] {
        assert_eq!(left(&world, response_id).await, (0, 0));
    }
}

/// A later booking on a response that is there is new, and goes with the next erasure. On an erased
/// response the booking is ignored.
#[tokio::test]
async fn h1_naming_an_erased_person_is_new() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (hers, bobs) = (world.id(), submit(&world, &firm, "bob@example.com").await);
    take(&world, &[submitted(&firm, hers, ANN)]).await;
    take(&world, &[person_erased(&firm)]).await;
    world.erase().await;
    for response_id in [hers, bobs] {
        take(&world, &[later(booked(&world, &firm, response_id, ANN), 1)]).await;
    }
    assert_eq!((left(&world, hers).await, left(&world, bobs).await), ((0, 0), (4, 1)));
    take(&world, &[person_erased(&firm)]).await;
    world.erase().await;
    assert_eq!(left(&world, bobs).await, (0, 0));
}
