//! What goes on while processes are killed: responses come in at an even pace, and subscriptions come
//! and go. Whoever gets no good answer asks again, as the product does.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tests::invariants::Acknowledged;
use tests::raw::{report, try_call};
use tests::{Firm, World, submitted};
use tokio_util::sync::CancellationToken;
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

/// How fast responses come, and until when.
pub(crate) struct Pace {
    pub(crate) responses_per_second: u32,
    pub(crate) stop: CancellationToken,
}

/// What is to happen.
pub(crate) struct Load {
    firms: Vec<Firm>,
    hooks: Vec<Uuid>,
    target: String,
    /// The batches that were acknowledged.
    reported: Mutex<Vec<String>>,
}

impl Load {
    pub(crate) async fn prepare(world: &World, receivers: &Receivers) -> Self {
        let (mut firms, mut hooks) = (Vec::new(), Vec::new());
        for _ in 0..FIRMS {
            let firm = world.firm().await;
            for kind in KINDS {
                hooks.push(world.subscribe(&firm, &receivers.url(kind)).await);
            }
            firms.push(firm);
        }
        Self { firms, hooks, target: receivers.url("well"), reported: Mutex::default() }
    }

    /// Responses, and subscriptions that come and go, until the stop; what was acknowledged.
    pub(crate) async fn run(
        &self,
        pace: &Pace,
        world: &World,
        services: &Services,
    ) -> anyhow::Result<Acknowledged> {
        let (acknowledged, (hooks, removed_hooks)) = tokio::try_join!(
            self.report(pace, world, services),
            self.come_and_go(&pace.stop, services),
        )?;
        let hooks = [acknowledged.hooks, hooks].concat();
        Ok(Acknowledged { hooks, removed_hooks, ..acknowledged })
    }

    /// Responses alone, until the stop; what was acknowledged.
    pub(crate) async fn report(
        &self,
        Pace { responses_per_second, stop }: &Pace,
        world: &World,
        services: &Services,
    ) -> anyhow::Result<Acknowledged> {
        let batch_size = u32::try_from(BATCH)?;
        let mut ticks =
            tokio::time::interval(Duration::from_secs(1) * batch_size / *responses_per_second);
        let mut responses = Vec::new();
        for firm in self.firms.iter().cycle() {
            if stop.run_until_cancelled(ticks.tick()).await.is_none() {
                break;
            }
            let ids: Vec<Uuid> = (0..BATCH).map(|_| world.id()).collect();
            let events: Vec<_> = ids.iter().map(|id| submitted(firm, *id)).collect();
            let batch = serde_json::to_string(&events)?;
            report_surely(&batch, world, services).await;
            self.reported().push(batch);
            responses.extend(ids);
        }
        Ok(Acknowledged { hooks: self.hooks.clone(), removed_hooks: Vec::new(), responses })
    }

    /// Reports everything once more, as a product does after a loss.
    pub(crate) async fn report_again(&self, world: &World, services: &Services) {
        let batches = self.reported().clone();
        for batch in &batches {
            report_surely(batch, world, services).await;
        }
    }

    fn reported(&self) -> MutexGuard<'_, Vec<String>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a subscription, removes it a second later, and so on; a removal races what is claimed.
    async fn come_and_go(
        &self,
        stop: &CancellationToken,
        services: &Services,
    ) -> anyhow::Result<(Vec<Uuid>, Vec<Uuid>)> {
        let (mut made, mut removed) = (Vec::new(), Vec::new());
        let mut pace = tokio::time::interval(COMING_AND_GOING);
        let body = json!({"target_url": self.target, "trigger": "form_submitted"}).to_string();
        for firm in self.firms.iter().cycle() {
            pace.tick().await;
            if stop.is_cancelled() {
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

/// Reports until it is acknowledged.
async fn report_surely(batch: &str, world: &World, services: &Services) {
    while report(services.internal, world.token(), batch).await.is_none_or(|status| status != 202) {
        tokio::time::sleep(AGAIN).await;
    }
}

fn id_in(answer: &str) -> anyhow::Result<Uuid> {
    let body: Value = serde_json::from_str(answer.lines().last().unwrap_or_default())?;
    Ok(body["id"].as_str().context("no id")?.parse()?)
}
