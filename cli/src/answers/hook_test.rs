//! `hooks test`: sends a sample to the target of a subscription from this machine, and shows the
//! answer. Exit code 0: it was 2xx.

use std::process::ExitCode;

use anyhow::Context;
use api::commands::hook_tests::{self, HookTest};
use api::queries::naming;
use clap::Args;
use serde_json::{Value, json};
use service::StorageSettings;

use super::list_field;
use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, RecordView, ReportArgs, print_json, print_line};
use crate::shared_args::{TargetArgs, reason};

const SENT: RecordView = RecordView::new(&[
    Column::id("id"),
    Column::id("hook_id"),
    Column::id("trigger"),
    Column::text("target"),
    Column::number("status"),
    Column::id("error"),
    Column::text("answer"),
]);

/// The arguments of `hooks test`.
#[derive(Debug, Args)]
pub(crate) struct HookTestArgs {
    /// The live subscription: its id, or the beginning of its id.
    hook: String,
    /// The reason; kept in the audit log.
    #[arg(long, value_parser = reason)]
    reason: String,
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    json: ReportArgs,
}

pub(crate) async fn run(
    storage: &StorageSettings,
    asked: HookTestArgs,
) -> anyhow::Result<ExitCode> {
    let setup = asked.targets.command_setup()?;
    let system = databases::open_to_send(storage, setup).await?;
    let pool = system.main_pool();
    let hook_id = names::find_id(pool, NamedKind::Hook, &asked.hook).await?;
    let firm_id = naming::firm_of(pool, NamedKind::Hook, hook_id).await?;
    let firm_id = firm_id.context("no subscription has this id")?;
    let actor = system.service.operator();
    let order = HookTest { firm_id, hook_id, actor, reason: &asked.reason };
    let sent = hook_tests::send(&system.service, order).await.map_err(terminal_error)?;
    let sent = json!(sent);
    if asked.json.json {
        print_json(&sent);
    } else {
        SENT.print(asked.json.into(), &sent);
        list_field(&sent, "hops").for_each(|hop| print_line(&request_line(hop)));
    }
    system.stop().await?;
    let is_taken = sent["status"].as_u64().is_some_and(|status| (200..300).contains(&status));
    Ok(ExitCode::from(u8::from(!is_taken)))
}

/// A request of the way: the target first, then each redirect.
fn request_line(hop: &Value) -> String {
    let place = [hop["url"].as_str(), hop["address"].as_str()].into_iter().flatten();
    let place = place.collect::<Vec<_>>().join(" at ");
    match hop["status"].as_u64() {
        Some(status) => format!("request to {place}: {status}"),
        None => format!("request to {place}: no answer"),
    }
}
