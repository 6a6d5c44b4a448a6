//! Reports of state and their content, end to end: a clock per aspect (ruling 35), lenient
//! addresses (36) and checked texts (37).

use std::slice;

use api::intake::{EventFormat, parse_events};
use domain::event::Actor;
use domain::form::{Form, FormChange, FormCommand, FormDetails, FormStatus, UNUSABLE_URL};
use serde_json::{Value, json};
use tests::{Answer, Firm, World, activity, later};
use uuid::Uuid;

/// Accepted, duplicates and stale.
async fn take(world: &World, events: &[Value]) -> [u64; 3] {
    let answer = world.report(events).await.ok();
    ["accepted", "duplicates", "stale"].map(|name| answer.body[name].as_u64().unwrap())
}

const ACCEPTED: [u64; 3] = [1, 0, 0];
const DUPLICATE: [u64; 3] = [0, 1, 0];
const STALE: [u64; 3] = [0, 0, 1];

fn of_firm(firm: &Firm, second: u32, kind: &str, data: Value) -> Value {
    later(activity(firm.id, kind, data), second)
}

async fn send(world: &World, firm: &Firm, email: &str) -> Answer {
    world.send_invite(firm, json!({"email": email})).await
}

#[tokio::test]
async fn a_late_suspension_stops_the_keys() {
    let world = World::new().await;
    let firm = world.firm().await;
    let named = of_firm(&firm, 9, "firm.changed", json!({"name": "New"}));
    assert_eq!(take(&world, &[named]).await, ACCEPTED);
    let suspended = |second| of_firm(&firm, second, "firm.suspended", json!({}));
    assert_eq!(take(&world, &[suspended(5)]).await, ACCEPTED);
    world.get(&firm, "/me").await.refused(403, "firm_inactive");
    assert_eq!(take(&world, &[suspended(5)]).await, DUPLICATE);
    assert_eq!(take(&world, &[of_firm(&firm, 4, "firm.resumed", json!({}))]).await, STALE);
    let old = of_firm(&firm, 8, "firm.changed", json!({"name": "Old", "invites_enabled": false}));
    assert_eq!(take(&world, slice::from_ref(&old)).await, ACCEPTED, "one of two settings is news");
    assert_eq!(take(&world, &[old]).await, DUPLICATE, "its id is known");
    let named = format!("firms where firm_id = '{}' and name = 'New'", firm.id);
    assert_eq!(world.count(&named).await, 1);
}

#[tokio::test]
async fn a_late_disabling_ends_the_members_keys() {
    let world = World::new().await;
    let firm = world.firm().await;
    let role = json!({"member_id": firm.owner, "role": "admin"});
    let disabled = json!({"member_id": firm.owner});
    assert_eq!(take(&world, &[of_firm(&firm, 9, "member.role_changed", role)]).await, ACCEPTED);
    world.get(&firm, "/me").await.ok();
    let disabled = of_firm(&firm, 5, "member.disabled", disabled);
    assert_eq!(take(&world, &[disabled]).await, ACCEPTED);
    world.get(&firm, "/me").await.refused(401, "unauthorized");
}

#[tokio::test]
async fn an_unpublished_form_invites_nobody() {
    let world = World::new().await;
    let firm = world.firm().await;
    let titled = json!({"form_id": firm.form, "title": "New"});
    let unpublished = json!({"form_id": firm.form});
    take(&world, &[of_firm(&firm, 9, "form.changed", titled)]).await;
    let unpublished = of_firm(&firm, 5, "form.unpublished", unpublished);
    assert_eq!(take(&world, &[unpublished]).await, ACCEPTED);
    let refused = send(&world, &firm, "ann@example.com").await;
    assert_eq!(refused.code(), (409, "form_not_published"));
}

#[tokio::test]
async fn a_closing_counts_whatever_its_date() {
    let world = World::new().await;
    let firm = world.firm().await;
    let mut far = activity(firm.id, "firm.changed", json!({"name": "New"}));
    far["time"] = json!("9999-12-31T23:59:59Z");
    let resumed = of_firm(&firm, 9, "firm.suspended", json!({}));
    let refused = world.report(&[resumed.clone(), far.clone()]).await;
    assert_eq!(
        (refused.code(), &refused.body["index"], &refused.body["error"]),
        (
            (400, "invalid_request"),
            &json!(1),
            &json!("event 1: time: more than an hour ahead of the service's clock")
        )
    );
    far["time"] = json!("2026-11-01T13:00:00Z");
    assert_eq!(take(&world, &[far, resumed]).await, [2, 0, 0], "an hour ahead is no fault");
    let mut closed = activity(firm.id, "firm.closed", json!({}));
    closed["time"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(take(&world, &[closed]).await, ACCEPTED);
    assert_eq!(take(&world, &[of_firm(&firm, 9, "firm.resumed", json!({}))]).await, STALE);
    assert_eq!(take(&world, &[of_firm(&firm, 9, "firm.closed", json!({}))]).await, DUPLICATE);
    world.get(&firm, "/me").await.refused(403, "firm_inactive");
}

fn booked(firm: &Firm, booking_id: Uuid, response_id: Uuid, title: &str) -> Value {
    let data = json!({
        "booking_id": booking_id, "response_id": response_id, "title": title,
        "status": "confirmed", "starts_at": "2026-11-02T09:00:00Z",
        "ends_at": "2026-11-02T09:30:00Z", "duration_min": 30, "time_zone": "Europe/Paris",
    });
    activity(firm.id, "booking.made", data)
}

/// The booking is reported again under another id and time. It was once accepted.
#[tokio::test]
async fn a_repeated_booking_is_a_duplicate() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (response, booking) = (world.submit(&firm).await, world.id());
    let call = |title: &str, second| later(booked(&firm, booking, response, title), second);
    assert_eq!(take(&world, &[call("Call", 3)]).await, ACCEPTED);
    assert_eq!(take(&world, &[call("Call", 5)]).await, DUPLICATE);
    assert_eq!(take(&world, &[call("Call", 1), call("Call", 5)]).await, [0, 2, 0]);
    assert_eq!(take(&world, &[call("Longer call", 6)]).await, ACCEPTED);
    assert_eq!(take(&world, &[call("Call", 5)]).await, STALE);
    let twice = [call("Last", 9), call("Last", 10), call("Call", 7)];
    assert_eq!(take(&world, &twice).await, [1, 1, 1]);
}

#[tokio::test]
async fn an_older_report_activity_is_stale() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (response_id, report_id) = (world.submit(&firm).await, world.id());
    let changed = |title: &str, second| {
        let data = json!({
            "report_id": report_id, "response_id": response_id, "title": title, "status": "draft",
            "review_url": "https://forms.test/r/1",
        });
        of_firm(&firm, second, "report.changed", data)
    };
    assert_eq!(take(&world, &[changed("B", 5)]).await, ACCEPTED);
    assert_eq!(take(&world, &[changed("B", 5)]).await, DUPLICATE);
    assert_eq!(take(&world, &[changed("A", 4)]).await, STALE);
    assert_eq!(take(&world, &[changed("C", 6), changed("B", 5)]).await, [1, 0, 1]);
}

#[tokio::test]
async fn an_opt_out_holds_for_each_spelling() {
    let world = World::new().await;
    let firm = world.firm().await;
    for (kind, reported, reason) in [
        ("address.unsubscribed", "opt1@example.com ", "unsubscribed"),
        ("address.unsubscribed", "OPT2@example.com.", "unsubscribed"),
        ("address.bounced", "<opt3@example.com>", "bounced"),
    ] {
        let report = activity(firm.id, kind, json!({"email": reported}));
        assert_eq!(take(&world, &[report]).await, ACCEPTED, "{reported}");
        let bare = reported.trim_matches(['<', '>', ' ', '.']).to_lowercase();
        let skipped = send(&world, &firm, &bare).await;
        assert_eq!(skipped.body["status"], "skipped", "{bare}: {}", skipped.text());
        assert_eq!(skipped.body["reason"], reason);
    }
    let none = activity(firm.id, "address.bounced", json!({"email": "nobody"}));
    let refused = world.report(&[none]).await;
    assert_eq!(refused.code(), (400, "invalid_request"));
    assert!(!refused.text().contains("nobody"));
}

#[tokio::test]
async fn brackets_do_not_change_an_address() {
    let world = World::new().await;
    let firm = world.firm().await;
    let response = |email: &str| {
        let data = json!({
            "response_id": world.id(), "form_id": firm.form,
            "submitted_at": "2026-11-01T12:00:00Z", "respondent": {"email": email},
        });
        activity(firm.id, "response.submitted", data)
    };
    take(&world, &[response("<ann@example.com>"), response("ann@example.com. ")]).await;
    let erased = activity(firm.id, "person.erased", json!({"email": " Ann@Example.com"}));
    assert_eq!(take(&world, &[erased]).await, ACCEPTED);
    assert_eq!(world.count_events("ResponseErased").await, 2);
}

/// The log of an older build: nothing was checked.
async fn form_of_an_older_build(world: &World, firm: &Firm, url: &str) -> Uuid {
    let form_id = world.id();
    let details = FormDetails {
        title: format!("a\u{1b}{}", "b".repeat(600)),
        slug: "old".into(),
        url: url.into(),
        status: FormStatus::Published,
        hidden_fields: vec![],
        created_at: "2026-10-01T09:30:00.000Z".parse().unwrap(),
    };
    let command = FormCommand::Report {
        firm_id: firm.id,
        time: "2026-11-01T12:00:00.000Z".parse().unwrap(),
        change: FormChange::Created(details),
    };
    let service = world.service();
    let context = service.context(firm.id, Actor::Product(Uuid::nil()));
    service.store.execute::<Form>(&form_id.to_string(), command, &context).await.unwrap();
    form_id
}

#[tokio::test]
async fn a_script_is_no_forms_address() {
    let world = World::new().await;
    let firm = world.firm().await;
    for url in ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", ""] {
        let data = json!({"form_id": firm.form, "url": url});
        let refused = world.report(&[activity(firm.id, "form.changed", data)]).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{url}");
        let form = form_of_an_older_build(&world, &firm, url).await;
        let shown = world.get(&firm, &format!("/forms/{form}")).await;
        assert_eq!((shown.status.as_u16(), &shown.body["url"]), (200, &json!(UNUSABLE_URL)));
        let links = format!("/forms/{form}/links");
        let link = world.call(&firm.key, "POST", &links, json!({"lang": "fr"})).await;
        assert_eq!(link.body["url"], format!("{UNUSABLE_URL}?lang=fr"));
        let old = Firm { form, ..firm.clone() };
        let refused = send(&world, &old, "ann@example.com").await;
        assert_eq!(refused.code(), (409, "form_not_published"));
        let mended = json!({"form_id": form, "url": "https://forms.test/f/mended"});
        let mended = later(activity(firm.id, "form.changed", mended), 5);
        assert_eq!(take(&world, &[mended]).await, ACCEPTED, "the old log is loaded");
        let shown = world.get(&firm, &format!("/forms/{form}")).await;
        assert_eq!(shown.body["url"], "https://forms.test/f/mended");
    }
    let all = world.get(&firm, "/forms").await;
    assert!(!all.text().contains("javascript"), "{}", all.text());
}

#[tokio::test]
async fn names_and_reasons_have_no_control_characters() {
    let world = World::new().await;
    let firm = world.firm().await;
    let name = "a\u{1b}[31mX\nfake-row";
    let refused = api::commands::keys::create(world.service(), firm.id, firm.owner, name).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "`name` must have 1 to 100 characters, none a control character"
    );
    let rotated = api::commands::secrets::rotate(
        world.service(),
        firm.id,
        Actor::Member(firm.owner),
        Some(name),
    );
    assert!(rotated.await.unwrap_err().to_string().starts_with("`reason` must have"));
}

#[test]
fn an_error_does_not_quote_the_type() {
    let event = json!({
        "specversion": "1.0", "id": "1", "source": "urn:tests", "type": "<b>\u{1b}secret</b>",
        "time": "2026-11-01T12:00:00Z", "firmid": Uuid::nil(), "data": {},
    });
    let refused = parse_events(EventFormat::Single, event.to_string().as_bytes()).unwrap_err();
    assert_eq!(refused.to_string(), "event 0: type: not a type of activity");
}
