//! `members list`, `forms list` and `replay list`.

use api::Service;
use api::queries::inventory::{self, PageRequest};
use api::queries::listing::LIST_LIMIT_DEFAULT;
use clap::{Args, Subcommand};
use domain::values::Timestamp;
use projector::forms::FormRow;
use projector::members::MemberRow;
use projector::replays::ReplayRow;
use serde_json::{Value, json};
use service::StorageSettings;

use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable, OutputArgs};

const MEMBERS: ListTable = ListTable::new(
    &[
        Column::id("id"),
        Column::state("state"),
        Column::text("role"),
        Column::number("active_keys"),
    ],
    "this firm has no members",
);

const FORMS: ListTable = ListTable::new(
    &[
        Column::id("id"),
        Column::state("status"),
        Column::time("created_at"),
        Column::text("title"),
        Column::text("url"),
    ],
    "this firm has no forms",
);

const REPLAYS: ListTable = ListTable::new(
    &[
        Column::id("id"),
        Column::state("state"),
        Column::time("requested_at"),
        Column::age("ended_at"),
        Column::number("selected"),
        Column::id("firm_id"),
        Column::text("reason"),
    ],
    "no replays: `firmforms replay start` begins one",
);

/// The commands of members.
#[derive(Debug, Subcommand)]
pub(crate) enum MembersCommand {
    /// List the members of a firm, former ones too.
    List(FirmListArgs),
}

/// The commands of forms.
#[derive(Debug, Subcommand)]
pub(crate) enum FormsCommand {
    /// List the forms of a firm, newest first.
    List(FirmListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FirmListArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    firm: String,
    #[command(flatten)]
    json: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayListArgs {
    /// Only replays of this firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    firm: Option<String>,
    /// Only replays after this one: the last one of the page before.
    #[arg(long)]
    after: Option<String>,
    /// The most replays to list, up to 500.
    #[arg(long, default_value_t = LIST_LIMIT_DEFAULT)]
    limit: i64,
    #[command(flatten)]
    json: OutputArgs,
}

pub(crate) async fn list_members(
    storage: &StorageSettings,
    MembersCommand::List(asked): MembersCommand,
) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let firm = names::find_id(system.main_pool(), NamedKind::Firm, &asked.firm).await?;
    let rows = inventory::members(&system.service, firm).await.map_err(terminal_error)?;
    MEMBERS.print(asked.json, rows.iter().map(member_json).collect());
    system.stop().await
}

pub(crate) async fn list_forms(
    storage: &StorageSettings,
    FormsCommand::List(asked): FormsCommand,
) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let firm = names::find_id(system.main_pool(), NamedKind::Firm, &asked.firm).await?;
    let rows = inventory::forms(&system.service, firm).await.map_err(terminal_error)?;
    FORMS.print(asked.json, rows.iter().map(form_json).collect());
    system.stop().await
}

pub(crate) async fn list_replays(service: &Service, asked: ReplayListArgs) -> anyhow::Result<()> {
    let pool = service.store.pool();
    let firm = names::id_of_any(pool, NamedKind::Firm, asked.firm.as_deref()).await?;
    let after = names::id_of_any(pool, NamedKind::Replay, asked.after.as_deref()).await?;
    let page = PageRequest { after, limit: Some(asked.limit) };
    let page = inventory::replays(service, None, firm, page).await.map_err(terminal_error)?;
    REPLAYS.print(asked.json, page.rows.iter().map(replay_json).collect());
    Ok(())
}

fn member_json(row: &MemberRow) -> Value {
    let state = match (row.active, &row.role) {
        (true, _) => "active",
        (false, Some(_)) => "disabled",
        (false, None) => "left",
    };
    json!({
        "id": row.member_id, "role": row.role, "active": row.active, "state": state,
        "active_keys": row.active_keys,
    })
}

fn form_json(row: &FormRow) -> Value {
    json!({
        "id": row.form_id, "title": row.title, "slug": row.slug, "url": row.url,
        "status": row.status, "created_at": Timestamp::from(row.created_at),
    })
}

fn replay_json(row: &ReplayRow) -> Value {
    json!({
        "id": row.replay_id, "firm_id": row.firm_id, "state": row.state, "reason": row.reason,
        "force": row.force, "rate_per_second": row.rate_per_second, "selected": row.selected,
        "requested_at": Timestamp::from(row.requested_at),
        "ended_at": row.ended_at.map(Timestamp::from),
    })
}
