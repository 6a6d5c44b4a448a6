//! The numbers of a run.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sqlx::PgPool;
use tests::invariants::{Acknowledged, Run};
use tests::{ATTEMPTS, DrawnFault, FaultKind};
use uuid::Uuid;

use super::causing::CausedFault;
use super::receivers::Receivers;

/// Tries of a delivery (contract, section Retries).
const TRIES: usize = 8;

/// Prints the faults that were drawn, in their order.
pub(super) fn print_drawn(faults: &[DrawnFault]) {
    let names: Vec<&str> = faults.iter().map(|fault| fault.kind.name()).collect();
    println!("drawn: {}", names.join(" "));
}

/// Prints a line for each kind of fault.
pub(super) fn print_caused(caused: &[CausedFault]) {
    println!("{:<20} {:>6} {:>24}", "fault", "number", "slowest to take in (s)");
    for kind in FaultKind::ALL {
        let of_kind = || caused.iter().filter(|fault| fault.kind == kind);
        let Some(slowest) = of_kind().map(|fault| fault.until_taken).max() else { continue };
        let (name, number) = (kind.name(), of_kind().count());
        println!("{name:<20} {number:>6} {:>24.2}", slowest.as_secs_f64());
    }
    let lost: usize = caused.iter().map(|fault| fault.lost_commits).sum();
    println!("answers to COMMITs that were lost: {lost}");
}

/// The numbers.
pub(crate) struct Report {
    states: Vec<(String, i64)>,
    requests: usize,
    lost: usize,
    /// Deliveries that arrived again after an answer of 2xx.
    duplicates: usize,
    /// Duplicates of which history has no interrupted try: not from a kill.
    unexplained: usize,
    interrupted: i64,
    too_often: usize,
    after_removal: i64,
    acknowledged: Acknowledged,
    removed: i64,
}

impl Report {
    pub(crate) async fn new(run: &Run<'_>, receivers: &Receivers) -> anyhow::Result<Self> {
        let told = Told::by(run.pool).await?;
        let (answered, arrived) = (receivers.answered_well(), receivers.arrived());
        let again: Vec<_> = answered.iter().filter(|(_, times)| **times > 1).collect();
        let mut requests: HashMap<Uuid, usize> = HashMap::new();
        for request in run.requests {
            *requests.entry(request.delivery_id).or_default() += 1;
        }
        let never_came = told.delivered.iter().filter(|id| !answered.contains_key(id)).count();
        let failed_unseen = told.failed.iter().filter(|id| !arrived.contains(id)).count();
        Ok(Self {
            requests: run.requests.len(),
            lost: never_came + failed_unseen,
            duplicates: again.len(),
            unexplained: again.iter().filter(|(id, _)| !told.interrupted.contains(*id)).count(),
            interrupted: told.interruptions,
            too_often: requests.values().filter(|times| **times > TRIES).count(),
            after_removal: count(run.pool, "select count(*) from witness.claims where lane_closed")
                .await?,
            acknowledged: run.acknowledged.clone(),
            removed: count(
                run.pool,
                "select count(*) from hooks where removal_reason = 'target_gone'",
            )
            .await?,
            states: told.states,
        })
    }

    /// Whether nothing is in it that must not be.
    pub(crate) const fn is_clean(&self) -> bool {
        self.lost == 0 && self.unexplained == 0 && self.too_often == 0 && self.after_removal == 0
    }

    /// Deliveries that never arrived, though history says that they did or failed.
    pub(crate) const fn lost(&self) -> usize {
        self.lost
    }

    pub(crate) fn print_states(&self, rested: Duration) {
        println!("at rest {rested:.0?} later");
        let Acknowledged { responses, hooks, removed_hooks, revoked_keys } = &self.acknowledged;
        println!(
            "acknowledged: {} responses, {} subscriptions, {} removals, {} revocations",
            responses.len(),
            hooks.len(),
            removed_hooks.len(),
            revoked_keys.len()
        );
        println!("deliveries: {:?}; {} requests", self.states, self.requests);
        println!("subscriptions removed by 410: {}", self.removed);
        println!("lost: {}", self.lost);
        println!(
            "duplicates: {}, of which not from a kill: {} ({} tries were interrupted)",
            self.duplicates, self.unexplained, self.interrupted
        );
        println!("more than {TRIES} tries: {}", self.too_often);
        println!("sends from a claim that committed after the removal: {}", self.after_removal);
    }
}

/// The facts of a run in history.
struct Told {
    states: Vec<(String, i64)>,
    delivered: Vec<Uuid>,
    failed: Vec<Uuid>,
    interrupted: HashSet<Uuid>,
    /// Attempts that were.
    interruptions: i64,
}

impl Told {
    async fn by(pool: &PgPool) -> Result<Self, sqlx::Error> {
        let states = "select state, count(*) from deliveries group by state order by state";
        let of_state = "select delivery_id from deliveries where state = $1";
        let interrupted =
            format!("select delivery_id from {ATTEMPTS} where outcome = 'interrupted'");
        let delivered = sqlx::query_scalar(of_state).bind("delivered").fetch_all(pool).await?;
        let failed = sqlx::query_scalar(of_state).bind("failed").fetch_all(pool).await?;
        let interrupted: Vec<Uuid> = sqlx::query_scalar(&interrupted).fetch_all(pool).await?;
        let states = sqlx::query_as(states).fetch_all(pool).await?;
        let interruptions = i64::try_from(interrupted.len()).unwrap_or(i64::MAX);
        let interrupted = interrupted.into_iter().collect();
        Ok(Self { states, delivered, failed, interrupted, interruptions })
    }
}

async fn count(pool: &PgPool, question: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(question).fetch_one(pool).await
}
