//! `deliveries pause|resume|paused`: pauses deliveries, ends pauses and lists them.

use api::Service;
use api::commands::pauses::{self, RequestedScope};
use clap::Args;
use domain::values::Timestamp;
use projector::pauses::PauseRow;
use serde_json::{Value, json};

use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable, OutputArgs, RecordView, print_note};

const FIELDS: &[Column] = &[
    Column::id("id"),
    Column::text("scope"),
    Column::time("paused_at"),
    Column::text("paused_by"),
    Column::text("reason"),
];

/// The scope of a pause.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct PauseScopeArgs {
    /// All deliveries of all firms.
    #[arg(long)]
    all: bool,
    /// The deliveries of a firm, workflow steps too: its id, the beginning of its id, or its name.
    #[arg(long)]
    firm: Option<String>,
    /// The deliveries of a subscription: its id, or the beginning of its id.
    #[arg(long)]
    hook: Option<String>,
    /// The deliveries to this host, of all firms.
    #[arg(long)]
    host: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    scope: PauseScopeArgs,
    /// The reason; kept in the log.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    json: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    scope: PauseScopeArgs,
    /// The reason; kept in the log.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    json: OutputArgs,
}

pub(crate) async fn pause(service: &Service, asked: PauseArgs) -> anyhow::Result<()> {
    let which = asked.scope.requested_scope(service).await?;
    let row = pauses::pause(service, &which, &asked.reason, service.operator())
        .await
        .map_err(terminal_error)?;
    RecordView::new(FIELDS).print(asked.json, &pause_json(&row));
    Ok(())
}

pub(crate) async fn resume(service: &Service, asked: ResumeArgs) -> anyhow::Result<()> {
    let Some(pause_id) = pauses::id_of(&asked.scope.requested_scope(service).await?) else {
        anyhow::bail!("--host: this is not the name of a host");
    };
    let reason = asked.reason.as_deref();
    let row = pauses::resume(service, pause_id, reason, service.operator())
        .await
        .map_err(terminal_error)?;
    RecordView::new(FIELDS).print(asked.json, &pause_json(&row));
    if asked.json.is_text() {
        print_note("this pause has ended");
    }
    Ok(())
}

pub(crate) async fn list(service: &Service, how: OutputArgs) -> anyhow::Result<()> {
    let rows = pauses::list(service).await.map_err(terminal_error)?;
    let items = rows.iter().map(pause_json).collect();
    ListTable::new(FIELDS, "nothing is paused").print(how, items);
    Ok(())
}

impl PauseScopeArgs {
    async fn requested_scope(&self, service: &Service) -> anyhow::Result<RequestedScope> {
        let pool = service.store.pool();
        let firm = names::id_of_any(pool, NamedKind::Firm, self.firm.as_deref()).await?;
        let hook = names::id_of_any(pool, NamedKind::Hook, self.hook.as_deref()).await?;
        let firm = firm.map(RequestedScope::Firm);
        let hook = hook.map(RequestedScope::Hook);
        let host = self.host.clone().map(RequestedScope::Host);
        Ok(firm.or(hook).or(host).unwrap_or(RequestedScope::All))
    }
}

fn pause_json(row: &PauseRow) -> Value {
    json!({
        "id": row.pause_id, "scope": row.scope().to_string(), "kind": row.kind,
        "firm_id": row.firm_id, "hook_id": row.hook_id, "host": row.host, "reason": row.reason,
        "paused_by": row.actor, "paused_at": Timestamp::from(row.paused_at),
    })
}
