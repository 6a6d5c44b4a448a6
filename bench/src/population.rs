//! Many firms, with a key and subscriptions each, made in batches: firms are reported at the
//! internal door, keys and subscriptions are appended as their commands would decide, so that all
//! tables that follow are as the service makes them.

use anyhow::ensure;
use domain::access::{ApiKey, KeyEvent};
use domain::event::Actor;
use domain::subscription::{SubscriptionEvent, TargetShown, Trigger};
use eventstore::NewEvent;
use serde_json::{Value, json};
use tests::{Firm, World, activity};
use vault::{Entropy, SystemEntropy};

/// Firms of a batch: of each three reports, and the door takes 1,000 at a time.
const BATCH: usize = 300;

/// Subscriptions of an append.
const HOOKS_AT_ONCE: usize = 1_000;

/// How many, and to where the subscription of this number, of all of them, goes.
pub(crate) struct Population<'a> {
    pub(crate) firms: usize,
    pub(crate) hooks: usize,
    pub(crate) target: &'a dyn Fn(usize) -> String,
}

impl Population<'_> {
    pub(crate) async fn make(&self, world: &World) -> anyhow::Result<Vec<Firm>> {
        let mut firms = Vec::with_capacity(self.firms);
        while firms.len() < self.firms {
            let count = BATCH.min(self.firms - firms.len());
            firms.extend(opened(world, count).await?);
        }
        let place = |number: usize| (&firms[number / self.hooks.max(1)], (self.target)(number));
        let all: Vec<usize> = (0..firms.len() * self.hooks).collect();
        for numbers in all.chunks(HOOKS_AT_ONCE) {
            let hooks = numbers.iter().map(|number| hook(world, place(*number))).collect();
            world.service().store.append(hooks).await?;
        }
        Ok(firms)
    }
}

async fn opened(world: &World, count: usize) -> anyhow::Result<Vec<Firm>> {
    let (firms, keys): (Vec<Firm>, Vec<NewEvent>) = (0..count).map(|_| firm(world)).unzip();
    let reports: Vec<Value> = firms.iter().flat_map(reports).collect();
    let answer = world.report(&reports).await;
    ensure!(answer.status == 202, "firms were refused: {}", answer.body);
    world.service().store.append(keys).await?;
    Ok(firms)
}

/// A firm, and its key's making.
fn firm(world: &World) -> (Firm, NewEvent) {
    let key = ApiKey::from_bytes(SystemEntropy.new_secret());
    let firm = Firm {
        id: world.id(),
        owner: world.id(),
        form: world.id(),
        key_id: world.id(),
        key: key.as_str().to_owned(),
    };
    let made = KeyEvent::KeyCreated {
        member_id: firm.owner,
        name: "Bench".to_owned(),
        prefix: key.prefix().to_owned(),
        sha256: key.hash().iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let made = NewEvent {
        aggregate_id: firm.key_id.to_string(),
        sequence: 1,
        event: made.into(),
        context: world.service().context(firm.id, Actor::Member(firm.owner)),
    };
    (firm, made)
}

fn reports(firm: &Firm) -> [Value; 3] {
    let form = json!({
        "form_id": firm.form, "title": "New client enquiry", "slug": "enquiry",
        "url": "https://forms.test/f/enquiry", "status": "published", "hidden_fields": [],
        "created_at": "2026-10-01T09:30:00.000Z",
    });
    [
        activity(
            firm.id,
            "firm.opened",
            json!({"name": "Harrow Lane", "plan": {"leads_in_full": true}}),
        ),
        activity(firm.id, "member.joined", json!({"member_id": firm.owner, "role": "owner"})),
        activity(firm.id, "form.created", form),
    ]
}

fn hook(world: &World, (firm, target_url): (&Firm, String)) -> NewEvent {
    let made = SubscriptionEvent::SubscriptionCreated {
        key_id: firm.key_id,
        trigger: Trigger::FormSubmitted,
        target_url,
        form_id: None,
        target_shown: TargetShown::Origin,
    };
    NewEvent {
        aggregate_id: world.id().to_string(),
        sequence: 1,
        event: made.into(),
        context: world.service().context(firm.id, Actor::Key(firm.key_id)),
    }
}
