//! `hooks`: lists, explains and tests subscriptions.

use std::process::ExitCode;

use api::commands::readings;
use api::queries::as_of::{self, HookFilter};
use api::queries::listing::{self, HookListQuery};
use domain::audit::AuditPeriod;
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::subscription::shown_target;
use domain::values::{AsOf, Timestamp};
use projector::hooks::HookLife;
use serde_json::{Value, json};
use service::{StorageSettings, System};

use super::args::{HooksCommand, HooksListArgs};
use crate::answers::{self, why};
use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable};

pub(crate) async fn run(
    storage: &StorageSettings,
    command: HooksCommand,
) -> anyhow::Result<ExitCode> {
    match command {
        // A test has settings of its own for the call.
        HooksCommand::Test(asked) => return answers::test_hook(storage, asked).await,
        HooksCommand::List(asked) => {
            let system = databases::open(storage).await?;
            list_hooks(&system, asked).await?;
            system.stop().await?;
        }
        HooksCommand::Why(asked) => {
            let system = databases::open(storage).await?;
            why::explain_hook(&system.service, asked).await?;
            system.stop().await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list_hooks(system: &System, list: HooksListArgs) -> anyhow::Result<()> {
    let service = &system.service;
    let now = service.clock.now();
    let firm = names::find_id(system.main_pool(), NamedKind::Firm, &list.firm).await?;
    let period = names::past_period(list.since, list.until, now)?;
    let AuditPeriod { since, until } = period;
    let look =
        ReadingDetails { since, until, ..ReadingDetails::at(ReadingSubject::Hooks, ReadAs::Page) };
    readings::record(service, firm, service.operator(), look).await.map_err(terminal_error)?;
    let as_of = match names::as_of(list.as_of, now) {
        Some(as_of) => Some(as_of::check(service, as_of).await.map_err(terminal_error)?),
        None => None,
    };
    let which = list.hook_filter(period);
    let asked = HookListQuery { which, as_of, after: list.after, limit: Some(list.limit) };
    let page = listing::hooks(service, firm, asked).await.map_err(terminal_error)?;
    table_for(as_of, which).print(list.json, hook_items(&page.rows));
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

const fn table_for(as_of: Option<AsOf>, which: HookFilter) -> ListTable {
    match (as_of, which) {
        (Some(_), _) => ListTable::new(THEN, "no such subscriptions then"),
        (None, HookFilter::Removed(_)) => ListTable::new(REMOVED, "no subscription was removed"),
        (None, HookFilter::Warned) => ListTable::new(LIVE, "no subscription is close to removal"),
        (None, HookFilter::Live) => ListTable::new(LIVE, "no subscriptions"),
    }
}

impl HooksListArgs {
    fn hook_filter(&self, period: AuditPeriod) -> HookFilter {
        match (self.removed, self.warned) {
            (true, _) => HookFilter::Removed(period),
            (_, true) => HookFilter::Warned,
            (_, _) => HookFilter::Live,
        }
    }
}

fn hook_items(lives: &[HookLife]) -> Vec<Value> {
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
