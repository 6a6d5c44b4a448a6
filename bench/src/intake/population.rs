//! The firms of the reports, with members and forms, and with subscriptions to every trigger.

use ::service::ingest;
use api::Service;
use domain::subscription::Trigger;

use crate::activity::{Firm, Founding, made_up};
use crate::subscribing::{make_key, subscribe};

/// How many firms.
pub(super) const FIRMS: u32 = 10;

/// Makes the firms, each with so many subscriptions to each trigger.
pub(super) async fn populate(service: &Service, subscriptions: usize) -> anyhow::Result<()> {
    let founding = Founding::new(made_up(FIRMS).founding_lines())?;
    ingest::take_in_lines(service, founding.lines.as_slice()).await?;
    for firm in founding.firms().filter(|_| subscriptions > 0) {
        populate_firm(service, firm, subscriptions).await?;
    }
    Ok(())
}

async fn populate_firm(service: &Service, firm: Firm, subscriptions: usize) -> anyhow::Result<()> {
    let door = api::public::router(service.clone());
    let key = make_key(service, firm, "Bench").await?;
    for trigger in Trigger::ALL.into_iter().filter(|trigger| is_heard_of(*trigger, firm)) {
        for number in 0..subscriptions {
            let target = format!("http://127.0.0.1:8090/hooks/{trigger}/{number}");
            subscribe(&door, &key, (trigger, target)).await?;
        }
    }
    Ok(())
}

/// Nobody's partial submission is due within a run.
fn is_heard_of(trigger: Trigger, firm: Firm) -> bool {
    trigger != Trigger::PartialSubmission && trigger.offered_to(firm.plan)
}
