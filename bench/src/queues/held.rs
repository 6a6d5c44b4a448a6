//! Beside a held snapshot: claims and records of a lane of which much has ended since.

use std::time::Duration;

use anyhow::ensure;
use deliverer::SendLimits;
use deliverer::attempt::FinishedAttempt;
use deliverer::claim::{ScanFloors, claim_beyond};
use deliverer::outgoing::OutgoingExchange;
use deliverer::record::record_batch;
use domain::delivery::AttemptAnswer;
use domain::delivery::pressure::HostCaps;
use sqlx::{Connection, Executor, PgConnection};
use tests::Templates;
use uuid::Uuid;

use super::args::Queues;
use super::scene::{Row, Scene, timed};

/// Deliveries that one claim takes.
const CLAIMED: i32 = 100;

/// The times of some rounds.
#[derive(Default)]
struct Times {
    claims: Vec<Duration>,
    successes: Vec<Duration>,
    failures: Vec<Duration>,
}

pub(super) async fn measure(cluster: &Templates, command: &Queues) -> anyhow::Result<Vec<Row>> {
    let scene = Scene::on(cluster).await;
    let mut floors = ScanFloors::default();
    scene.rounds(5, &mut floors).await?;
    let without = scene.rounds(command.rounds, &mut floors).await?;
    let mut holder = PgConnection::connect_with(&scene.world.database.main).await?;
    holder.execute("begin isolation level repeatable read; select from lanes").await?;
    scene.finish(command.finished, &mut floors).await?;
    scene.rounds(5, &mut floors).await?;
    let with = scene.rounds(command.rounds, &mut floors).await?;
    holder.close().await?;
    let name = |what| format!("{what}, beside a snapshot of {} ended", command.finished);
    Ok(vec![
        Row::new(&name("claim"), without.claims, with.claims),
        Row::new(&name("record of a success"), without.successes, with.successes),
        Row::new(&name("record of a failure"), without.failures, with.failures),
    ])
}

impl Scene {
    async fn rounds(&self, rounds: u32, floors: &mut ScanFloors) -> anyhow::Result<Times> {
        let deliverer = self.world.deliverer();
        let limits = SendLimits::alone(deliverer.settings);
        let mut times = Times::default();
        for _ in 0..rounds {
            for (status, recorded) in [(200, &mut times.successes), (404, &mut times.failures)] {
                self.world.pass(Duration::from_secs(1));
                self.world.submit(&self.firm).await;
                let (claimed, took) = timed(claim_beyond(deliverer, &limits, floors)).await?;
                ensure!(claimed.len() == 1, "{} were claimed", claimed.len());
                times.claims.push(took);
                let answered = claimed.into_iter().map(|claimed| FinishedAttempt {
                    claimed,
                    exchange: OutgoingExchange {
                        answer: AttemptAnswer::Status(status),
                        retry_after: None,
                        hops: Vec::new(),
                        snippet: Vec::new(),
                        connected: true,
                    },
                    finished_at: self.world.clock.now(),
                });
                let answered: Vec<_> = answered.collect();
                recorded.push(timed(record_batch(deliverer, &answered)).await?.1);
            }
        }
        Ok(times)
    }

    /// Queues, claims and ends so many deliveries, a hundred at a time.
    async fn finish(&self, count: i32, floors: &mut ScanFloors) -> anyhow::Result<()> {
        let mut deliverer = self.world.deliverer().clone();
        deliverer.settings.caps = HostCaps { per_firm_and_host: 1_000, per_host: 1_000 };
        let limits = SendLimits::alone(deliverer.settings);
        let response_id = self.world.submit(&self.firm).await;
        claim_beyond(&deliverer, &limits, floors).await?;
        self.world.drop_in_flight().await;
        for _ in 0..count / CLAIMED {
            self.world.pass(Duration::from_millis(100));
            let ids: Vec<Uuid> = sqlx::query_scalar(
                "with woken as (insert into lane_wakes (lane_id, due_at) values ($1, $3))
                 insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
                                     response_id, position, due_at, tries_max)
                 select gen_random_uuid(), $1, $2, gen_random_uuid(), 'form_submitted', $5, $6, n, $3,
                        8
                   from generate_series(1, $4) as n
                 returning delivery_id",
            )
            .bind(self.hook_id)
            .bind(self.firm.id)
            .bind(self.world.clock.now().get())
            .bind(CLAIMED)
            .bind(self.firm.form)
            .bind(response_id)
            .fetch_all(self.world.pool())
            .await?;
            let claimed = claim_beyond(&deliverer, &limits, floors).await?;
            ensure!(claimed.len() == ids.len(), "{} were claimed", claimed.len());
            sqlx::query("delete from outbox where delivery_id = any($1)")
                .bind(ids)
                .execute(self.world.pool())
                .await?;
        }
        Ok(())
    }
}
