//! What a run came to, in numbers.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sqlx::PgPool;
use tests::ATTEMPTS;
use tests::invariants::Run;
use uuid::Uuid;

use super::receivers::Receivers;

/// Tries of a delivery (contract, section Retries).
const TRIES: usize = 8;

/// The numbers.
pub(crate) struct Report {
    kills: Vec<(&'static str, usize)>,
    states: Vec<(String, i64)>,
    requests: usize,
    lost: usize,
    /// Deliveries that arrived again after an answer of 2xx.
    duplicates: usize,
    /// Of those, the ones that history has no interrupted try of: not from a kill.
    unexplained: usize,
    interrupted: i64,
    too_often: usize,
    after_removal: i64,
    acknowledged: (usize, usize, usize),
    removed: i64,
}

impl Report {
    pub(crate) async fn of(
        run: &Run<'_>,
        receivers: &Receivers,
        kills: Vec<(&'static str, usize)>,
    ) -> anyhow::Result<Self> {
        let told = Told::by(run.pool).await?;
        let (answered, arrived) = (receivers.answered_well(), receivers.arrived());
        let again: Vec<_> = answered.iter().filter(|(_, times)| **times > 1).collect();
        let mut requests: HashMap<Uuid, usize> = HashMap::new();
        for request in run.requests {
            *requests.entry(request.delivery_id).or_default() += 1;
        }
        let never_came = told.delivered.iter().filter(|id| !answered.contains_key(id)).count();
        let failed_unseen = told.failed.iter().filter(|id| !arrived.contains(id)).count();
        let acknowledged = run.acknowledged;
        Ok(Self {
            kills,
            requests: run.requests.len(),
            lost: never_came + failed_unseen,
            duplicates: again.len(),
            unexplained: again.iter().filter(|(id, _)| !told.interrupted.contains(*id)).count(),
            interrupted: told.interruptions,
            too_often: requests.values().filter(|times| **times > TRIES).count(),
            after_removal: count(run.pool, "select count(*) from witness.claims where lane_closed")
                .await?,
            acknowledged: (
                acknowledged.responses.len(),
                acknowledged.hooks.len(),
                acknowledged.removed_hooks.len(),
            ),
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

    pub(super) fn print(&self, seed: u64, rested: Duration) {
        let kills: usize = self.kills.iter().map(|(_, times)| times).sum();
        println!("seed {seed}: {kills} kills {:?}", self.kills);
        self.print_states(rested);
    }

    /// Deliveries that never arrived, though history says that they did or failed.
    pub(crate) const fn lost(&self) -> usize {
        self.lost
    }

    pub(crate) fn print_states(&self, rested: Duration) {
        println!("at rest {rested:.0?} later");
        let (responses, hooks, removals) = self.acknowledged;
        println!("acknowledged: {responses} responses, {hooks} subscriptions, {removals} removals");
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

/// What history says.
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
