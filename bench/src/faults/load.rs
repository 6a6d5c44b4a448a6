//! What goes on while processes are killed: responses come in at an even pace, and subscriptions come
//! and go. Whoever gets no good answer asks again, as the product does.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tests::invariants::Acknowledged;
use tests::raw::{report, try_call};
use tests::{Firm, World, submitted};
use uuid::Uuid;

use super::receivers::{KINDS, Receivers};
use super::service::Services;

/// Firms, each with a subscription of every kind.
const FIRMS: usize = 4;

/// Responses reported at a time.
const BATCH: usize = 5;

/// Whoever was not answered asks again after this.
const AGAIN: Duration = Duration::from_millis(100);

/// A subscription comes, or goes, so often.
const COMING_AND_GOING: Duration = Duration::from_secs(1);

/// What is to happen.
pub(super) struct Load {
    firms: Vec<Firm>,
    hooks: Vec<Uuid>,
    responses: usize,
    target: String,
}

impl Load {
    pub(super) async fn prepare(world: &World, receivers: &Receivers, deliveries: usize) -> Self {
        let (mut firms, mut hooks) = (Vec::new(), Vec::new());
        for _ in 0..FIRMS {
            let firm = world.firm().await;
            for kind in KINDS {
                hooks.push(world.subscribe(&firm, &receivers.url(kind)).await);
            }
            firms.push(firm);
        }
        let responses = deliveries / KINDS.len();
        Self { firms, hooks, responses, target: receivers.url("well") }
    }

    /// Everything, until then; what was acknowledged.
    pub(super) async fn until(
        &self,
        end: Instant,
        world: &World,
        services: &Services,
    ) -> anyhow::Result<Acknowledged> {
        let (responses, (hooks, removed_hooks)) = tokio::try_join!(
            self.report_evenly(end, world, services),
            self.come_and_go(end, services),
        )?;
        let hooks = [self.hooks.clone(), hooks].concat();
        Ok(Acknowledged { hooks, removed_hooks, responses })
    }

    async fn report_evenly(
        &self,
        end: Instant,
        world: &World,
        services: &Services,
    ) -> anyhow::Result<Vec<Uuid>> {
        let batches = self.responses.div_ceil(BATCH).max(1);
        let time = end.saturating_duration_since(Instant::now());
        let mut pace = tokio::time::interval(time / u32::try_from(batches)?);
        let mut acknowledged = Vec::new();
        for number in 0..batches {
            pace.tick().await;
            let ids: Vec<Uuid> = (0..BATCH).map(|_| world.id()).collect();
            let firm = &self.firms[number % FIRMS];
            let events: Vec<_> = ids.iter().map(|id| submitted(firm, *id)).collect();
            let batch = serde_json::to_string(&events)?;
            while report(services.internal, world.token(), &batch).await.is_none_or(|s| s != 202) {
                tokio::time::sleep(AGAIN).await;
            }
            acknowledged.extend(ids);
        }
        Ok(acknowledged)
    }

    /// Makes a subscription, removes it a second later, and so on; a removal races what is claimed.
    async fn come_and_go(
        &self,
        end: Instant,
        services: &Services,
    ) -> anyhow::Result<(Vec<Uuid>, Vec<Uuid>)> {
        let (mut made, mut removed) = (Vec::new(), Vec::new());
        let mut pace = tokio::time::interval(COMING_AND_GOING);
        let body = json!({"target_url": self.target, "trigger": "form_submitted"}).to_string();
        for firm in self.firms.iter().cycle() {
            pace.tick().await;
            if Instant::now() >= end {
                break;
            }
            let hooks = ("POST", "/hooks");
            let Some((_, answer)) = try_call(services.public, hooks, &firm.key, &body)
                .await
                .filter(|(status, _)| *status == 201)
            else {
                continue;
            };
            let hook_id = id_in(&answer)?;
            made.push(hook_id);
            pace.tick().await;
            let path = format!("/hooks/{hook_id}");
            let gone = try_call(services.public, ("DELETE", &path), &firm.key, "").await;
            removed.extend(gone.filter(|(status, _)| *status == 200).map(|_| hook_id));
        }
        Ok((made, removed))
    }
}

fn id_in(answer: &str) -> anyhow::Result<Uuid> {
    let body: Value = serde_json::from_str(answer.lines().last().unwrap_or_default())?;
    Ok(body["id"].as_str().context("no id")?.parse()?)
}
