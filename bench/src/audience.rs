//! Firms with one subscription each, and the receiver of all of them, in this process.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use chrono::DateTime;
use domain::activity::{delivery_id, occurrence_id};
use domain::subscription::Trigger;
use domain::values::Timestamp;
use tests::{Firm, World};
use tokio::time::sleep;
use uuid::Uuid;

use crate::hosts::{Hosts, Manner};
use crate::pace::Reported;

/// When nothing has arrived for so long, missing deliveries are lost.
const STANDSTILL: Duration = Duration::from_secs(20);

/// The firms, and their receiver.
pub(crate) struct Audience {
    pub(crate) receiver: Hosts,
    pub(crate) firms: Vec<Firm>,
    hooks: HashMap<Uuid, Uuid>,
}

/// The delivery that a report leads to, as the receiver calls it: without the time in its id.
pub(crate) fn delivery(of: &Reported, hook_id: Uuid) -> Uuid {
    let key = of.response_id.to_string();
    let occurrence = occurrence_id(of.firm_id, Trigger::FormSubmitted, &key);
    delivery_id(occurrence, Timestamp::new(DateTime::UNIX_EPOCH), hook_id)
}

impl Audience {
    /// So many firms, with one receiver for all.
    pub(crate) async fn subscribe(world: &World, count: usize) -> anyhow::Result<Self> {
        Self::subscribe_to(Hosts::start(1, 1, Manner::Well).await?, world, count).await
    }

    /// So many firms, whose receivers are on these hosts in turn.
    pub(crate) async fn subscribe_to(
        receiver: Hosts,
        world: &World,
        count: usize,
    ) -> anyhow::Result<Self> {
        let (mut firms, mut hooks) = (Vec::new(), HashMap::new());
        for number in 0..count {
            let firm = world.firm().await;
            hooks.insert(firm.id, world.subscribe(&firm, &receiver.target(number)).await);
            firms.push(firm);
        }
        Ok(Self { receiver, firms, hooks })
    }

    /// The deliveries that reports lead to, and when they were due.
    pub(crate) fn due<'a>(
        &'a self,
        reported: &'a [Reported],
    ) -> impl Iterator<Item = (Uuid, Instant)> + 'a {
        reported.iter().map(|of| (delivery(of, self.hooks[&of.firm_id]), of.due))
    }

    /// Waits until so many requests came, or none comes any more.
    pub(crate) async fn arrived(&self, count: usize) {
        let (mut last, mut moved) = (0, Instant::now());
        while last < count && moved.elapsed() < STANDSTILL {
            sleep(Duration::from_millis(20)).await;
            let now = self.receiver.arrived();
            if now != last {
                (last, moved) = (now, Instant::now());
            }
        }
    }
}
