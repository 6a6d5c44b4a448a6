//! One firm, one form and one key, the same in every example. Tests hold them against the schemas.

use domain::form::FormStatus;
use domain::subscription::Trigger;
use domain::values::Timestamp;
use inviter::InviteSkip;
use serde_json::{Value, json};

use crate::sample;

/// The form of the examples.
pub(in crate::openapi) const FORM_ID: &str = "90dcbdc2-3c31-4023-9b9a-6bc2e58a2240";
/// The subscription of the examples.
pub(in crate::openapi) const HOOK_ID: &str = "3f1f9c1e-6b0a-4d4e-9a70-5f0f5f6f2c11";
/// The time of the examples.
pub(in crate::openapi) const TIME: &str = "2026-11-01T09:30:00.000Z";

const FORM_URL: &str = "https://forms.example.com/harrow-lane/new-client-enquiry";
const FILLED_IN: &str = "?lang=fr&partner=Northwind&utm_source=newsletter";
const EMAIL_ID: &str = "c5ef0a4b-8f0c-5c36-9d0f-2a1f4f1b7d10";

pub(in crate::openapi) fn me() -> Value {
    json!({
        "firm": {"id": "d6e48e62-3956-4fb4-b8a6-0d2764b65885", "name": "Harrow Lane Accountants"},
        "key": {"id": "6a0f5d0e-2f52-4c39-8d6c-0f3b6f1c7a52", "name": "Zapier",
                "prefix": "ffk_iKHaOmdX"},
    })
}

pub(in crate::openapi) fn trigger() -> Value {
    let trigger = Trigger::FormSubmitted;
    json!({
        "key": trigger.key(),
        "label": trigger.label(),
        "hint": trigger.hint(),
        "sample_url": format!("https://forms.example.com/api/v1/triggers/{trigger}/sample"),
    })
}

pub(in crate::openapi) fn form() -> Value {
    json!({
        "id": FORM_ID,
        "title": "New client enquiry",
        "status": FormStatus::Published.name(),
        "created_at": TIME,
        "slug": "new-client-enquiry",
        "url": FORM_URL,
        "hidden_fields": [{"key": "partner", "label": "Partner"}],
    })
}

pub(in crate::openapi) fn hook() -> Value {
    json!({
        "id": HOOK_ID,
        "trigger": Trigger::FormSubmitted.key(),
        "target_url": "https://hooks.example.com/catch",
        "form_id": null,
        "created_at": TIME,
    })
}

pub(in crate::openapi) fn link() -> Value {
    json!({
        "url": format!("{FORM_URL}{FILLED_IN}"),
        "form_id": FORM_ID,
        "published": true,
        "hidden": {"partner": "Northwind", "utm_source": "newsletter"},
        "ignored": [],
    })
}

pub(in crate::openapi) fn sent() -> Value {
    json!({"ok": true, "status": "sent", "email_id": EMAIL_ID, "url": FORM_URL, "ignored": []})
}

pub(in crate::openapi) fn skipped() -> Value {
    let reason = InviteSkip::AlreadySentToday.reason();
    json!({"ok": true, "status": "skipped", "reason": reason, "url": FORM_URL, "ignored": []})
}

/// A made-up event of a trigger, as the service makes it.
pub(in crate::openapi) fn event(trigger: Trigger) -> Value {
    let payload = TIME.parse().map(|time: Timestamp| sample::made_up(trigger, None, time));
    json!(payload.ok())
}
