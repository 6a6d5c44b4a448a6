//! All receivers are away for a time and come back, while events come at a rate.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use tests::World;
use tokio::time::sleep;
use uuid::Uuid;

use super::hogs::{close, submit_at_once};
use super::report::{MinuteBack, OutageFigure};
use crate::audience::Audience;
use crate::hosts::{Hosts, Manner};
use crate::latency::Latency;
use crate::pace::{Pace, Reporter};

/// Firms, and hosts.
const FIRMS: usize = 40;
const HOSTS: u8 = 40;

/// The return is compared with a burst of as many events as come in this time.
const BURST_TIME: Duration = Duration::from_secs(20);

const MINUTE: Duration = Duration::from_secs(60);

/// An outage of all receivers.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutageShape {
    pub(super) name: &'static str,
    /// The second byte of the hosts' addresses.
    pub(super) network: u8,
    /// The manner of the receivers meanwhile.
    pub(super) manner: Manner,
}

/// How long the receivers are away, and how long the return is watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutageTimes {
    pub(super) down: Duration,
    pub(super) after: Duration,
    pub(super) per_second: f64,
}

pub(super) async fn measure(
    world: &World,
    reporter: &Reporter,
    shape: OutageShape,
    times: OutageTimes,
) -> anyhow::Result<OutageFigure> {
    let hosts = Hosts::start(shape.network, HOSTS, Manner::Well).await?;
    let audience = Audience::subscribe_to(hosts, world, FIRMS).await?;
    let events = times.per_second * BURST_TIME.as_secs_f64();
    let burst_per_second = burst(world, &audience, events as usize).await?;
    audience.receiver.behave(shape.manner);
    let pace = Pace { per_second: times.per_second, time: times.down + times.after };
    let outage = async {
        sleep(times.down).await;
        audience.receiver.behave(Manner::Well);
        anyhow::Ok(Instant::now())
    };
    let (reported, back) = tokio::try_join!(reporter.steadily(&audience.firms, pace), outage)?;
    let due: HashMap<Uuid, Instant> = audience.due(&reported).collect();
    sleep(Duration::from_secs(1)).await;
    let mut answered: HashMap<Uuid, Instant> = HashMap::new();
    for (delivery_id, at) in audience.receiver.take_arrivals() {
        if at >= back {
            answered.entry(delivery_id).or_insert(at);
        }
    }
    close(world, &audience.firms).await?;
    let seen = Return { back, due, answered };
    Ok(seen.figure(shape.name, times, burst_per_second))
}

/// Deliveries a second while all receivers answer.
async fn burst(world: &World, audience: &Audience, events: usize) -> anyhow::Result<f64> {
    let began = Instant::now();
    submit_at_once(world, &audience.firms, events).await?;
    audience.arrived(events).await;
    let arrivals = audience.receiver.take_arrivals();
    let last = arrivals.iter().map(|(_, at)| *at).max().context("nothing arrived")?;
    Ok(arrivals.len() as f64 / (last - began).as_secs_f64())
}

/// When deliveries were due, and when they were answered well after the return.
struct Return {
    back: Instant,
    due: HashMap<Uuid, Instant>,
    answered: HashMap<Uuid, Instant>,
}

impl Return {
    fn figure(
        &self,
        name: &'static str,
        times: OutageTimes,
        burst_per_second: f64,
    ) -> OutageFigure {
        let mut backlog: Vec<Duration> = Vec::new();
        let mut backlog_size = 0;
        for (delivery_id, _) in self.due.iter().filter(|(_, due)| **due < self.back) {
            backlog_size += 1;
            backlog.extend(self.answered.get(delivery_id).map(|at| *at - self.back));
        }
        backlog.sort_unstable();
        let drained = |share: f64| backlog.get((backlog_size as f64 * share) as usize).copied();
        let drain_per_second = drained(0.9).map(|took| {
            let all = self.answered.values().filter(|at| **at - self.back <= took).count();
            all as f64 / took.as_secs_f64()
        });
        OutageFigure {
            name,
            down_seconds: times.down.as_secs(),
            per_second: times.per_second,
            minutes: self.minutes(times.after),
            backlog: backlog_size,
            backlog_left: backlog_size - backlog.len(),
            half_drained_seconds: drained(0.5).map(|took| took.as_secs_f64()),
            mostly_drained_seconds: drained(0.9).map(|took| took.as_secs_f64()),
            drain_per_second,
            burst_per_second,
            drain_to_burst: drain_per_second.map(|rate| rate / burst_per_second),
        }
    }

    /// The waits of new events, by the minute in which they were due.
    fn minutes(&self, after: Duration) -> Vec<MinuteBack> {
        let count = after.as_secs().div_ceil(MINUTE.as_secs());
        let mut minutes = Vec::new();
        for number in 1..=count {
            let mut took = Vec::new();
            let mut late = 0;
            for (delivery_id, due) in &self.due {
                let Some(since) = due.checked_duration_since(self.back) else { continue };
                if since.as_secs() / MINUTE.as_secs() != number - 1 {
                    continue;
                }
                match self.answered.get(delivery_id) {
                    Some(at) => took.push(microseconds(at.saturating_duration_since(*due))),
                    None => late += 1,
                }
            }
            minutes.push(MinuteBack {
                number,
                events: took.len() + late,
                late,
                latency: Latency::new(took),
            });
        }
        minutes
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
