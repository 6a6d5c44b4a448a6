//! The content of an event that may be shown: all of it but personal data, targets' paths and
//! queries, and texts about people. The audit log leaves out the same.

use serde_json::{Map, Value, json};

use super::all::Event;
use crate::delivery::workflow::StepOrder;
use crate::delivery::{DeliveryEvent, RetriedStep};
use crate::firm::FirmEvent;
use crate::form::FormEvent;
use crate::subscription::{SubscriptionEvent, shown_target};

/// The content of an event, as far as it may be shown.
#[must_use]
pub fn event_facts(event: &Event) -> Value {
    let mut facts = event_content(event);
    match event {
        Event::Firm(FirmEvent::FirmOpened { .. } | FirmEvent::FirmChanged { .. }) => {
            only_whether(&mut facts, &["name", "brand"]);
        }
        Event::Form(FormEvent::FormCreated { .. }) => {
            only_whether(&mut facts["details"], &["title", "slug", "url", "hidden_fields"]);
        }
        Event::Form(FormEvent::FormChanged { .. }) => {
            only_whether(&mut facts["edit"], &["title", "slug", "url", "hidden_fields"]);
        }
        Event::Subscription(SubscriptionEvent::SubscriptionCreated { target_url, .. }) => {
            facts["target_url"] = shown_target(target_url).into();
        }
        Event::Delivery(DeliveryEvent::StepQueued(order)) => mask_target(&mut facts, order),
        Event::Delivery(DeliveryEvent::StepRetried(RetriedStep { order, .. })) => {
            mask_target(&mut facts["order"], order);
        }
        _ => {}
    }
    facts
}

/// The fields of the event.
fn event_content(event: &Event) -> Value {
    let whole = serde_json::to_value(event).unwrap_or_default();
    let only = |fields: Map<String, Value>| fields.into_iter().next().map(|(_, fields)| fields);
    match whole {
        Value::Object(fields) => only(fields).unwrap_or_else(|| json!({})),
        _ => json!({}),
    }
}

/// Replaces each of these values by whether there is one.
fn only_whether(facts: &mut Value, fields: &[&str]) {
    let Some(facts) = facts.as_object_mut() else { return };
    for field in fields {
        if let Some(value) = facts.get_mut(*field) {
            *value = (!value.is_null()).into();
        }
    }
}

fn mask_target(facts: &mut Value, order: &StepOrder) {
    facts["target"] = order.target.shown().into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::workflow::{StepMethod, StepName, StepTarget};
    use crate::form::FormEdit;
    use crate::subscription::{TargetShown, Trigger};
    use crate::values::Timestamp;
    use uuid::Uuid;

    fn time() -> Timestamp {
        "2026-11-01T12:00:00.000Z".parse().unwrap()
    }

    /// Only a change of a name or title is told.
    #[test]
    fn names_and_titles_are_left_out() {
        let edit = FormEdit { title: Some("Divorce".into()), ..FormEdit::default() };
        let changed = event_facts(&FormEvent::FormChanged { edit, time: time() }.into());
        assert_eq!(changed["edit"]["title"], true);
        assert_eq!(
            (&changed["edit"]["slug"], &changed["edit"]["status"]),
            (&json!(false), &Value::Null)
        );
        let firm = FirmEvent::FirmChanged {
            name: Some("Harrow Lane".into()),
            plan: None,
            brand: None,
            invites_enabled: Some(false),
            time: time(),
        };
        let firm = event_facts(&firm.into());
        assert_eq!((&firm["name"], &firm["invites_enabled"]), (&json!(true), &json!(false)));
    }

    #[test]
    fn targets_are_masked() {
        let url = "https://hooks.example.com/in?token=secret".to_owned();
        let created = SubscriptionEvent::SubscriptionCreated {
            key_id: Uuid::from_u128(1),
            trigger: Trigger::LeadHot,
            target_url: url.clone(),
            form_id: None,
            target_shown: TargetShown::Origin,
        };
        assert_eq!(event_facts(&created.into())["target_url"], "https://hooks.example.com/…");
        let step = StepName { run_id: Uuid::from_u128(1), step_id: Uuid::from_u128(2) };
        let order = StepOrder {
            step,
            trigger: Trigger::LeadHot,
            form_id: Uuid::from_u128(3),
            response_id: Uuid::from_u128(4),
            method: StepMethod::Post,
            target: StepTarget::InLog { url },
            extra_headers: 0,
            test: false,
        };
        let queued = event_facts(&DeliveryEvent::StepQueued(order).into());
        assert!(!queued.to_string().contains("secret"), "{queued}");
        assert_eq!(queued["step"]["run_id"], Uuid::from_u128(1).to_string());
    }
}
