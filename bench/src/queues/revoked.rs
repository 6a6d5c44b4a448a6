//! A key is revoked whose one subscription has many unspread occurrences: the time until all of
//! them are cancelled in the log and in history, and the deliveries of another firm meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use api::commands::keys;
use domain::event::Actor;
use serde::Serialize;
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tests::{Firm, Templates, World};
use tokio::time::sleep;
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

use super::Queues;
use crate::activity::submitted_at;
use crate::audience::Audience;
use crate::latency::{Latency, Ledger};
use crate::pace::{Pace, Reported, Reporter};
use crate::service::AT_REST;
use crate::serving::{Serving, stop};
use crate::taking_in::take_in_all;

/// A port where nobody listens. Nothing is sent to it.
const TARGET: &str = "http://127.0.0.9:7777/hook";

/// Events of a batch, and batches of a round of reports.
const BATCH: usize = 500;
const BATCHES: usize = 20;

/// The time of the phase alone.
const ALONE: Duration = Duration::from_secs(15);

/// The time of reports between two looks whether all is done.
const REPORT_TIME: Duration = Duration::from_secs(2);

const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Longer than any cancellation takes.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// The measurement.
#[derive(Debug, Serialize)]
pub(super) struct RevokedFigure {
    unspread: i32,
    /// From the revocation until the log has all cancellations.
    log_seconds: f64,
    /// From the revocation until history has them.
    history_seconds: f64,
    /// The longest transaction that was seen to change the unspread occurrences.
    transaction_ms: f64,
    alone: Latency,
    beside: Latency,
}

impl RevokedFigure {
    pub(super) fn print(&self) {
        let Self { unspread, log_seconds, history_seconds, transaction_ms, .. } = self;
        println!(
            "a key is revoked with {unspread} unspread: in the log after {log_seconds:.1} s, in \
             history after {history_seconds:.1} s; longest transaction {transaction_ms:.0} ms"
        );
        for (name, latency) in [("alone", &self.alone), ("beside", &self.beside)] {
            println!(
                "  another firm's deliveries {name}: p50 {:.1} ms, p95 {:.1} ms, max {:.1} ms",
                latency.p50_us as f64 / 1e3,
                latency.p95_us as f64 / 1e3,
                latency.max_us as f64 / 1e3,
            );
        }
    }
}

pub(super) async fn measure(
    cluster: &Templates,
    command: &Queues,
) -> anyhow::Result<RevokedFigure> {
    let world = World::real_time(cluster.database().await).await;
    let firm = world.firm().await;
    world.subscribe(&firm, TARGET).await;
    set_aside(&world, &firm, command.unspread).await?;
    let audience = Audience::subscribe(&world, 1).await?;
    let serving = Serving::on(&world.database)?;
    let mut service = serving.process(&[])?;
    serving.ready().await?;
    until(world.pool(), AT_REST).await?;
    let other = OtherFirm {
        audience,
        reporter: Reporter::new(&world, serving.internal),
        per_second: command.rate.into(),
    };
    other.latency(&other.report(REPORT_TIME).await?).await;
    let alone = other.latency(&other.report(ALONE).await?).await;
    let mut connection = PgConnection::connect_with(&world.database.main).await?;
    connection.execute("insert into unspread table unspread_aside").await?;
    keys::revoke(world.service(), firm.id, firm.key_id, Actor::System).await?;
    let watch = Watch { pool: world.pool(), firm_id: firm.id, began: Instant::now() };
    let (times, reported) = tokio::try_join!(watch.times(), other.report_until(&watch))?;
    let beside = other.latency(&reported).await;
    ensure!(watch.cancelled().await? == i64::from(command.unspread), "some are not cancelled");
    stop(&mut service, "service").await?;
    Ok(RevokedFigure {
        unspread: command.unspread,
        log_seconds: times.log.as_secs_f64(),
        history_seconds: times.history.as_secs_f64(),
        transaction_ms: times.transaction_ms,
        alone,
        beside,
    })
}

/// Reports so many events while no service runs, and puts them where no service finds them.
async fn set_aside(world: &World, firm: &Firm, count: i32) -> anyhow::Result<()> {
    let mut left = usize::try_from(count)?;
    while left > 0 {
        let round = left.min(BATCH * BATCHES);
        left -= round;
        let lines: Vec<Vec<u8>> = (0..round)
            .map(|_| submitted_at(world.clock.now(), firm, SystemEntropy.new_id()))
            .map(|event| format!("{event}\n").into_bytes())
            .collect();
        let batches: Arc<[Vec<u8>]> = lines.chunks(BATCH).map(<[Vec<u8>]>::concat).collect();
        take_in_all(world.service(), &batches).await?;
    }
    let aside = "
        create table unspread_aside (like unspread including defaults);
        with queued as (delete from outbox returning firm_id, position, occurrence_id)
        insert into unspread_aside
        select firm_id, position, occurrence_id, 1 from queued;
        insert into unspread_aside table unspread;
        delete from unspread;
        delete from lane_wakes;
        vacuum analyze unspread;";
    // A pool's statements have a time limit.
    let mut connection = PgConnection::connect_with(&world.database.main).await?;
    for statement in aside.split_inclusive(';') {
        connection.execute(statement).await?;
    }
    let found: i64 = sqlx::query_scalar("select count(*) from unspread_aside")
        .fetch_one(&mut connection)
        .await?;
    ensure!(found == i64::from(count), "{found} are unspread");
    Ok(())
}

async fn until(pool: &PgPool, condition: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    while !sqlx::query_scalar::<_, bool>(condition).fetch_one(pool).await? {
        ensure!(began.elapsed() < PATIENCE, "the service does not come to rest");
        sleep(LOOK_INTERVAL).await;
    }
    Ok(())
}

/// A firm whose deliveries are measured.
struct OtherFirm {
    audience: Audience,
    reporter: Reporter,
    per_second: f64,
}

impl OtherFirm {
    async fn report(&self, time: Duration) -> anyhow::Result<Vec<Reported>> {
        let pace = Pace { per_second: self.per_second, time };
        self.reporter.steadily(&self.audience.firms, pace).await
    }

    async fn report_until(&self, watch: &Watch<'_>) -> anyhow::Result<Vec<Reported>> {
        let mut reported = Vec::new();
        while !watch.is_cancelled_in_log().await? {
            reported.extend(self.report(REPORT_TIME).await?);
        }
        Ok(reported)
    }

    async fn latency(&self, reported: &[Reported]) -> Latency {
        self.audience.arrived(reported.len()).await;
        let mut ledger = Ledger::default();
        ledger.expect(self.audience.due(reported).collect::<HashMap<_, _>>());
        Latency::new(ledger.arrived(self.audience.receiver.take_arrivals()))
    }
}

/// Looks at the cancellation.
struct Watch<'a> {
    pool: &'a PgPool,
    firm_id: Uuid,
    began: Instant,
}

struct CancelTimes {
    log: Duration,
    history: Duration,
    transaction_ms: f64,
}

impl Watch<'_> {
    async fn times(&self) -> anyhow::Result<CancelTimes> {
        let mut transaction_ms = 0.0_f64;
        while !self.is_cancelled_in_log().await? {
            ensure!(self.began.elapsed() < PATIENCE, "the deliveries are not cancelled");
            transaction_ms = transaction_ms.max(self.transaction_ms().await?);
            sleep(LOOK_INTERVAL).await;
        }
        let log = self.began.elapsed();
        let last: i64 =
            sqlx::query_scalar("select max(position) from events").fetch_one(self.pool).await?;
        let followed =
            format!("select position >= {last} from checkpoints where name = 'deliveries'");
        until(self.pool, &followed).await?;
        Ok(CancelTimes { log, history: self.began.elapsed(), transaction_ms })
    }

    async fn is_cancelled_in_log(&self) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar(
            "select not exists (select from unspread where firm_id = $1)
                and not exists (select from outbox where firm_id = $1)",
        )
        .bind(self.firm_id)
        .fetch_one(self.pool)
        .await
    }

    /// The age of the oldest transaction that has changed the unspread occurrences.
    async fn transaction_ms(&self) -> Result<f64, sqlx::Error> {
        sqlx::query_scalar(
            "select coalesce(max(extract(epoch from clock_timestamp() - a.xact_start)), 0)::float8
                    * 1000
               from pg_stat_activity a join pg_locks l on l.pid = a.pid
              where l.relation = 'unspread'::regclass and l.mode = 'RowExclusiveLock'",
        )
        .fetch_one(self.pool)
        .await
    }

    async fn cancelled(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(
            "select count(*) from deliveries where firm_id = $1 and state = 'cancelled'",
        )
        .bind(self.firm_id)
        .fetch_one(self.pool)
        .await
    }
}
