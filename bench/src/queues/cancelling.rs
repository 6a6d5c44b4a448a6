//! A long queue of removed subscriptions: the first steps of its cancellation, when all of the
//! queue is left, and the last, when almost nothing is.

use std::time::Duration;

use deliverer::upkeep::CancelWorker;
use eventstore::worker::{NextStep, Worker};
use serde_json::Value;
use sqlx::{Connection, Executor, PgConnection};
use tests::Templates;
use uuid::Uuid;

use super::args::Queues;
use super::scene::{Row, Scene, TARGET, timed};

/// Lanes that are cancelled together.
const TOGETHER: i32 = 50;

/// Steps at either end.
const STEPS: usize = 20;

pub(super) async fn measure(cluster: &Templates, command: &Queues) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (lanes, held) in [(1, Held::Nothing), (TOGETHER, Held::Nothing), (1, Held::Snapshot)] {
        let scene = Scene::on(cluster).await;
        let times = scene.cancel(lanes, command.left / lanes, held).await?;
        let total: Duration = times.iter().sum();
        let beside = if held == Held::Snapshot { ", snapshot" } else { "" };
        let name = format!(
            "cancel step, last by first, {lanes} lanes{beside} ({:.0} s)",
            total.as_secs_f64()
        );
        let steps = STEPS.min(times.len() / 2);
        let first = times[..steps].to_vec();
        let last = times[times.len() - steps - 1..].to_vec();
        rows.push(Row::new(&name, first, last));
    }
    Ok(rows)
}

/// A snapshot that is held during a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    Snapshot,
}

impl Scene {
    async fn cancel(&self, lanes: i32, each: i32, held: Held) -> anyhow::Result<Vec<Duration>> {
        let mut hooks = vec![self.hook_id];
        for _ in 1..lanes {
            hooks.push(self.world.subscribe(&self.firm, TARGET).await);
        }
        self.queue(&hooks, each).await?;
        for hook_id in hooks {
            let path = format!("/hooks/{hook_id}");
            let removed = self.world.call(&self.firm.key, "DELETE", &path, Value::Null).await;
            anyhow::ensure!(removed.status == 200, "{}", removed.status);
        }
        let mut holder = PgConnection::connect_with(&self.world.database.main).await?;
        if held == Held::Snapshot {
            holder.execute("begin isolation level repeatable read; select from lanes").await?;
        }
        let mut worker = CancelWorker::new(self.world.deliverer().clone());
        let mut times = Vec::new();
        loop {
            let (next, took) = timed(worker.step()).await?;
            if next != NextStep::Busy {
                break;
            }
            times.push(took);
        }
        holder.close().await?;
        Ok(times)
    }

    async fn queue(&self, lanes: &[Uuid], each: i32) -> anyhow::Result<()> {
        // A pool's statements have a time limit.
        let mut connection = PgConnection::connect_with(&self.world.database.main).await?;
        sqlx::query(
            "insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
                                 response_id, position, due_at, tries_max)
             select gen_random_uuid(), lane_id, firm_id, gen_random_uuid(), 'form_submitted',
                    gen_random_uuid(), gen_random_uuid(), n,
                    $3 - interval '1 hour' + n * interval '1 ms', 8
               from generate_series(1, $2) as n, lanes where lane_id = any($1)",
        )
        .bind(lanes)
        .bind(each)
        .bind(self.world.clock.now().get())
        .execute(&mut connection)
        .await?;
        connection.execute("vacuum analyze outbox").await?;
        Ok(())
    }
}
