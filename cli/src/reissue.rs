//! `reissue`: makes a new delivery from an ended one (ruling 31, replay and reissue).

use api::commands::reissue::{self, NewReissue};
use clap::Args;
use serde_json::json;
use service::StorageSettings;
use uuid::Uuid;

use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, OutputArgs, RecordView};

const REISSUED: RecordView =
    RecordView::new(&[Column::id("id"), Column::id("reissue_of"), Column::id("request_id")]);

/// The arguments of `reissue`.
#[derive(Debug, Args)]
pub(crate) struct ReissueArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    firm: String,
    /// The ended delivery: its id, or the beginning of its id.
    delivery: String,
    /// The reason; kept in the log.
    #[arg(long)]
    reason: String,
    /// An id of your own. A repeat with the same id makes no second delivery.
    #[arg(long)]
    request_id: Option<Uuid>,
    #[command(flatten)]
    json: OutputArgs,
}

pub(crate) async fn run(storage: &StorageSettings, asked: ReissueArgs) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let service = &system.service;
    let request_id = asked.request_id.unwrap_or_else(|| service.entropy.new_id());
    let firm_id = names::find_id(system.main_pool(), NamedKind::Firm, &asked.firm).await?;
    let delivery_id =
        names::find_id(system.main_pool(), NamedKind::Delivery, &asked.delivery).await?;
    let new = NewReissue { firm_id, delivery_id, request_id, reason: asked.reason };
    let id = reissue::reissue(service, &new, service.operator()).await.map_err(terminal_error)?;
    let made = json!({"id": id, "reissue_of": delivery_id, "request_id": request_id});
    REISSUED.print(asked.json, &made);
    system.stop().await
}
