//! How a run reports activity: by `api::intake`, as the internal door does after it has read a
//! request.

use std::sync::Arc;

use anyhow::bail;
use api::Service;
use api::intake::{CloudEvent, EventFormat, accept, parse_events};
use domain::event::Actor;
use tokio::task::JoinSet;
use uuid::Uuid;

/// Batches under way at a time.
const REPORTERS: usize = 4;

/// Takes in all batches, four at a time.
pub(crate) async fn take_in_all(service: &Service, batches: &Arc<[Vec<u8>]>) -> anyhow::Result<()> {
    let mut reporters = JoinSet::new();
    for first in 0..REPORTERS {
        let (service, batches) = (service.clone(), Arc::clone(batches));
        reporters.spawn(async move {
            for batch in batches.iter().skip(first).step_by(REPORTERS) {
                take_in(&service, parse_events(EventFormat::Lines, batch)?).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = reporters.join_next().await {
        ended??;
    }
    Ok(())
}

/// Takes in one batch; all of it must be news.
pub(crate) async fn take_in(service: &Service, batch: Vec<CloudEvent>) -> anyhow::Result<()> {
    let accepted = accept(service, batch, Actor::Product(Uuid::nil())).await?;
    let unchanged = accepted.duplicates + accepted.stale;
    if unchanged > 0 {
        bail!("{unchanged} reports changed nothing");
    }
    Ok(())
}
