//! Firms whose receivers are black holes: they hold what they were sent for the 10 s that a delivery
//! waits for an answer.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;
use tests::{Firm, World, activity, later};
use tokio::time::{interval, sleep};
use uuid::Uuid;

use crate::hosts::{Hosts, Manner};
use crate::pace::{Pace, Reported, Reporter};

/// How long it may take until they are stuck, or gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often to look how many are out.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How many firms, and on how many hosts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    firms: usize,
    hosts: u8,
    network: u8,
    /// Subscriptions of all of them; one firm may have 100.
    hooks: usize,
    /// Deliveries that are stuck before a phase begins.
    stuck: usize,
    /// More of them that come each second.
    more_per_second: usize,
}

impl Kind {
    /// Of eleven receivers one hangs, and is told of as much as each of the others.
    pub(super) const ONE_HOOK: Self = Self {
        name: "1 of 11 hangs",
        firms: 1,
        hosts: 1,
        network: 4,
        hooks: 1,
        stuck: 60,
        more_per_second: 6,
    };

    pub(super) const ONE_FIRM: Self =
        Self { name: "one firm, 100 hosts", firms: 1, hosts: 100, network: 2, ..Self::MANY };

    /// Each has a host of its own.
    pub(super) const TEN_FIRMS: Self =
        Self { name: "ten firms, 10 hosts", firms: 10, hosts: 10, network: 3, ..Self::MANY };

    const MANY: Self = Self { hooks: 100, stuck: 10_000, more_per_second: 100, ..Self::ONE_HOOK };

    const fn hooks_each(self) -> usize {
        self.hooks / self.firms
    }
}

/// The firms and their receivers.
pub(super) struct Hogs {
    kind: Kind,
    holes: Hosts,
    firms: Vec<Firm>,
}

impl Hogs {
    pub(super) async fn subscribe(world: &World, kind: Kind) -> anyhow::Result<Self> {
        let holes = Hosts::start(kind.network, kind.hosts, Manner::Silent).await?;
        let mut firms = Vec::new();
        for number in 0..kind.firms {
            let firm = world.firm().await;
            for hook in 0..kind.hooks_each() {
                let host = if kind.firms == 1 { hook } else { number };
                world.subscribe(&firm, &holes.target(host)).await;
            }
            firms.push(firm);
        }
        Ok(Self { kind, holes, firms })
    }

    /// Makes deliveries until so many are stuck, and as many are out as ever will be.
    pub(super) async fn get_stuck(&self, world: &World, by: &Reporter) -> anyhow::Result<()> {
        let time = Duration::from_secs(2);
        let count = self.kind.stuck / self.kind.hooks_each();
        by.steadily(&self.firms, Pace { per_second: count as f64 / 2.0, time }).await?;
        let began = Instant::now();
        while self.waiting(world).await? < i64::try_from(self.kind.stuck)? {
            ensure!(began.elapsed() < PATIENCE, "deliveries are not queued");
            sleep(LOOK_EVERY).await;
        }
        // Whatever can be out is.
        sleep(Duration::from_secs(1)).await;
        Ok(())
    }

    /// Makes more, and looks how many are out.
    pub(super) async fn go_on(&self, by: &Reporter, time: Duration) -> anyhow::Result<Vec<usize>> {
        let per_second = self.kind.more_per_second as f64 / self.kind.hooks_each() as f64;
        let more = by.steadily(&self.firms, Pace { per_second, time });
        let (_, out): (Vec<Reported>, _) = tokio::try_join!(more, self.look(time))?;
        Ok(out)
    }

    async fn look(&self, time: Duration) -> anyhow::Result<Vec<usize>> {
        let (end, mut pace, mut out) = (Instant::now() + time, interval(LOOK_EVERY), Vec::new());
        while Instant::now() < end {
            pace.tick().await;
            out.push(self.holes.out());
        }
        Ok(out)
    }

    /// Their deliveries that are not at their end.
    pub(super) async fn waiting(&self, world: &World) -> Result<i64, sqlx::Error> {
        let firm_ids: Vec<Uuid> = self.firms.iter().map(|firm| firm.id).collect();
        sqlx::query_scalar("select count(*) from outbox where firm_id = any($1)")
            .bind(firm_ids)
            .fetch_one(world.pool())
            .await
    }

    /// Closes the firms, which cancels what they have, and waits until nothing of it is out.
    pub(super) async fn close(&self, world: &World) -> anyhow::Result<()> {
        let closed = |firm: &Firm| later(activity(firm.id, "firm.closed", json!({})), 1);
        let events: Vec<_> = self.firms.iter().map(closed).collect();
        let answer = world.report(&events).await;
        ensure!(answer.status == 202, "closing the hogs: {}", answer.body);
        let began = Instant::now();
        while self.waiting(world).await? > 0 {
            ensure!(began.elapsed() < PATIENCE, "what closed firms have is not cancelled");
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}
