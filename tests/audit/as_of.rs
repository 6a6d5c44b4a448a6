//! Subscriptions and deliveries as they were at a position or an instant, from the log alone.

use std::time::Duration;

use api::commands::tokens::HolderRole;
use serde_json::{Value, json};
use tests::{Answer, Firm, Receiver, Reply, World};
use uuid::Uuid;

use tests::process::firmforms;

/// A world with an operator, a firm and its receiver.
struct Scene {
    world: World,
    firm: Firm,
    receiver: Receiver,
    hook: Uuid,
    token: String,
}

/// The answers shown at one position and one instant.
struct Moment {
    position: i64,
    at: String,
    shown: Vec<(String, Value)>,
}

impl Scene {
    async fn new() -> Self {
        let world = World::new().await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        let hook = world.subscribe(&firm, &receiver.url("/?key=secret")).await;
        let token = world.new_token(HolderRole::Operator).await;
        Self { world, firm, receiver, hook, token }
    }

    async fn get(&self, path: &str) -> Answer {
        let path = format!("/firms/{}/{path}", self.firm.id);
        self.world.get_internally(&self.token, &path).await
    }

    /// Draws positions that nothing is recorded at.
    async fn burn(&self, positions: i32) {
        let draw = format!(
            "select count(nextval('events_position_seq')) from generate_series(1, {positions})"
        );
        assert_eq!(self.world.ask_number(&draw).await, i64::from(positions));
    }

    /// Everything that is shown now; then time goes on.
    async fn moment(&self) -> Moment {
        let mut paths: Vec<String> =
            ["hooks", "hooks?removed=true", "hooks?warned=true", "deliveries?limit=500"]
                .map(str::to_owned)
                .into();
        paths.extend(self.world.delivery_ids().await.iter().map(|id| format!("deliveries/{id}")));
        let mut shown = Vec::new();
        for path in paths {
            let answer = self.get(&path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            shown.push((path, answer.body));
        }
        let moment = Moment {
            position: self.world.last_position().await,
            at: self.world.clock.now().to_string(),
            shown,
        };
        self.world.pass(Duration::from_secs(1));
        moment
    }

    /// A delivery that is answered so.
    async fn deliver(&self, status: u16) {
        self.receiver.reply([Reply::status(status).body(b"an answer")]);
        self.world.submit(&self.firm).await;
        self.world.deliver().await;
    }

    /// A story, and each of its moments.
    async fn told(&self) -> Vec<Moment> {
        let mut moments = vec![self.moment().await];
        self.deliver(500).await;
        moments.push(self.moment().await);
        self.world.pass(Duration::from_secs(60));
        self.world.deliver().await;
        moments.push(self.moment().await);
        for status in [400, 410] {
            self.deliver(status).await;
            moments.push(self.moment().await);
        }
        self.world.submit(&self.firm).await;
        self.world.project().await;
        moments.push(self.moment().await);
        self.receiver.reply([Reply::status(410)]);
        self.world.deliver().await;
        moments.push(self.moment().await);
        let other = self.world.subscribe(&self.firm, &self.receiver.url("/other")).await;
        self.world.submit(&self.firm).await;
        self.world.remove_hook(&self.firm, other).await.ok();
        self.world.deliver().await;
        moments.push(self.moment().await);
        moments
    }
}

/// Without the property that only a look back has.
fn without_erased(mut shown: Value) -> Value {
    let without = |one: &mut Value| one.as_object_mut().and_then(|one| one.remove("erased"));
    match shown.get_mut("items").and_then(Value::as_array_mut) {
        Some(items) => items.iter_mut().for_each(|item| drop(without(item))),
        None => drop(without(&mut shown)),
    }
    shown
}

fn and(path: &str, as_of: &str) -> String {
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sign}as_of={as_of}")
}

/// Each former answer comes again as of its position and as of its instant. The read models have
/// lost everything but their ids by then.
#[tokio::test]
async fn a_look_back_repeats_the_former_answers() {
    let scene = Scene::new().await;
    let moments = scene.told().await;
    let forgotten = "update deliveries set state = 'pending', cause = null, next_try_at = null,
                            body_sha256 = null, ended_at = null;
                     update hooks set removed_at = null, removed_position = null,
                            removal_reason = null";
    scene.world.change_database(forgotten).await;
    for (place, moment) in moments.iter().enumerate() {
        for as_of in [moment.position.to_string(), moment.at.clone()] {
            for (path, shown) in &moment.shown {
                let answer = scene.get(&and(path, &as_of)).await;
                assert_eq!(answer.status, 200, "{place}, {path}: {}", answer.body);
                let then = without_erased(answer.body);
                assert_eq!(&then, shown, "moment {place} as of {as_of}: {path}");
            }
        }
    }
}

/// The history of a subscription ends where it is asked to.
#[tokio::test]
async fn a_history_ends_at_the_asked_position() {
    let scene = Scene::new().await;
    let before = scene.world.last_position().await - 1;
    let moments = scene.told().await;
    let path = format!("hooks/{}/history", scene.hook);
    let mut states = Vec::new();
    for moment in &moments {
        let told = scene.get(&and(&path, &moment.position.to_string())).await.body;
        let entries = told["entries"].as_array().unwrap().len();
        states.push((told["state"].as_str().unwrap().to_owned(), entries));
        assert_eq!(told["removal"]["cancelled"], Value::Null);
    }
    let state = |name: &str, entries| (name.to_owned(), entries);
    assert_eq!(states[..4], vec![state("live", 1); 4]);
    assert_eq!(states[4..6], vec![state("warned", 2); 2]);
    assert_eq!(states[6..], vec![state("removed", 4); 2]);
    assert_eq!(scene.get(&and(&path, &(before - 10).max(1).to_string())).await.status, 404);
    assert_eq!(scene.get(&path).await.body["removal"]["cancelled"], 0);
}

/// An erased response shows as erased, also as of a time before its erasure.
#[tokio::test]
async fn a_look_back_reveals_nothing_erased() {
    let scene = Scene::new().await;
    let response_id = scene.world.submit(&scene.firm).await;
    scene.receiver.reply([Reply::status(400).body(b"an answer")]);
    scene.world.deliver().await;
    let position = scene.world.last_position().await;
    let id = scene.world.first_delivery_id().await;
    let (one, all) = (
        format!("{}&show_answer=a+fault", and(&format!("deliveries/{id}"), &position.to_string())),
        and("deliveries", &position.to_string()),
    );
    let shown = scene.get(&one).await.body;
    assert_eq!(
        (&shown["erased"], &shown["attempts"][0]["answer"]),
        (&json!(false), &json!("an answer"))
    );
    scene.world.order_erasure(&scene.firm, response_id).await;
    scene.world.erase().await;
    let shown = scene.get(&one).await.body;
    assert_eq!((&shown["erased"], &shown["attempts"][0]["answer"]), (&json!(true), &Value::Null));
    assert_eq!(scene.get(&all).await.body["items"][0]["erased"], true);
}

/// The read model has not followed that far, but the log has the deliveries. They are more than one
/// reading of the log takes.
#[tokio::test]
async fn a_look_back_finds_unfollowed_deliveries() {
    let scene = Scene::new().await;
    scene.deliver(200).await;
    let submitted = |_| tests::submitted(&scene.firm, scene.world.id());
    let many: Vec<Value> = (0..450).map(submitted).collect();
    scene.world.report(&many).await.ok();
    let position = scene.world.last_position().await.to_string();
    let listed = scene.get(&and("deliveries?limit=500", &position)).await.body;
    let states: Vec<&str> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["state"].as_str().unwrap())
        .collect();
    assert_eq!(states.len(), 451);
    assert_eq!(states.iter().filter(|state| **state == "delivered").count(), 1);
    let few = scene.get(&and("deliveries?limit=3", &position)).await.body;
    assert_eq!(few["items"].as_array().unwrap()[..], listed["items"].as_array().unwrap()[..3]);
    // To show one delivery, no read model is asked.
    scene.world.change_database("delete from deliveries").await;
    for state in ["pending", "delivered"] {
        let mut items = listed["items"].as_array().unwrap().iter();
        let one = items.find(|one| one["state"] == state).unwrap()["id"].as_str().unwrap();
        let shown = scene.get(&format!("deliveries/{one}")).await;
        assert_eq!(shown.body["state"], state, "{}", shown.text());
    }
}

/// A batch that was rolled back leaves a hole of any width in the positions.
#[tokio::test]
async fn a_position_in_a_hole_is_answered() {
    let scene = Scene::new().await;
    scene.deliver(200).await;
    let before = scene.world.last_position().await;
    scene.burn(2_000).await;
    scene.deliver(200).await;
    let listed = scene.get(&and("deliveries", &(before + 1_500).to_string())).await;
    assert_eq!(listed.status, 200, "{}", listed.text());
    assert_eq!(listed.body["items"].as_array().unwrap().len(), 1);
}

/// Deliveries are listed by position: the older ones have later times than the next.
#[tokio::test]
async fn a_clock_set_back_hides_no_delivery() {
    let scene = Scene::new().await;
    scene.deliver(200).await;
    let forward = "begin; set local session_replication_role = replica;
                   update events set recorded_at = recorded_at + interval '2 days'
                    where aggregate_type = 'Delivery';
                   update deliveries set created_at = created_at + interval '2 days'; commit";
    scene.world.change_database(forward).await;
    let first = scene.world.last_position().await;
    scene.burn(2_000).await;
    scene.deliver(200).await;
    for (position, deliveries) in [(scene.world.last_position().await, 2), (first, 1)] {
        let listed = scene.get(&and("deliveries", &position.to_string())).await;
        assert_eq!(listed.body["items"].as_array().unwrap().len(), deliveries, "{position}");
    }
}

/// The log knows no future. A position or a time that is malformed is refused, too.
#[tokio::test]
async fn future_and_malformed_times_are_refused() {
    let scene = Scene::new().await;
    scene.deliver(200).await;
    let id = scene.world.first_delivery_id().await;
    let end = scene.world.last_position().await;
    let (hook, one) = (format!("hooks/{}/history", scene.hook), format!("deliveries/{id}"));
    for path in ["hooks", &hook, "deliveries", &one] {
        for wrong in ["9999", "0", "-1", "yesterday", "2099-01-01T00:00:00Z", "2026-11-01", ""] {
            let answer = scene.get(&and(path, wrong)).await;
            assert_eq!(answer.code(), (400, "invalid_request"), "{path} as of {wrong}");
        }
    }
    let beyond = scene.get("deliveries?as_of=9999").await;
    assert!(beyond.text().contains("beyond the end of the log, which is at"), "{}", beyond.text());
    scene.get(&and(&one, "1")).await.refused(404, "delivery_not_found");
    assert_eq!(scene.get(&and(&one, &end.to_string())).await.status, 200);
    let other = Scene { firm: scene.world.firm().await, ..scene };
    other.get(&and(&one, &end.to_string())).await.refused(404, "delivery_not_found");
}

/// `--as-of` at the terminal looks back as the internal door does.
#[tokio::test]
async fn operators_look_back_at_the_terminal() {
    let scene = Scene::new().await;
    let made = scene.world.last_position().await.to_string();
    scene.deliver(500).await;
    let tried = scene.world.last_position().await.to_string();
    scene.world.pass(Duration::from_secs(60));
    scene.world.deliver().await;
    scene.world.remove_hook(&scene.firm, scene.hook).await.ok();
    let firm = scene.firm.id.to_string();
    let id = scene.world.first_delivery_id().await.to_string();
    let ask = async |arguments: &[&str]| {
        let mut command = firmforms(&scene.world.database);
        let output = command.args(arguments).args(["--firm", &firm]).output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, hooks, error) = ask(&["hooks", "list", "--as-of", &made, "--json"]).await;
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let hooks: Value = serde_json::from_str(&hooks).unwrap();
    assert_eq!((&hooks[0]["id"], &hooks[0]["removed_at"]), (&json!(scene.hook), &Value::Null));
    let none = ask(&["deliveries", "list", "--as-of", &made, "--json"]).await;
    assert_eq!(none.1.trim(), "[]");
    let listed = ask(&["deliveries", "list", "--as-of", &tried]).await;
    assert!(listed.1.contains("\tpending\tform_submitted\t"), "{}", listed.1);
    let shown = ask(&["deliveries", "show", &id, "--as-of", &tried, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown.1).unwrap();
    assert_eq!(
        (shown["state"].as_str(), shown["attempts"].as_array().unwrap().len()),
        (Some("pending"), 1)
    );
    assert_eq!(shown["erased"], false);
    for (wrong, code) in [("99999", 1), ("nonsense", 2)] {
        let (found, _, error) = ask(&["deliveries", "list", "--as-of", wrong]).await;
        assert_eq!(found, Some(code), "{error}");
        assert!(!error.is_empty());
    }
}
