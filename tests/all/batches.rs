//! A batch is one piece of work: it costs the same number of statements however much it tells, and
//! comes to what its reports come to one by one.

use std::ops::Range;

use api::commands::keys;
use api::intake::{Format, accept, parse};
use domain::context::Actor;
use domain::subscription::{Subscription, SubscriptionCommand};
use domain::trigger::Trigger;
use serde_json::{Value, json};
use tests::{World, activity, counting_statements, later};
use uuid::Uuid;

/// Takes a batch in: how many of its reports changed something.
async fn take(world: &World, events: &[Value]) -> u64 {
    let answer = world.report(events).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.body["accepted"].as_u64().unwrap()
}

/// Firms with a member and a form each, by number: the same in every world.
#[derive(Clone, Copy)]
struct Place(u64);

impl Place {
    fn firm(self) -> Uuid {
        Uuid::from_u64_pair(1, self.0)
    }

    fn member(self) -> Uuid {
        Uuid::from_u64_pair(2, self.0)
    }

    fn form(self) -> Uuid {
        Uuid::from_u64_pair(3, self.0)
    }

    fn of(self, kind: &str, data: Value) -> Value {
        activity(self.firm(), kind, data)
    }

    fn of_member(self, kind: &str) -> Value {
        self.of(kind, json!({"member_id": self.member()}))
    }

    fn of_form(self, kind: &str) -> Value {
        self.of(kind, json!({"form_id": self.form()}))
    }

    fn opened(self) -> Value {
        let brand = json!({"color": "#123456", "reply_to": "hello@example.com"});
        self.of(
            "firm.opened",
            json!({"name": "F", "plan": {"leads_in_full": true}, "brand": brand}),
        )
    }

    fn joined(self) -> Value {
        self.of("member.joined", json!({"member_id": self.member(), "role": "admin"}))
    }

    fn created(self) -> Value {
        let data = json!({
            "form_id": self.form(), "title": "Intake", "slug": "intake",
            "url": "https://forms.test/f/intake", "status": "draft",
            "hidden_fields": [{"key": "partner", "label": "Partner"}],
            "created_at": "2026-10-01T00:00:00Z",
        });
        self.of("form.created", data)
    }

    /// A key of its member, with a hook.
    async fn subscribe(self, world: &World) {
        let service = world.service();
        let key = keys::create(service, self.firm(), self.member(), "key").await.unwrap();
        let create = SubscriptionCommand::Create {
            key_id: key.id,
            trigger: Trigger::FormSubmitted,
            target_url: format!("https://hooks.example.com/{}", self.0),
            form_id: None,
        };
        let context = service.context(self.firm(), Actor::Key(key.id));
        let hook_id = world.id().to_string();
        service.store.execute::<Subscription>(&hook_id, create, &context).await.unwrap();
    }
}

/// What these places tell at first, and what they tell next.
fn told(places: &[Place]) -> [Vec<Value>; 2] {
    let first = |place: &Place| {
        let bounced = place.of("address.bounced", json!({"email": "ann@example.com"}));
        let published = later(place.of_form("form.published"), 1);
        [place.opened(), place.joined(), place.created(), bounced, published]
    };
    let next = |place: &Place| {
        let (looks, address) = (json!({"color": "red"}), json!({"reply_to": "new@example.com"}));
        let brand = if place.0.is_multiple_of(2) { looks } else { address };
        let end = if place.0.is_multiple_of(2) { "firm.closed" } else { "firm.suspended" };
        [
            later(place.of("firm.changed", json!({"name": "G", "brand": brand})), 1),
            later(place.of(end, json!({})), 2),
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
    let batch = parse(Format::Batch, &serde_json::to_vec(events).unwrap()).unwrap();
    let accepting = accept(world.service(), batch, Actor::Product(Uuid::nil()));
    let (accepted, statements) = counting_statements(accepting).await;
    assert_eq!(accepted.unwrap().accepted, events.len());
    statements
}

#[tokio::test]
async fn a_batch_of_1_000_reports_takes_as_many_statements_as_one_of_10() {
    let world = World::new().await;
    let few = statements(&world, 0..2).await;
    assert!(few.iter().all(|count| (5..40).contains(count)), "{few:?}");
    assert_eq!(statements(&world, 100..300).await, few);
}

/// Draws numbers, the same ones each time (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 32)) % end
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()].clone()
    }

    /// Something to tell of a place.
    fn report(&mut self, place: Place) -> Value {
        match self.below(7) {
            0 => {
                let kinds = ["firm.suspended", "firm.suspended", "firm.resumed", "firm.resumed"];
                let ends = ["firm.closed"];
                let kind = if self.below(12) == 0 { self.of(&ends) } else { self.of(&kinds) };
                place.of(kind, json!({}))
            }
            1 => place.of("firm.changed", self.settings()),
            2 => place.of_member(self.of(&["member.disabled", "member.enabled", "member.left"])),
            3 => {
                let kind = self.of(&["member.joined", "member.role_changed"]);
                let role = self.of(&["owner", "admin", "member"]);
                place.of(kind, json!({"member_id": place.member(), "role": role}))
            }
            4 => {
                let kinds =
                    ["form.published", "form.unpublished", "form.published", "form.deleted"];
                place.of_form(self.of(&kinds))
            }
            5 => place.of("form.changed", self.edit(place)),
            _ => {
                let kinds = ["address.unsubscribed", "address.bounced", "address.restored"];
                place.of(self.of(&kinds), json!({"email": "ann@example.com"}))
            }
        }
    }

    fn settings(&mut self) -> Value {
        let all = [
            ("name", json!(format!("N{}", self.0))),
            ("plan", json!({"leads_in_full": self.below(2) == 0})),
            ("brand", json!({"color": format!("c{}", self.0)})),
            ("brand", json!({"reply_to": format!("r{}@example.com", self.0)})),
            ("invites_enabled", json!(self.below(2) == 0)),
        ];
        self.some(&all)
    }

    fn edit(&mut self, place: Place) -> Value {
        let all = [
            ("title", json!(format!("T{}", self.0))),
            ("slug", json!(format!("s{}", self.0))),
            ("url", json!(format!("https://forms.test/{}", self.0))),
            ("status", json!(self.of(&["draft", "published"]))),
            ("hidden_fields", json!([{"key": format!("k{}", self.0), "label": "K"}])),
            ("created_at", json!(format!("2026-10-{:02}T00:00:00Z", 1 + self.below(20)))),
        ];
        let mut edit = self.some(&all);
        edit["form_id"] = json!(place.form());
        edit
    }

    fn some(&mut self, all: &[(&str, Value)]) -> Value {
        let some = all.iter().filter(|_| self.below(2) == 0);
        some.map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }
}

/// A batch about two places that are there and two that come with it; some reports come too late.
fn batch(draw: &mut Draw, places: [Place; 4]) -> Vec<Value> {
    let new = places[2..].iter().flat_map(|place| [place.opened(), place.created()]);
    let mut batch: Vec<Value> = new.collect();
    for second in 1..50 {
        let report = draw.of(&places);
        let second = second + u32::try_from(draw.below(8)).unwrap();
        batch.push(later(draw.report(report), second));
    }
    batch
}

/// What the tables hold, without what is random or counts the appends.
async fn rows(world: &World) -> Vec<String> {
    let mut rows = Vec::new();
    for table in [
        "select * from firms",
        "select * from members",
        "select * from forms",
        "select firm_id, unsubscribed, bounced, erased_at from people",
        "select firm_id, member_id, name, created_at, revoked_at from key_auth",
        "select firm_id, target_url, removed_at, sequence from hooks",
        "select target_url, due_at, paused_at is null, cancel_cause is null, gone
           from lanes join hooks on hook_id = lane_id",
        "select * from quotas",
        "select firm_id, rotated_at from webhook_secrets",
    ] {
        let texts = format!("select t::text from ({table}) t order by 1");
        rows.extend(sqlx::query_scalar::<_, String>(&texts).fetch_all(world.pool()).await.unwrap());
    }
    rows
}

async fn contacts(world: &World, places: &[Place]) -> Vec<Option<String>> {
    let mut connection = world.pool().acquire().await.unwrap();
    let wrapping = world.service().keyring.wrapping();
    let mut contacts = Vec::new();
    for place in places {
        let contact = vault::secrets::contact(&mut connection, wrapping, place.firm()).await;
        contacts.push(contact.unwrap());
    }
    contacts
}

#[tokio::test]
async fn a_batch_comes_to_what_its_reports_come_to_one_by_one() {
    let (at_once, one_by_one) = (World::new().await, World::new().await);
    for round in 0..8 {
        let mut draw = Draw(round);
        let places = [0, 1, 2, 3].map(|n| Place(4 * round + n));
        for world in [&at_once, &one_by_one] {
            for place in &places[..2] {
                take(world, &[place.opened(), place.joined(), place.created()]).await;
                place.subscribe(world).await;
            }
        }
        let batch = batch(&mut draw, places);
        let accepted = take(&at_once, &batch).await;
        let mut singly = 0;
        for report in batch.chunks(1) {
            singly += take(&one_by_one, report).await;
        }
        assert_eq!(accepted, singly, "round {round}");
        assert_eq!(rows(&at_once).await, rows(&one_by_one).await, "round {round}");
        let of_both = [contacts(&at_once, &places).await, contacts(&one_by_one, &places).await];
        assert_eq!(of_both[0], of_both[1], "round {round}");
    }
}
