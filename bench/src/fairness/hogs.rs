//! Firms whose receivers cost more than others: they never answer, answer late or refuse; and hosts
//! with one retry each.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;
use tests::{Firm, World, activity, later};
use tokio::time::{interval, sleep};
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

use super::report::HogFigures;
use crate::activity::submitted_at;
use crate::hosts::{Hosts, Manner};
use crate::pace::{Pace, Reported, Reporter};
use crate::sleeping::{add_sleeping_hosts, remove_sleeping_hosts};

/// The longest wait until deliveries of the hogs are queued, answered or cancelled.
const PATIENCE: Duration = Duration::from_secs(120);

/// The interval of looks at attempts under way.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Events of a call that reports many at once.
const EVENTS_PER_CALL: usize = 100;

/// A shape of load: firms, and the hosts that they share.
#[derive(Debug, Clone, Copy)]
pub(super) struct HogShape {
    pub(super) name: &'static str,
    pub(super) firms: usize,
    pub(super) hosts: u8,
    /// The second byte of the hosts' addresses.
    pub(super) network: u8,
    pub(super) manner: Manner,
    /// Whether all hosts answer until the phase begins.
    pub(super) answers_first: bool,
    /// Subscriptions of all firms; one firm may have 100.
    pub(super) hooks: usize,
    /// Deliveries that are made before the phase begins.
    pub(super) stuck: usize,
    /// Deliveries that are made each second of the phase.
    pub(super) more_per_second: usize,
    /// Hosts with one retry each, due in an hour.
    pub(super) sleeping_hosts: i32,
}

impl HogShape {
    fn hooks_each(self) -> usize {
        self.hooks.checked_div(self.firms).unwrap_or_default().max(1)
    }
}

/// The firms and their receivers.
pub(super) struct Hogs {
    shape: HogShape,
    hosts: Hosts,
    firms: Vec<Firm>,
}

impl Hogs {
    pub(super) async fn subscribe(world: &World, shape: HogShape) -> anyhow::Result<Self> {
        let hosts = Hosts::start(shape.network, shape.hosts, shape.manner).await?;
        let mut firms = Vec::new();
        for number in 0..shape.firms {
            let firm = world.firm().await;
            for hook in 0..shape.hooks_each() {
                let host = if shape.firms == 1 { hook } else { number };
                world.subscribe(&firm, &hosts.target(host)).await;
            }
            firms.push(firm);
        }
        Ok(Self { shape, hosts, firms })
    }

    /// Makes the shape's first deliveries, and waits until all are queued and the sender has used
    /// its limits up.
    pub(super) async fn get_stuck(&self, world: &World) -> anyhow::Result<()> {
        add_sleeping_hosts(world, self.shape.sleeping_hosts).await?;
        if self.shape.answers_first {
            self.answer_one_each(world).await?;
            self.hosts.behave(self.shape.manner);
        }
        let events = self.shape.stuck / self.shape.hooks_each();
        submit_at_once(world, &self.firms, events).await?;
        let began = Instant::now();
        while self.unspread(world).await? > 0 {
            ensure!(began.elapsed() < PATIENCE, "deliveries are not queued");
            sleep(LOOK_INTERVAL).await;
        }
        if !self.shape.answers_first {
            // Within a second the sender has as many attempts under way as its limits allow.
            sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    /// Makes a delivery of each firm, and waits until all are answered.
    async fn answer_one_each(&self, world: &World) -> anyhow::Result<()> {
        self.hosts.behave(Manner::Well);
        submit_at_once(world, &self.firms, self.firms.len()).await?;
        until_none_waits(world, &self.firms, "deliveries are not answered").await
    }

    /// Makes more, and looks how many are out.
    pub(super) async fn go_on(
        &self,
        world: &World,
        by: &Reporter,
        time: Duration,
    ) -> anyhow::Result<HogFigures> {
        let more = async {
            let per_second = self.shape.more_per_second as f64 / self.shape.hooks_each() as f64;
            if per_second == 0.0 {
                return Ok(Vec::new());
            }
            by.steadily(&self.firms, Pace { per_second, time }).await
        };
        let (_reported, under_way): (Vec<Reported>, _) = tokio::try_join!(more, self.look(time))?;
        Ok(HogFigures::new(under_way, waiting(world, &self.firms).await?))
    }

    async fn look(&self, time: Duration) -> anyhow::Result<Vec<usize>> {
        let (end, mut pace, mut out) = (Instant::now() + time, interval(LOOK_INTERVAL), Vec::new());
        while Instant::now() < end {
            pace.tick().await;
            out.push(self.hosts.out());
        }
        Ok(out)
    }

    async fn unspread(&self, world: &World) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("select count(*) from unspread where firm_id = any($1)")
            .bind(ids(&self.firms))
            .fetch_one(world.pool())
            .await
    }

    /// Takes everything of the shape away.
    pub(super) async fn leave(&self, world: &World) -> anyhow::Result<()> {
        remove_sleeping_hosts(world).await?;
        close(world, &self.firms).await
    }
}

/// Reports so many responses of these firms in turn, in calls one after the other.
pub(super) async fn submit_at_once(
    world: &World,
    firms: &[Firm],
    count: usize,
) -> anyhow::Result<()> {
    let firms: Vec<&Firm> = firms.iter().cycle().take(count).collect();
    for firms in firms.chunks(EVENTS_PER_CALL) {
        let now = world.clock.now();
        let submitted = |firm: &&Firm| submitted_at(now, firm, SystemEntropy.new_id());
        let answer = world.report(&firms.iter().map(submitted).collect::<Vec<_>>()).await;
        ensure!(answer.status == 202, "reporting: {}", answer.body);
    }
    Ok(())
}

/// Closes firms, which cancels their deliveries, and waits until nothing is out.
pub(super) async fn close(world: &World, firms: &[Firm]) -> anyhow::Result<()> {
    if firms.is_empty() {
        return Ok(());
    }
    let closed = |firm: &Firm| later(activity(firm.id, "firm.closed", json!({})), 1);
    let events: Vec<_> = firms.iter().map(closed).collect();
    let answer = world.report(&events).await;
    ensure!(answer.status == 202, "closing firms: {}", answer.body);
    until_none_waits(world, firms, "deliveries of closed firms are not cancelled").await
}

/// Waits until all deliveries of these firms have ended. `fault` is the error after too long.
async fn until_none_waits(
    world: &World,
    firms: &[Firm],
    fault: &'static str,
) -> anyhow::Result<()> {
    let began = Instant::now();
    while waiting(world, firms).await? > 0 {
        ensure!(began.elapsed() < PATIENCE, fault);
        sleep(LOOK_INTERVAL).await;
    }
    Ok(())
}

/// Deliveries of these firms that have not ended.
async fn waiting(world: &World, firms: &[Firm]) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from outbox where firm_id = any($1)")
        .bind(ids(firms))
        .fetch_one(world.pool())
        .await
}

fn ids(firms: &[Firm]) -> Vec<Uuid> {
    firms.iter().map(|firm| firm.id).collect()
}
