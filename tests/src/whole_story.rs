//! A story in which everything happens that read models are made of.

use std::time::Duration;

use crate::{Firm, Receiver, Reply, World, activity, later};
use api::commands::pauses::{self, RequestedScope};
use api::commands::reissue::{NewReissue, reissue};
use api::commands::replays::{self, NewReplay};
use api::commands::{keys, readings, secrets};
use domain::delivery::replay::{ReplayCommand, ReplaySelection};
use domain::event::Actor;
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::subscription::Trigger;
use serde_json::{Value, json};
use uuid::Uuid;

const DAY: Duration = Duration::from_secs(86_400);

/// Tells it all, with a block of seals, and brings everything that follows up to date.
pub async fn told() -> (World, Firm) {
    let world = World::new().await;
    let firm = tell(&world).await;
    many(&world, &firm).await;
    world.deliver().await;
    world.seal().await;
    (world, firm)
}

/// Tells all but that.
pub async fn tell(world: &World) -> Firm {
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    for trigger in Trigger::ALL {
        let body = json!({"trigger": trigger.key(), "target_url": receiver.url("/?key=secret")});
        world.create_hook(&firm, body).await.ok();
    }
    settings(world, &firm).await;
    deliveries(world, &firm, &receiver).await;
    steps(world, &firm, &receiver).await;
    replayed(world, &firm, &receiver).await;
    held(world, &firm).await;
    people(world, &firm).await;
    ends(world).await;
    world.pass(8 * DAY);
    world.purge().await;
    firm
}

/// Firms, members and forms that change, keys that go, secrets that rotate.
async fn settings(world: &World, firm: &Firm) {
    let of = |kind, data, second| later(activity(firm.id, kind, data), second);
    let (admin, form) = (world.id(), world.id());
    let made = json!({
        "form_id": form, "title": "Old", "slug": "old", "url": "https://forms.test/f/old",
        "status": "draft", "hidden_fields": [], "created_at": "2026-10-01T09:30:00.000Z",
    });
    world
        .report(&[
            of("firm.changed", json!({"name": "Harrow & Lane", "invites_enabled": true}), 1),
            of("member.joined", json!({"member_id": admin, "role": "admin"}), 1),
            of("member.joined", json!({"member_id": world.id(), "role": "member"}), 1),
            of("form.created", made, 1),
            of("form.published", json!({"form_id": form}), 2),
            of("form.changed", json!({"form_id": form, "title": "New"}), 3),
            of("form.unpublished", json!({"form_id": form}), 4),
            of("form.deleted", json!({"form_id": form}), 5),
        ])
        .await
        .ok();
    let key = keys::create(world.service(), firm.id, admin, "gone soon").await.unwrap();
    let hook = json!({"trigger": "form_submitted", "target_url": "https://example.com/"});
    assert_eq!(world.call(key.key.as_str(), "POST", "/hooks", hook).await.status, 201);
    world
        .report(&[
            of("member.role_changed", json!({"member_id": admin, "role": "owner"}), 6),
            of("member.disabled", json!({"member_id": admin}), 7),
            of("member.enabled", json!({"member_id": admin}), 8),
            of("member.left", json!({"member_id": admin}), 9),
        ])
        .await
        .ok();
    let operator = Actor::Operator(Uuid::nil());
    let (what, how) = (ReadingSubject::Audit, ReadAs::Page);
    let look = ReadingDetails::at(what, how);
    readings::record(world.service(), firm.id, operator, look).await.unwrap();
    secrets::reveal(world.service(), firm.id, operator).await.unwrap();
    secrets::rotate(world.service(), firm.id, operator, Some("drill")).await.unwrap();
}

/// Deliveries that arrive, fail, are retried, and end a subscription.
async fn deliveries(world: &World, firm: &Firm, receiver: &Receiver) {
    let hook = world.subscribe(firm, &receiver.url("/gone")).await;
    receiver.reply([Reply::status(500), Reply::status(400), Reply::status(200)]);
    for _ in 0..3 {
        world.submit(firm).await;
    }
    world.deliver().await;
    world.pass(Duration::from_secs(7_200));
    let gone = Receiver::start().await;
    world.subscribe(firm, &gone.url("/")).await;
    gone.reply([Reply::status(410), Reply::status(410)]);
    for _ in 0..2 {
        world.submit(firm).await;
        world.deliver().await;
    }
    world.submit(firm).await;
    world.remove_hook(firm, hook).await.ok();
    world.deliver().await;
}

/// A workflow's step that fails, and is tried anew.
async fn steps(world: &World, firm: &Firm, receiver: &Receiver) {
    let response_id = world.submit(firm).await;
    world.deliver().await;
    let mut order = world.step_order(firm, &receiver.url("/step"), response_id);
    order["headers"] = json!({"Authorization": "Bearer x"});
    world.order_step(&order).await.ok();
    receiver.reply([Reply::status(400)]);
    world.deliver().await;
    let step = ["run_id", "step_id"].map(|name| order[name].as_str().unwrap()).join("/");
    let path = format!("/workflow-steps/{step}/retry");
    world.call_internally(world.token(), "POST", &path, Value::Null).await.ok();
    world.deliver().await;
}

/// Invites, and people that want none, or want to be forgotten.
async fn people(world: &World, firm: &Firm) {
    let of = |kind, data, second| later(activity(firm.id, kind, data), second);
    let email = |name: &str| json!({"email": format!("{name}@example.com")});
    for name in ["ann", "bob", "zoe"] {
        world.send_invite(firm, email(name)).await.ok();
    }
    world
        .report(&[
            of("address.unsubscribed", email("ann"), 1),
            of("address.bounced", email("bob"), 1),
            of("address.restored", email("bob"), 2),
            of("person.erased", email("zoe"), 3),
            of("response.erased", json!({"response_id": world.submit(firm).await}), 3),
        ])
        .await
        .ok();
    world.erase().await;
    world.deliver().await;
}

/// Failed deliveries are sent once more. One replay is held and goes on, and another is ended.
async fn replayed(world: &World, firm: &Firm, receiver: &Receiver) {
    let order = NewReplay {
        firm_id: firm.id,
        request_id: world.id(),
        selection: ReplaySelection::default(),
        reason: "drill".into(),
        force: true,
        rate_per_second: 100,
    };
    let operator = Actor::Operator(Uuid::nil());
    let stop = ReplayCommand::Stop { reason: Some("drill".into()) };
    for commands in [vec![ReplayCommand::Pause, ReplayCommand::Resume], vec![stop]] {
        receiver.reply([Reply::status(500)]);
        let new = NewReplay { request_id: world.id(), ..order.clone() };
        let selected = replays::select(world.service(), &order).await.unwrap();
        let id = replays::start(world.service(), &new, &selected, operator).await.unwrap();
        for command in commands {
            replays::change(world.service(), id, command, operator).await.unwrap();
        }
        for _ in 0..3 {
            world.replay().await;
            world.deliver().await;
            world.pass(Duration::from_secs(1));
        }
    }
}

/// Pauses that operators make and end, and a delivery that they reissue.
async fn held(world: &World, firm: &Firm) {
    let (service, operator) = (world.service(), Actor::Operator(Uuid::nil()));
    let host = RequestedScope::Host("held.example.com".to_owned());
    pauses::pause(service, &host, "drill", operator).await.unwrap();
    let of_firm =
        pauses::pause(service, &RequestedScope::Firm(firm.id), "drill", operator).await.unwrap();
    pauses::resume(service, of_firm.pause_id, None, operator).await.unwrap();
    let ended = "select delivery_id from deliveries d join hooks h using (hook_id)
                  where d.state = 'delivered' and h.removed_at is null and d.firm_id = $1
                  order by d.created_at desc limit 1";
    let delivery_id =
        sqlx::query_scalar(ended).bind(firm.id).fetch_one(world.pool()).await.unwrap();
    let (firm_id, request_id, reason) = (firm.id, world.id(), "drill".to_owned());
    let new = NewReissue { firm_id, delivery_id, request_id, reason };
    reissue(service, &new, operator).await.unwrap();
    world.deliver().await;
}

/// A firm that is suspended and comes back, and one that closes.
async fn ends(world: &World) {
    for kinds in [["firm.suspended", "firm.resumed"], ["firm.suspended", "firm.closed"]] {
        let firm = world.firm().await;
        let receiver = Receiver::start().await;
        world.subscribe(&firm, &receiver.url("/")).await;
        world.submit(&firm).await;
        for (second, kind) in (1..).zip(kinds) {
            world.report_one(later(activity(firm.id, kind, json!({})), second)).await;
            world.deliver().await;
        }
    }
}

/// As many as make a block of seals whole.
pub async fn many(world: &World, firm: &Firm) {
    let other = world.firm().await;
    let submitted = |_| {
        let data = json!({
            "response_id": world.id(), "form_id": other.form,
            "submitted_at": "2026-11-01T11:00:00Z",
        });
        activity(other.id, "response.submitted", data)
    };
    world.report(&(0..1_000).map(submitted).collect::<Vec<_>>()).await.ok();
    world.submit(firm).await;
}
