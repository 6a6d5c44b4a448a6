//! `deliveries list` and `workflows list`: what was sent, page by page.

use api::Service;
use api::commands::listing::{self, Asked};
use api::commands::readings;
use clap::{Args, Subcommand};
use domain::as_of::AsOf;
use domain::delivery::DeliveryState;
use domain::time::Timestamp;
use domain::trigger::Trigger;
use uuid::Uuid;

use crate::args::Json;
use crate::operate::{OPERATOR, delivery, held, print, refused, then};
use crate::wiring::{self, Place, System};

/// What is listed.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// The firm.
    #[arg(long)]
    firm: Uuid,
    /// Only this subscription's.
    #[arg(long)]
    hook: Option<Uuid>,
    #[command(flatten)]
    filter: Filter,
    /// As they were at a position of the log, or at an instant (2026-11-01T12:00:00Z); with --limit
    /// alone.
    #[arg(long)]
    as_of: Option<AsOf>,
    #[command(flatten)]
    json: Json,
}

/// What is asked of workflows.
#[derive(Debug, Subcommand)]
pub(crate) enum Workflows {
    /// What their steps sent, newest first.
    List(Steps),
}

#[derive(Debug, Args)]
pub(crate) struct Steps {
    /// The firm.
    #[arg(long)]
    firm: Uuid,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    json: Json,
}

#[derive(Debug, Args)]
struct Filter {
    /// Only this trigger's.
    #[arg(long)]
    trigger: Option<Trigger>,
    /// Only those that are `pending`, `delivered`, `failed` or `cancelled`.
    #[arg(long)]
    state: Option<DeliveryState>,
    /// Only those queued then or later (2026-11-01T00:00:00Z).
    #[arg(long)]
    since: Option<Timestamp>,
    /// Only those queued before.
    #[arg(long)]
    until: Option<Timestamp>,
    /// Only those after this one: the last of the page before.
    #[arg(long)]
    after: Option<Uuid>,
    /// How many, 500 at most.
    #[arg(long, default_value_t = listing::LIMIT)]
    limit: i64,
}

impl Filter {
    fn asked(self, hook_id: Option<Uuid>) -> Asked {
        Asked {
            hook_id,
            trigger: self.trigger.map(|trigger| trigger.key().to_owned()),
            state: self.state,
            since: self.since,
            until: self.until,
            after: self.after,
            limit: Some(self.limit),
            as_of: None,
        }
    }
}

pub(crate) async fn list(system: &System, list: List) -> anyhow::Result<()> {
    let (service, firm) = (&system.service, list.firm);
    let asked = list.filter.asked(list.hook);
    read(service, firm, &asked).await?;
    if let Some(as_of) = list.as_of {
        return list_then(
            service,
            firm,
            (Asked { as_of: Some(as_of.to_string()), ..asked }, list.json),
        )
        .await;
    }
    let rows = listing::deliveries(service, firm, &asked).await.map_err(refused)?.rows;
    let holding = held(service, firm, &rows).await?;
    let items = rows.iter().map(|row| delivery(row, &holding)).collect();
    print(list.json, items, &["created_at", "id", "state", "trigger", "hook_id", "paused"]);
    Ok(())
}

/// Records that they are read, before they are shown.
async fn read(service: &Service, firm: Uuid, asked: &Asked) -> anyhow::Result<()> {
    readings::record(service, firm, OPERATOR, asked.look()).await.map_err(refused)
}

async fn list_then(
    service: &Service,
    firm: Uuid,
    (asked, json): (Asked, Json),
) -> anyhow::Result<()> {
    let (rows, erased) = listing::deliveries_then(service, firm, &asked).await.map_err(refused)?;
    let items = rows.iter().map(|row| then(row, erased.contains(&row.response_id))).collect();
    print(json, items, &["created_at", "id", "state", "trigger", "hook_id", "erased"]);
    Ok(())
}

pub(crate) async fn workflows(
    place: &Place,
    Workflows::List(list): Workflows,
) -> anyhow::Result<()> {
    let system = wiring::open(place).await?;
    let (service, firm) = (&system.service, list.firm);
    let asked = list.filter.asked(None);
    read(service, firm, &asked).await?;
    let rows = listing::steps(service, firm, &asked).await.map_err(refused)?.rows;
    let holding = held(service, firm, &rows).await?;
    let items = rows.iter().map(|row| delivery(row, &holding)).collect();
    let fields = ["created_at", "run_id", "step_id", "state", "trigger", "id", "paused"];
    print(list.json, items, &fields);
    system.stop().await
}
