//! `hooks`: lists subscriptions, and explains removals from the audit log.

use api::commands::readings;
use api::commands::targets::{self, TargetReveal};
use api::queries::as_of::{self, HookFilter};
use api::queries::history;
use api::queries::listing::{self, HookListQuery};
use domain::as_of::AsOf;
use domain::reading::{ReadAs, ReadingDetails, ReadingSubject};
use domain::target::shown_target;
use domain::time::Timestamp;
use projector::hooks::HookLife;
use serde_json::{Value, json};

use super::args::{HooksCommand, HooksListArgs};
use super::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable, print_json, print_line};
use crate::wiring::{self, StorageArgs, System};

pub(crate) async fn run(storage: &StorageArgs, command: HooksCommand) -> anyhow::Result<()> {
    let system = wiring::open(storage).await?;
    ask(&system, command).await?;
    system.stop().await
}

async fn ask(system: &System, command: HooksCommand) -> anyhow::Result<()> {
    match command {
        HooksCommand::List(list) => {
            let service = &system.service;
            let now = service.clock.now();
            let firm = names::id(system.pool(), NamedKind::Firm, &list.firm).await?;
            let since = list.since.map(|when| when.before(now));
            let look =
                ReadingDetails { since, ..ReadingDetails::at(ReadingSubject::Hooks, ReadAs::Page) };
            readings::record(service, firm, service.operator(), look)
                .await
                .map_err(terminal_error)?;
            let as_of = match names::as_of(list.as_of, now) {
                Some(as_of) => Some(as_of::check(service, as_of).await.map_err(terminal_error)?),
                None => None,
            };
            let which = list.which(since);
            let asked = HookListQuery { which, as_of, after: list.after, limit: Some(list.limit) };
            let page = listing::hooks(service, firm, asked).await.map_err(terminal_error)?;
            table(as_of, which).print(list.json, items(&page.rows));
        }
        HooksCommand::Why { hook, reveal, json } => {
            let hook = names::id(system.pool(), NamedKind::Hook, &hook).await?;
            let mut found =
                history::of_hook(&system.service, hook, None).await.map_err(terminal_error)?;
            let look = ReadingDetails {
                hook_id: Some(hook),
                ..ReadingDetails::at(ReadingSubject::Hook, ReadAs::Page)
            };
            let actor = system.service.operator();
            let recorded = readings::record(&system.service, found.firm_id, actor, look).await;
            recorded.map_err(terminal_error)?;
            if let Some(reason) = &reveal.show_target {
                let firm_id = found.firm_id;
                let reveal = TargetReveal { firm_id, actor: system.service.operator(), reason };
                let target = targets::of_hook(&system.service, reveal, hook).await;
                found.show_target(target.map_err(terminal_error)?);
            }
            let found = serde_json::to_value(&found)?;
            if json.json {
                print_json(&found);
            } else {
                sentences(&found).iter().for_each(|line| print_line(line));
            }
        }
    }
    Ok(())
}

const LIVE: &[Column] =
    &[Column::id("id"), Column::id("trigger"), Column::time("created_at"), Column::text("target")];

const REMOVED: &[Column] = &[
    Column::id("id"),
    Column::id("trigger"),
    Column::time("removed_at"),
    Column::id("reason"),
    Column::text("target"),
];

const THEN: &[Column] = &[
    Column::id("id"),
    Column::id("trigger"),
    Column::time("created_at"),
    Column::age("removed_at"),
    Column::id("reason"),
    Column::text("target"),
];

const fn table(as_of: Option<AsOf>, which: HookFilter) -> ListTable {
    match (as_of, which) {
        (Some(_), _) => ListTable::new(THEN, "no such subscriptions then"),
        (None, HookFilter::Removed(_)) => ListTable::new(REMOVED, "no subscription was removed"),
        (None, HookFilter::Warned) => ListTable::new(LIVE, "no subscription is close to removal"),
        (None, HookFilter::Live) => ListTable::new(LIVE, "no subscriptions"),
    }
}

impl HooksListArgs {
    fn which(&self, since: Option<Timestamp>) -> HookFilter {
        match (self.removed, self.warned) {
            (true, _) => HookFilter::Removed(since.map(Timestamp::get)),
            (_, true) => HookFilter::Warned,
            (_, _) => HookFilter::Live,
        }
    }
}

fn items(lives: &[HookLife]) -> Vec<Value> {
    let item = |life: &HookLife| {
        json!({
            "id": life.hook_id, "key_id": life.key_id, "trigger": life.trigger,
            "target": shown_target(&life.target_url), "form_id": life.form_id,
            "created_at": Timestamp::from(life.created_at),
            "removed_at": life.removed_at.map(Timestamp::from), "reason": life.removal_reason,
        })
    };
    lives.iter().map(item).collect()
}

/// The answer in sentences, for a person.
fn sentences(found: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let of = |name: &str| text(&found[name]);
    let mut lines = vec![
        format!("hook {}: {}", of("id"), of("state")),
        format!(
            "  {} to {}, made {} with key {}",
            of("trigger"),
            of("target"),
            of("created_at"),
            of("key_id")
        ),
    ];
    let removal = &found["removal"];
    if !removal.is_null() {
        let of = |name: &str| text(&removal[name]);
        lines.push(format!("  removed {} because {}, by {}", of("at"), of("reason"), of("actor")));
        if !removal["caused_by"].is_null() {
            lines.push(format!("  the event that led to it: {}", of("caused_by")));
        }
        for deciding in removal["deciding"].as_array().into_iter().flatten() {
            let of = |name: &str| text(&deciding[name]);
            lines.push(format!(
                "  delivery {} ended {} with {}",
                of("delivery_id"),
                of("finished_at"),
                of("status")
            ));
            for attempt in deciding["attempts"].as_array().into_iter().flatten() {
                let of = |name: &str| text(&attempt[name]);
                lines.push(format!(
                    "    try {}: {}, {}, answer {}",
                    of("number"),
                    of("outcome"),
                    of("status"),
                    of("answer_sha256")
                ));
            }
        }
        if !removal["delivered_between"].is_null() {
            lines.push(format!("  delivered between them: {}", of("delivered_between")));
        }
        lines.push(format!("  deliveries cancelled: {}", of("cancelled")));
    }
    for entry in found["entries"].as_array().into_iter().flatten() {
        let of = |name: &str| text(&entry[name]);
        lines.push(format!(
            "  audit {}: {} {}, hash {}",
            of("sequence"),
            of("at"),
            of("action"),
            of("hash")
        ));
    }
    lines
}
