//! `hooks why`, `keys why` and `deliveries why`: the chain of causes, as sentences.

use api::Service;
use api::commands::readings;
use api::commands::targets::{self, TargetReveal};
use api::queries::history;
use clap::Args;
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use serde_json::{Value, json};

use super::{list_field, text_field};
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, RecordView, ReportArgs, print_json, print_line};
use crate::shared_args::{KnownArchiveArgs, TargetRevealArgs};

const HOOK: RecordView = RecordView::new(&[
    Column::id("id"),
    Column::state("state"),
    Column::id("trigger"),
    Column::text("target"),
    Column::text("key"),
    Column::time("created_at"),
    Column::time("removed_at"),
    Column::id("reason"),
    Column::id("by"),
    Column::number("delivered_between"),
    Column::text("cancelled_deliveries"),
    Column::time("archived_before"),
]);

const KEY: RecordView = RecordView::new(&[
    Column::id("id"),
    Column::state("state"),
    Column::text("name"),
    Column::id("prefix"),
    Column::id("member_id"),
    Column::text("hooks_removed"),
    Column::text("cancelled_deliveries"),
    Column::time("archived_before"),
]);

const DELIVERY: RecordView = RecordView::new(&[
    Column::id("id"),
    Column::state("state"),
    Column::id("cause"),
    Column::id("trigger"),
    Column::id("hook_id"),
    Column::id("response_id"),
    Column::time("next_try_at"),
    Column::text("held_by"),
]);

/// The arguments of `hooks why`.
#[derive(Debug, Args)]
pub(crate) struct WhyHookArgs {
    /// The subscription: its id, or the beginning of its id.
    hook: String,
    #[command(flatten)]
    reveal: TargetRevealArgs,
    #[command(flatten)]
    json: ReportArgs,
}

/// The arguments of `keys why`.
#[derive(Debug, Args)]
pub(crate) struct WhyKeyArgs {
    /// The key: its id, the beginning of its id, or the beginning of its text (ffk_…).
    key: String,
    #[command(flatten)]
    json: ReportArgs,
}

/// The arguments of `deliveries why`.
#[derive(Debug, Args)]
pub(crate) struct WhyDeliveryArgs {
    /// The delivery: its id, or the beginning of its id.
    delivery: String,
    /// The firm: its id, the beginning of its id, or its name. Only a delivery that no list shows
    /// yet needs it.
    #[arg(long)]
    firm: Option<String>,
    #[command(flatten)]
    pub(crate) archive: KnownArchiveArgs,
    #[command(flatten)]
    json: ReportArgs,
}

pub(crate) async fn explain_hook(service: &Service, asked: WhyHookArgs) -> anyhow::Result<()> {
    let hook = names::find_id(service.store.pool(), NamedKind::Hook, &asked.hook).await?;
    let mut found = history::of_hook(service, hook, None).await.map_err(terminal_error)?;
    let look = ReadingDetails {
        hook_id: Some(hook),
        ..ReadingDetails::at(ReadingSubject::Hook, ReadAs::Page)
    };
    let actor = service.operator();
    readings::record(service, found.firm_id, actor, look).await.map_err(terminal_error)?;
    if let Some(reason) = &asked.reveal.show_target {
        let reveal = TargetReveal { firm_id: found.firm_id, actor, reason };
        let target = targets::of_hook(service, reveal, hook).await;
        found.show_target(target.map_err(terminal_error)?);
    }
    let found = serde_json::to_value(&found)?;
    if asked.json.json {
        print_json(&found);
        return Ok(());
    }
    HOOK.print(asked.json.into(), &summary_of_hook(&found));
    print_steps(&found);
    hook_evidence(&found).iter().for_each(|line| print_line(line));
    Ok(())
}

pub(crate) async fn explain_key(service: &Service, asked: WhyKeyArgs) -> anyhow::Result<()> {
    let key = names::find_id(service.store.pool(), NamedKind::AnyKey, &asked.key).await?;
    let found = history::of_key(service, key).await.map_err(terminal_error)?;
    let look = ReadingDetails {
        key_id: Some(key),
        ..ReadingDetails::at(ReadingSubject::Key, ReadAs::Page)
    };
    let recorded = readings::record(service, found.firm_id, service.operator(), look).await;
    recorded.map_err(terminal_error)?;
    let mut found = serde_json::to_value(&found)?;
    if asked.json.json {
        print_json(&found);
        return Ok(());
    }
    found["cancelled_deliveries"] = by_cause(&found["cancelled"]);
    KEY.print(asked.json.into(), &found);
    print_steps(&found);
    Ok(())
}

pub(crate) async fn explain_delivery(
    service: &Service,
    asked: WhyDeliveryArgs,
) -> anyhow::Result<()> {
    let pool = service.store.pool();
    let delivery = names::find_id(pool, NamedKind::Delivery, &asked.delivery).await?;
    let firm = names::firm_of_delivery(pool, asked.firm.as_deref(), delivery).await?;
    let found = history::of_delivery(service, firm, delivery).await.map_err(terminal_error)?;
    let look = ReadingDetails {
        delivery_id: Some(delivery),
        ..ReadingDetails::at(ReadingSubject::Delivery, ReadAs::Page)
    };
    readings::record(service, firm, service.operator(), look).await.map_err(terminal_error)?;
    let mut found = serde_json::to_value(&found)?;
    if asked.json.json {
        print_json(&found);
        return Ok(());
    }
    found["held_by"] = pause_line(&found["held"]);
    DELIVERY.print(asked.json.into(), &found);
    print_steps(&found);
    Ok(())
}

fn print_steps(found: &Value) {
    list_field(found, "steps").for_each(|step| print_line(&step_line(step)));
}

/// An event as a line: time, position, sentence and actor.
pub(super) fn step_line(step: &Value) -> String {
    // An attempt and a consequence are the service's own.
    let by = match text_field(step, "actor") {
        "system" => String::new(),
        _ => format!(", by {}", text_field(step, "by")),
    };
    let entry = step["audit_entry"].as_i64();
    let entry = entry.map(|entry| format!(" (audit entry {entry})")).unwrap_or_default();
    let position = &step["position"];
    format!("{} [{position}] {}{by}{entry}", text_field(step, "at"), text_field(step, "sentence"))
}

fn summary_of_hook(found: &Value) -> Value {
    let removal = &found["removal"];
    let key = match &found["key"] {
        Value::Null => text_field(found, "key_id").to_owned(),
        key => format!(
            "{} ({}…) of member {}",
            text_field(key, "name"),
            text_field(key, "prefix"),
            text_field(key, "member_id")
        ),
    };
    json!({
        "id": found["id"], "state": found["state"], "trigger": found["trigger"],
        "target": found["target"], "key": key, "created_at": found["created_at"],
        "removed_at": removal["at"], "reason": removal["reason"], "by": removal["actor"],
        "delivered_between": removal["delivered_between"],
        "cancelled_deliveries": by_cause(&removal["cancelled_by_cause"]),
        "archived_before": removal["archived_before"],
    })
}

/// Counts by cause as words: `3 key_revoked`. No count is no value.
fn by_cause(counts: &Value) -> Value {
    let counts = counts.as_array().into_iter().flatten();
    let words: Vec<String> =
        counts.map(|one| format!("{} {}", one["deliveries"], text_field(one, "cause"))).collect();
    if words.is_empty() { Value::Null } else { words.join(", ").into() }
}

fn pause_line(held: &Value) -> Value {
    if held.is_null() {
        return Value::Null;
    }
    let [id, at, by, reason] =
        ["id", "paused_at", "paused_by", "reason"].map(|name| text_field(held, name));
    format!("pause {id} since {at}, by {by}: {reason}").into()
}

/// The answers that decided a removal, by digest, and the entries of the audit log that prove it.
fn hook_evidence(found: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for deciding in list_field(&found["removal"], "deciding") {
        for attempt in list_field(deciding, "attempts") {
            lines.push(format!(
                "answer to delivery {}, try {}: {}, SHA-256 {}",
                text_field(deciding, "delivery_id"),
                attempt["number"],
                attempt["status"],
                attempt["answer_sha256"].as_str().unwrap_or("unknown")
            ));
        }
    }
    lines.extend(list_field(found, "entries").map(|entry| {
        let [action, hash] = ["action", "hash"].map(|name| text_field(entry, name));
        format!("audit entry {}: {action}, hash {hash}", entry["sequence"])
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of the service itself names none.
    #[test]
    fn a_step_names_its_actor() {
        let step = json!({"at": "t", "position": 60, "sentence": "member 7 left the firm",
                          "actor": "product:1", "by": "the product with the token \"back end\""});
        let line = "t [60] member 7 left the firm, by the product with the token \"back end\"";
        assert_eq!(step_line(&step), line);
        let own = json!({"at": "t", "position": 61, "sentence": "it was cancelled",
                         "actor": "system", "by": "the service"});
        assert_eq!(step_line(&own), "t [61] it was cancelled");
        let proved = json!({"at": "t", "position": 61, "sentence": "it was cancelled",
                            "actor": "system", "by": "the service", "audit_entry": 17});
        assert_eq!(step_line(&proved), "t [61] it was cancelled (audit entry 17)");
    }

    /// An empty list is not shown.
    #[test]
    fn causes_are_counted_in_words() {
        let counts = json!([{"cause": "key_revoked", "deliveries": 3},
                            {"cause": "source_erased", "deliveries": 1}]);
        assert_eq!(by_cause(&counts), "3 key_revoked, 1 source_erased");
        assert_eq!(by_cause(&json!([])), Value::Null);
        assert_eq!(pause_line(&Value::Null), Value::Null);
    }
}
