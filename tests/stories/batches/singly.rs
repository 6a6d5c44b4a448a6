//! The result of a batch, against the result of its activities one by one.

use super::*;

/// Draws numbers, the same ones each time (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 32)) % end
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()].clone()
    }

    /// Something to tell of a place.
    fn report(&mut self, place: Place) -> Value {
        match self.below(7) {
            0 => {
                let kinds = ["firm.suspended", "firm.suspended", "firm.resumed", "firm.resumed"];
                let ends = ["firm.closed"];
                let kind =
                    if self.below(12) == 0 { self.one_of(&ends) } else { self.one_of(&kinds) };
                place.event_of(kind, json!({}))
            }
            1 => place.event_of("firm.changed", self.settings()),
            2 => {
                place.of_member(self.one_of(&["member.disabled", "member.enabled", "member.left"]))
            }
            3 => {
                let kind = self.one_of(&["member.joined", "member.role_changed"]);
                let role = self.one_of(&["owner", "admin", "member"]);
                place.event_of(kind, json!({"member_id": place.member(), "role": role}))
            }
            4 => {
                let kinds =
                    ["form.published", "form.unpublished", "form.published", "form.deleted"];
                place.of_form(self.one_of(&kinds))
            }
            5 => place.event_of("form.changed", self.edit(place)),
            _ => {
                let kinds = ["address.unsubscribed", "address.bounced", "address.restored"];
                place.event_of(self.one_of(&kinds), json!({"email": "ann@example.com"}))
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
            ("status", json!(self.one_of(&["draft", "published"]))),
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
        let report = draw.one_of(&places);
        let second = second + u32::try_from(draw.below(8)).unwrap();
        batch.push(later(draw.report(report), second));
    }
    batch
}

/// Rows of the tables, without random values and without counts of appends.
async fn rows(world: &World) -> Vec<String> {
    let mut rows = Vec::new();
    for table in [
        "select * from firms",
        "select * from members",
        "select * from forms",
        "select firm_id, unsubscribed, bounced, erased_at from people",
        "select firm_id, member_id, name, created_at, revoked_at from key_auth",
        "select firm_id, target_url, removed_at, removal_reason, sequence from hooks",
        "select target_url, due_at, paused_at is null, cancel_cause, gone
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
    let wrapping = world.service().keyring.wrapping_key();
    let mut contacts = Vec::new();
    for place in places {
        let contact = vault::secrets::reply_address(&mut connection, wrapping, place.firm()).await;
        contacts.push(contact.unwrap());
    }
    contacts
}

#[tokio::test]
async fn a_batch_equals_its_single_activities() {
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

/// The firm closes before its member leaves. The subscription once went with the member's key, and
/// an unwanted delivery was queued.
#[tokio::test]
async fn a_closing_gives_subscriptions_its_own_reason() {
    let place = Place(1);
    let owner = json!({"member_id": place.member(), "role": "owner"});
    let submitted = json!({"response_id": Uuid::from_u128(9), "form_id": place.form(),
                           "submitted_at": "2026-11-01T11:59:58.250Z"});
    let batch = [
        later(place.event_of("firm.closed", json!({})), 1),
        place.event_of("response.submitted", submitted),
        later(place.of_member("member.left"), 2),
    ];
    for cuts in [batch.len(), 1] {
        let world = World::new().await;
        let owner = place.event_of("member.joined", owner.clone());
        take(&world, &[place.opened(), owner, place.created()]).await;
        place.subscribe(&world).await;
        for reports in batch.chunks(cuts) {
            take(&world, reports).await;
        }
        world.cancel().await;
        world.project().await;
        let removed: (String, String, i64) = sqlx::query_as(
            "select removal_reason, cancel_cause, (select count(*) from deliveries)
               from hooks join lanes on lane_id = hook_id",
        )
        .fetch_one(world.pool())
        .await
        .unwrap();
        let expected = ("firm_closed".to_owned(), "firm_closed".to_owned(), 0);
        assert_eq!(removed, expected, "{cuts} at once");
    }
}
