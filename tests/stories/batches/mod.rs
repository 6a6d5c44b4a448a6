//! A batch is one piece of work: the number of its statements does not depend on its size. Its
//! result is the result of its activities one by one.

mod singly;
mod statements;

use api::commands::keys;
use domain::event::Actor;
use domain::subscription::{Subscription, SubscriptionCommand, Trigger};
use serde_json::{Value, json};
use tests::{World, activity, later};
use uuid::Uuid;

/// Takes a batch in and returns how many of its activities changed something.
async fn take(world: &World, events: &[Value]) -> u64 {
    let answer = world.report(events).await.ok();
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

    fn event_of(self, kind: &str, data: Value) -> Value {
        activity(self.firm(), kind, data)
    }

    fn of_member(self, kind: &str) -> Value {
        self.event_of(kind, json!({"member_id": self.member()}))
    }

    fn of_form(self, kind: &str) -> Value {
        self.event_of(kind, json!({"form_id": self.form()}))
    }

    fn opened(self) -> Value {
        let brand = json!({"color": "#123456", "reply_to": "hello@example.com"});
        self.event_of(
            "firm.opened",
            json!({"name": "F", "plan": {"leads_in_full": true}, "brand": brand}),
        )
    }

    fn joined(self) -> Value {
        self.event_of("member.joined", json!({"member_id": self.member(), "role": "admin"}))
    }

    fn created(self) -> Value {
        let data = json!({
            "form_id": self.form(), "title": "Intake", "slug": "intake",
            "url": "https://forms.test/f/intake", "status": "draft",
            "hidden_fields": [{"key": "partner", "label": "Partner"}],
            "created_at": "2026-10-01T00:00:00Z",
        });
        self.event_of("form.created", data)
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
