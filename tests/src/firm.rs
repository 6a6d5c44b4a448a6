//! Calls that a firm makes with its key, and the making and revoking of its keys.

use std::fmt::Display;

use api::commands::keys::{self, CreatedKey};
use domain::event::Actor;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::activity::activity;
use crate::answer::Answer;
use crate::world::World;

/// A firm with an owner, a published form and a key.
#[derive(Debug, Clone)]
pub struct Firm {
    /// The firm.
    pub id: Uuid,
    /// Its owner.
    pub owner: Uuid,
    /// Its form.
    pub form: Uuid,
    /// The id of its key.
    pub key_id: Uuid,
    /// The key.
    pub key: String,
}

impl World {
    /// A firm with an owner, a published form and a key.
    pub async fn firm(&self) -> Firm {
        let id = self.id();
        let owner = self.id();
        let form = self.id();
        let answer = self
            .report(&[
                activity(
                    id,
                    "firm.opened",
                    json!({"name": "Harrow Lane", "plan": {"leads_in_full": true}}),
                ),
                activity(id, "member.joined", json!({"member_id": owner, "role": "owner"})),
                activity(id, "form.created", form_data(form)),
            ])
            .await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        let key = keys::create(self.service(), id, owner, "Zapier").await.unwrap();
        Firm { id, owner, form, key_id: key.id, key: key.key.as_str().to_owned() }
    }

    /// Reads from the public door with the firm's key.
    pub async fn get(&self, firm: &Firm, path: &str) -> Answer {
        self.call(&firm.key, "GET", path, Value::Null).await
    }

    /// Subscribes a target to `form_submitted`; returns the subscription's id.
    pub async fn subscribe(&self, firm: &Firm, target_url: &str) -> Uuid {
        let body = json!({"target_url": target_url, "trigger": "form_submitted"});
        let answer = self.call(&firm.key, "POST", "/hooks", body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body["id"].as_str().unwrap().parse().unwrap()
    }

    /// Makes a subscription of this body with the firm's key.
    pub async fn create_hook(&self, firm: &Firm, hook: Value) -> Answer {
        self.call(&firm.key, "POST", "/hooks", hook).await
    }

    /// Removes a subscription with the firm's key.
    pub async fn remove_hook(&self, firm: &Firm, hook_id: impl Display) -> Answer {
        self.call(&firm.key, "DELETE", &format!("/hooks/{hook_id}"), Value::Null).await
    }

    /// Sends an invite to the firm's form.
    pub async fn send_invite(&self, firm: &Firm, invite: Value) -> Answer {
        self.call(&firm.key, "POST", &format!("/forms/{}/send", firm.form), invite).await
    }

    /// Makes another key of the firm's owner.
    pub async fn new_key(&self, firm: &Firm, name: &str) -> CreatedKey {
        keys::create(self.service(), firm.id, firm.owner, name).await.unwrap()
    }

    /// Revokes a key of the firm; the number of subscriptions that were removed with it.
    pub async fn revoke_key(&self, firm: &Firm, key_id: Uuid) -> usize {
        keys::revoke(self.service(), firm.id, key_id, Actor::System).await.unwrap()
    }
}

fn form_data(form_id: Uuid) -> Value {
    json!({
        "form_id": form_id, "title": "New client enquiry", "slug": "enquiry",
        "url": "https://forms.test/f/enquiry", "status": "published",
        "hidden_fields": [{"key": "partner", "label": "Partner"}],
        "created_at": "2026-10-01T09:30:00.000Z",
    })
}
