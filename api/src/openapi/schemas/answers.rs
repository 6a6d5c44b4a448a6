//! Schemas of answers.

use domain::form::FormStatus;
use domain::subscription::Trigger;
use inviter::InviteSkip;
use serde_json::{Map, Value, json};

use super::super::operation::array_of;
use super::build::{as_here, named_schemas, object_schema, open_text, text_schema, uri_schema};

pub(super) fn all() -> Map<String, Value> {
    named_schemas([
        ("Me", me_schema()),
        ("Trigger", trigger_schema()),
        ("Form", form_schema()),
        ("HiddenField", hidden_field()),
        ("Hook", hook_schema()),
        ("Removed", removed_schema()),
        ("PrefilledLink", prefilled_link()),
        ("FormInvite", form_invite()),
    ])
}

fn me_schema() -> Value {
    let firm = json!({"id": as_here("Id", "The firm."), "name": text_schema("Its name.")});
    let key = json!({
        "id": as_here("Id", "The key."),
        "name": text_schema("The label given to it."),
        "prefix": text_schema("Its first characters, to tell keys apart."),
    });
    let properties = json!({
        "firm": object_schema("The firm the key belongs to.", &[], firm),
        "key": object_schema("The key of this call.", &[], key),
    });
    object_schema("Which firm and key it is.", &[], properties)
}

/// The key of a trigger as any text, because new triggers can come.
fn trigger_key(description: &str) -> Value {
    open_text(description, &Trigger::ALL.map(Trigger::key))
}

fn trigger_schema() -> Value {
    let properties = json!({
        "key": trigger_key("What `POST /hooks` takes as `trigger`."),
        "label": text_schema("Its name for a person."),
        "hint": text_schema("When it runs."),
        "sample_url": uri_schema("Where a sample of its event is."),
    });
    object_schema("What a subscription can listen to.", &[], properties)
}

fn form_schema() -> Value {
    let statuses = [FormStatus::Draft, FormStatus::Published].map(FormStatus::name);
    let mut hidden_fields = array_of("HiddenField");
    hidden_fields["description"] = json!("The hidden fields that the form's link accepts.");
    let properties = json!({
        "id": as_here("Id", "The form."),
        "title": text_schema("Its title."),
        "status": open_text("Whether it is open to the public.", &statuses),
        "created_at": as_here("Timestamp", "When it was made."),
        "slug": text_schema("Its short name."),
        "url": uri_schema("Its public address."),
        "hidden_fields": hidden_fields,
    });
    object_schema("A form of the firm.", &[], properties)
}

fn hidden_field() -> Value {
    let properties = json!({"key": text_schema("Its name in the link."), "label": text_schema("What people read.")});
    object_schema("A hidden field of a form.", &[], properties)
}

fn hook_schema() -> Value {
    let form_id = json!({
        "type": ["string", "null"],
        "format": "uuid",
        "description": "The form whose events are sent; null means all forms.",
    });
    let properties = json!({
        "id": as_here("Id", "The subscription; it unsubscribes."),
        "trigger": trigger_key("What it listens to."),
        "target_url": text_schema("Where events are sent, exactly as it was asked for."),
        "form_id": form_id,
        "created_at": as_here("Timestamp", "When it was made."),
    });
    object_schema(
        "A REST-hook subscription, seen and deleted with the key that made it.",
        &[],
        properties,
    )
}

fn removed_schema() -> Value {
    object_schema("That it was done.", &[], json!({"ok": {"type": "boolean", "const": true}}))
}

fn ignored_schema() -> Value {
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
        "url": uri_schema("The form's address with the kept values and the language."),
        "form_id": as_here("Id", "The form."),
        "published": {"type": "boolean", "description": "Whether the form is published."},
        "hidden": hidden,
        "ignored": ignored_schema(),
    });
    object_schema("A link to a form. It is not stored.", &[], properties)
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
        "url": uri_schema("The link in the mail, with the kept hidden values."),
        "ignored": ignored_schema(),
    });
    let about =
        "What became of an invite. `sent` comes with an `email_id`, `skipped` with a `reason`.";
    object_schema(about, &["reason", "email_id"], properties)
}
