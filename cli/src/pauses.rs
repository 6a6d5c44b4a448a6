//! `deliveries pause|resume|paused`: holding deliveries, and letting them go.

use api::Service;
use api::commands::pauses::{self, Which};
use clap::Args;
use domain::time::Timestamp;
use projector::pauses::PauseRow;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::args::Json;
use crate::operate::{OPERATOR, print, refused};

/// What is held, or let go.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Scope {
    /// Everything, of all firms.
    #[arg(long)]
    all: bool,
    /// A firm's, workflow steps too.
    #[arg(long)]
    firm: Option<Uuid>,
    /// A subscription's.
    #[arg(long)]
    hook: Option<Uuid>,
    /// What goes to this host, of all firms.
    #[arg(long)]
    host: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    scope: Scope,
    /// Why; kept in the log.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    scope: Scope,
    /// Why; kept in the log.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    json: Json,
}

pub(crate) async fn pause(service: &Service, asked: Pause) -> anyhow::Result<()> {
    let which = asked.scope.which();
    let row = pauses::pause(service, &which, &asked.reason, OPERATOR).await.map_err(refused)?;
    show(asked.json, &[row]);
    Ok(())
}

pub(crate) async fn resume(service: &Service, asked: Resume) -> anyhow::Result<()> {
    let Some(pause_id) = pauses::id_of(&asked.scope.which()) else {
        anyhow::bail!("that is no host");
    };
    let reason = asked.reason.as_deref();
    let row = pauses::resume(service, pause_id, reason, OPERATOR).await.map_err(refused)?;
    show(asked.json, &[row]);
    Ok(())
}

pub(crate) async fn list(service: &Service, how: Json) -> anyhow::Result<()> {
    show(how, &pauses::list(service).await.map_err(refused)?);
    Ok(())
}

impl Scope {
    fn which(&self) -> Which {
        let firm = self.firm.map(Which::Firm);
        let hook = self.hook.map(Which::Hook);
        let host = self.host.clone().map(Which::Host);
        firm.or(hook).or(host).unwrap_or(Which::All)
    }
}

fn show(how: Json, rows: &[PauseRow]) {
    let fields = ["paused_at", "scope", "reason", "paused_by", "id"];
    print(how, rows.iter().map(told).collect(), &fields);
}

fn told(row: &PauseRow) -> Value {
    json!({
        "id": row.pause_id, "scope": row.scope().to_string(), "kind": row.kind,
        "firm_id": row.firm_id, "hook_id": row.hook_id, "host": row.host, "reason": row.reason,
        "paused_by": row.actor, "paused_at": Timestamp::from(row.paused_at),
    })
}
