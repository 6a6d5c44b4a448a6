//! Schemas of answers.

use domain::form::FormStatus;
use domain::subscription::Trigger;
use inviter::InviteSkip;
use serde_json::{Map, Value, json};

use super::super::operation::array_of;
use super::build::{as_here, named, object, open_text, text, uri};

pub(super) fn all() -> Map<String, Value> {
    named([
        ("Me", me()),
        ("Trigger", trigger()),
        ("Form", form()),
        ("HiddenField", hidden_field()),
        ("Hook", hook()),
        ("Removed", removed()),
        ("PrefilledLink", prefilled_link()),
        ("FormInvite", form_invite()),
    ])
}

fn me() -> Value {
    let firm = json!({"id": as_here("Id", "The firm."), "name": text("Its name.")});
    let key = json!({
        "id": as_here("Id", "The key."),
        "name": text("The label given to it."),
        "prefix": text("Its first characters, to tell keys apart."),
    });
    let properties = json!({
        "firm": object("The firm the key belongs to.", &[], firm),
        "key": object("The key of this call.", &[], key),
    });
    object("Which firm and key it is.", &[], properties)
}

/// The key of a trigger as any text, because new triggers can come.
fn trigger_key(description: &str) -> Value {
    open_text(description, &Trigger::ALL.map(Trigger::key))
}

fn trigger() -> Value {
    let properties = json!({
        "key": trigger_key("What `POST /hooks` takes as `trigger`."),
        "label": text("Its name for a person."),
        "hint": text("When it runs."),
        "sample_url": uri("Where a sample of its event is."),
    });
    object("What a subscription can listen to.", &[], properties)
}

fn form() -> Value {
    let statuses = [FormStatus::Draft, FormStatus::Published].map(FormStatus::name);
    let mut hidden_fields = array_of("HiddenField");
    hidden_fields["description"] = json!("The hidden fields that the form's link accepts.");
    let properties = json!({
        "id": as_here("Id", "The form."),
        "title": text("Its title."),
        "status": open_text("Whether it is open to the public.", &statuses),
        "created_at": as_here("Timestamp", "When it was made."),
        "slug": text("Its short name."),
        "url": uri("Its public address."),
        "hidden_fields": hidden_fields,
    });
    object("A form of the firm.", &[], properties)
}

fn hidden_field() -> Value {
    let properties =
        json!({"key": text("Its name in the link."), "label": text("What people read.")});
    object("A hidden field of a form.", &[], properties)
}

fn hook() -> Value {
    let form_id = json!({
        "type": ["string", "null"],
        "format": "uuid",
        "description": "The form whose events are sent; null means all forms.",
    });
    let properties = json!({
        "id": as_here("Id", "The subscription; it unsubscribes."),
        "trigger": trigger_key("What it listens to."),
        "target_url": text("Where events are sent, exactly as it was asked for."),
        "form_id": form_id,
        "created_at": as_here("Timestamp", "When it was made."),
    });
    object("A REST-hook subscription, seen and deleted with the key that made it.", &[], properties)
}

fn removed() -> Value {
    object("That it was done.", &[], json!({"ok": {"type": "boolean", "const": true}}))
}

fn ignored() -> Value {
    json!({
        "type": "array",
        "items": {"type": "string"},
        "description": "The keys of `hidden` that the form does not take.",
    })
}

fn prefilled_link() -> Value {
    let hidden = json!({
        "type": "object",
        "additionalProperties": {"type": "string", "maxLength": domain::form::HIDDEN_VALUE_MAX},
        "description": "The hidden values that were kept, as text.",
    });
    let properties = json!({
        "url": uri("The form's address with the kept values and the language."),
        "form_id": as_here("Id", "The form."),
        "published": {"type": "boolean", "description": "Whether the form is published."},
        "hidden": hidden,
        "ignored": ignored(),
    });
    object("A link to a form. It is not stored.", &[], properties)
}

fn form_invite() -> Value {
    let reasons = [
        InviteSkip::Unsubscribed,
        InviteSkip::Bounced,
        InviteSkip::SwitchedOff,
        InviteSkip::AlreadySentToday,
    ]
    .map(InviteSkip::reason);
    let properties = json!({
        "ok": {"type": "boolean", "const": true},
        "status": {"type": "string", "enum": ["sent", "skipped"],
                   "description": "Whether the mail was sent."},
        "reason": open_text("Why it was skipped; only then.", &reasons),
        "email_id": as_here("Id", "The mail; only when it was sent."),
        "url": uri("The link in the mail, with the kept hidden values."),
        "ignored": ignored(),
    });
    let about =
        "What became of an invite. `sent` comes with an `email_id`, `skipped` with a `reason`.";
    object(about, &["reason", "email_id"], properties)
}
