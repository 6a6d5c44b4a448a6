//! The load while faults happen: responses come in at an even pace, and keys and subscriptions
//! come and go. A caller without a good answer asks again, as the product does.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tests::invariants::Acknowledged;
use tests::raw::{call_internally, report, try_call};
use tests::{Firm, World, submitted};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::receivers::{KINDS, Receivers};
use super::service::Services;

/// Firms, each with a subscription of every kind.
const FIRMS: usize = 4;

/// Responses reported at a time.
const BATCH: usize = 5;

/// A caller without an answer asks again after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// A key comes with its subscription, or goes, so often.
const COMING_AND_GOING: Duration = Duration::from_secs(1);

/// How fast responses come, and until when.
pub(crate) struct Pace {
    pub(crate) responses_per_second: u32,
    pub(crate) stop: CancellationToken,
}

/// Firms, and the batches that were reported about them.
pub(crate) struct Load {
    firms: Vec<Firm>,
    hooks: Vec<Uuid>,
    target: String,
    reported: Mutex<Vec<ReportedBatch>>,
    /// Counts them.
    count: watch::Sender<usize>,
}

/// A batch that was acknowledged.
#[derive(Debug, Clone)]
pub(super) struct ReportedBatch {
    body: String,
    pub(super) responses: Vec<Uuid>,
    pub(super) acknowledged: Instant,
}

/// A key and its subscription.
struct Guest<'a> {
    firm: &'a Firm,
    key_id: Uuid,
    key: String,
    hook: Option<Uuid>,
}

/// How a key and its subscription go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// The subscription is removed, and the key revoked after it.
    OneByOne,
    /// The key is revoked, and its subscription goes along.
    Together,
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
        let (reported, count) = (Mutex::default(), watch::Sender::new(0));
        Self { firms, hooks, target: receivers.url("well"), reported, count }
    }

    /// Reports responses, and has keys and subscriptions come and go, until the stop. Returns the
    /// acknowledged writes.
    pub(crate) async fn run(
        &self,
        pace: &Pace,
        world: &World,
        services: &Services,
    ) -> anyhow::Result<Acknowledged> {
        let (reported, visited) = tokio::try_join!(
            self.report(pace, world, services),
            self.come_and_go(&pace.stop, world, services),
        )?;
        Ok(Acknowledged {
            hooks: [reported.hooks, visited.hooks].concat(),
            responses: reported.responses,
            ..visited
        })
    }

    /// Waits until a report that has not been taken in yet is.
    pub(crate) async fn until_next_report(&self) {
        let mut count = self.count.subscribe();
        let present = *count.borrow_and_update();
        let _ = count.wait_for(|count| *count > present).await;
    }

    /// Reports responses alone until the stop. Returns the acknowledged writes.
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
            let body = serde_json::to_string(&events)?;
            report_surely(&body, world, services).await;
            responses.extend_from_slice(&ids);
            let acknowledged = Instant::now();
            self.reported().push(ReportedBatch { body, responses: ids, acknowledged });
            self.count.send_modify(|count| *count += 1);
        }
        Ok(Acknowledged { hooks: self.hooks.clone(), responses, ..Acknowledged::default() })
    }

    /// Reports everything once more, as a product does after a loss.
    pub(crate) async fn report_again(&self, world: &World, services: &Services) {
        for batch in &self.batches() {
            report_surely(&batch.body, world, services).await;
        }
    }

    /// All batches that were acknowledged.
    pub(super) fn batches(&self) -> Vec<ReportedBatch> {
        self.reported().clone()
    }

    fn reported(&self) -> MutexGuard<'_, Vec<ReportedBatch>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a key with a subscription, ends both a second later, and so on. The end races claims.
    async fn come_and_go(
        &self,
        stop: &CancellationToken,
        world: &World,
        services: &Services,
    ) -> anyhow::Result<Acknowledged> {
        let mut acknowledged = Acknowledged::default();
        let mut pace = tokio::time::interval(COMING_AND_GOING);
        let leavings = [Leaving::OneByOne, Leaving::Together];
        for (firm, leaving) in self.firms.iter().cycle().zip(leavings.into_iter().cycle()) {
            pace.tick().await;
            if stop.is_cancelled() {
                break;
            }
            let Some(mut guest) = Guest::make_key(firm, world, services).await? else { continue };
            guest.subscribe(&self.target, services).await?;
            acknowledged.hooks.extend(guest.hook);
            pace.tick().await;
            guest.leave(leaving, &mut acknowledged, world, services).await;
        }
        Ok(acknowledged)
    }
}

impl<'a> Guest<'a> {
    /// Makes a key, if it is acknowledged.
    async fn make_key(
        firm: &'a Firm,
        world: &World,
        services: &Services,
    ) -> anyhow::Result<Option<Self>> {
        let path = format!("/firms/{}/keys", firm.id);
        let body = json!({"member_id": firm.owner, "name": "a guest"}).to_string();
        let made = call_internally(services.internal, ("POST", &path), world.token(), &body).await;
        let Some((_, answer)) = made.filter(|(status, _)| *status == 201) else { return Ok(None) };
        let body = body_of(&answer)?;
        let key = body["key"].as_str().context("no key")?.to_owned();
        Ok(Some(Self { firm, key_id: id_in(&body)?, key, hook: None }))
    }

    /// Makes a subscription, if it is acknowledged.
    async fn subscribe(&mut self, target: &str, services: &Services) -> anyhow::Result<()> {
        let body = json!({"target_url": target, "trigger": "form_submitted"}).to_string();
        let made = try_call(services.public, ("POST", "/hooks"), &self.key, &body).await;
        if let Some((_, answer)) = made.filter(|(status, _)| *status == 201) {
            self.hook = Some(id_in(&body_of(&answer)?)?);
        }
        Ok(())
    }

    /// Ends the key and its subscription. Notes the acknowledged writes.
    async fn leave(
        self,
        leaving: Leaving,
        acknowledged: &mut Acknowledged,
        world: &World,
        services: &Services,
    ) {
        if let (Leaving::OneByOne, Some(hook)) = (leaving, self.hook) {
            let path = format!("/hooks/{hook}");
            let gone = try_call(services.public, ("DELETE", &path), &self.key, "").await;
            acknowledged
                .removed_hooks
                .extend(gone.filter(|(status, _)| *status == 200).map(|_| hook));
        }
        let path = format!("/firms/{}/keys/{}", self.firm.id, self.key_id);
        let revoke = || call_internally(services.internal, ("DELETE", &path), world.token(), "");
        // A key that stayed would count against the firm's limit. A revoked key is answered 404.
        while revoke().await.is_none_or(|(status, _)| ![200, 404].contains(&status.as_u16())) {
            tokio::time::sleep(AGAIN).await;
        }
        acknowledged.revoked_keys.push(self.key_id);
        acknowledged.removed_hooks.extend(self.hook);
    }
}

/// Reports until it is acknowledged.
async fn report_surely(batch: &str, world: &World, services: &Services) {
    while report(services.internal, world.token(), batch).await.is_none_or(|status| status != 202) {
        tokio::time::sleep(AGAIN).await;
    }
}

fn body_of(answer: &str) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(answer.lines().last().unwrap_or_default())?)
}

fn id_in(body: &Value) -> anyhow::Result<Uuid> {
    Ok(body["id"].as_str().context("no id")?.parse()?)
}
