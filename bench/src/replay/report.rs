//! The numbers of a run.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde::Serialize;
use sqlx::PgPool;
use tests::{ATTEMPTS, World};
use uuid::Uuid;

use super::receiver::{Kept, Receiver};

/// One command, until all of it had come to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) selected: u64,
    pub(super) took: Duration,
    /// How many had arrived in all by its end.
    pub(super) arrived: usize,
}

/// The kill.
#[derive(Debug, Clone, Copy)]
pub(super) struct Killed {
    pub(super) at: Instant,
    /// How many had arrived.
    pub(super) before: usize,
    /// When the service was ready again.
    pub(super) ready: Instant,
}

/// The numbers.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    deliveries: i64,
    /// How many each command selected.
    selected: Vec<u64>,
    /// How long each took, to the last answer in history and the last lease.
    seconds: Vec<f64>,
    per_second_before: f64,
    per_second_after: f64,
    /// The most that arrived in any second.
    most_in_a_second: usize,
    away_seconds: f64,
    /// Never answered well, or not delivered in history.
    missing: i64,
    /// Answered well more than once.
    twice: usize,
    /// Deliveries answered well more than once that no cut-off try explains.
    unexplained: usize,
    /// Tries that were cut off.
    interrupted: usize,
    /// Deliveries that came with more than one body.
    other_bytes: usize,
    replays: i64,
    /// Entries of their requests and ends.
    audited: (i64, i64),
}

impl Report {
    pub(super) async fn new(
        world: &World,
        receiver: &Receiver,
        (rounds, killed): (Vec<Round>, Killed),
    ) -> anyhow::Result<Self> {
        world.project().await;
        let pool = world.pool();
        let interrupted =
            format!("select delivery_id from {ATTEMPTS} where outcome = 'interrupted'");
        let interrupted: Vec<Uuid> = sqlx::query_scalar(&interrupted).fetch_all(pool).await?;
        let delivered: Vec<Uuid> = sqlx::query_scalar(DELIVERED).fetch_all(pool).await?;
        let deliveries = count(pool, "select count(*) from deliveries").await?;
        let report = receiver.look(|kept| Self {
            bench: "replay",
            deliveries,
            selected: rounds.iter().map(|round| round.selected).collect(),
            seconds: rounds.iter().map(|round| round.took.as_secs_f64()).collect(),
            per_second_before: pace(&kept.arrivals[..killed.before]),
            per_second_after: pace(after(kept, killed, rounds[0])),
            most_in_a_second: most_in_a_second(&kept.arrivals),
            away_seconds: killed.ready.duration_since(killed.at).as_secs_f64(),
            missing: deliveries - arrived(kept, &delivered),
            twice: twice(kept).count(),
            unexplained: unexplained(kept, &interrupted),
            interrupted: interrupted.len(),
            other_bytes: kept.hashes.values().filter(|hashes| hashes.len() > 1).count(),
            replays: 0,
            audited: (0, 0),
        });
        let requested = count(pool, REQUESTED).await?;
        let finished = count(pool, FINISHED).await?;
        let replays = count(pool, "select count(*) from replays").await?;
        Ok(Self { replays, audited: (requested, finished), ..report })
    }

    /// Whether nothing is in it that must not be.
    pub(super) fn is_clean(&self) -> bool {
        self.missing == 0
            && self.unexplained == 0
            && self.other_bytes == 0
            && self.audited == (self.replays, self.replays)
            && self.selected.first().is_some_and(|first| *first == self.deliveries.cast_unsigned())
    }

    /// The table, then the line.
    pub(super) fn print(&self, postgres: &str, failed_in: Duration) -> serde_json::Result<()> {
        println!("{} deliveries failed in {failed_in:.1?}; PostgreSQL {postgres}", self.deliveries);
        println!("round {:>10} {:>10}", "selected", "seconds");
        for (place, (selected, seconds)) in self.selected.iter().zip(&self.seconds).enumerate() {
            println!("{:>5} {selected:>10} {seconds:>10.1}", place + 1);
        }
        println!(
            "a second: {:.0} before the kill, {:.0} after it, {} at most; away for {:.1} s",
            self.per_second_before, self.per_second_after, self.most_in_a_second, self.away_seconds
        );
        println!(
            "{} missing; {} twice, of which {} not from the kill ({} tries were cut off); {} with \
             other bytes",
            self.missing, self.twice, self.unexplained, self.interrupted, self.other_bytes
        );
        let (requested, finished) = self.audited;
        println!("{} replays; audited: {requested} requested, {finished} finished", self.replays);
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}

const DELIVERED: &str = "select delivery_id from deliveries where state = 'delivered'";
const REQUESTED: &str = "select count(*) from audit_log where action = 'replay_requested'";
const FINISHED: &str = "select count(*) from audit_log where action = 'replay_finished'";

async fn count(pool: &PgPool, question: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(question).fetch_one(pool).await
}

/// How many of these the receiver answered well.
fn arrived(kept: &Kept, delivered: &[Uuid]) -> i64 {
    let arrived = delivered.iter().filter(|id| kept.well.contains_key(id)).count();
    i64::try_from(arrived).unwrap_or(i64::MAX)
}

fn twice(kept: &Kept) -> impl Iterator<Item = &Uuid> {
    kept.well.iter().filter(|(_, times)| **times > 1).map(|(id, _)| id)
}

fn unexplained(kept: &Kept, interrupted: &[Uuid]) -> usize {
    let interrupted: HashSet<&Uuid> = interrupted.iter().collect();
    twice(kept).filter(|id| !interrupted.contains(id)).count()
}

/// The arrivals of the first round after the kill. Arrivals of later rounds come after them.
fn after(kept: &Kept, killed: Killed, first: Round) -> &[Instant] {
    let from = kept.arrivals.partition_point(|at| *at < killed.ready).min(first.arrived);
    &kept.arrivals[from..first.arrived]
}

fn pace(arrivals: &[Instant]) -> f64 {
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        return 0.0;
    };
    arrivals.len() as f64 / last.duration_since(*first).as_secs_f64().max(0.001)
}

fn most_in_a_second(arrivals: &[Instant]) -> usize {
    let (mut from, mut most) = (0, 0);
    for (place, at) in arrivals.iter().enumerate() {
        while at.duration_since(arrivals[from]) > Duration::from_secs(1) {
            from += 1;
        }
        most = most.max(place + 1 - from);
    }
    most
}
