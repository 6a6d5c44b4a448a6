//! Failovers under load: PostgreSQL with a standby under Patroni, behind HAProxy. The primary is
//! ended again and again while responses come in and deliveries go out. With an asynchronous
//! standby the end of the log is lost each time, on purpose.

mod mode;
mod report;
mod rig;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, ensure};
use clap::Args;
use sqlx::PgPool;
use tests::invariants::{Acknowledged, Run};
use tests::raw::get;
use tests::{World, place_witness, until_settled};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::mode::ReplicationMode;
use self::report::{FailoverTimes, Report};
use self::rig::{LOOK_EVERY, Outage, Rig};
use crate::faults::LEASE;
use crate::faults::load::{Load, Pace};
use crate::faults::receivers::Receivers;
use crate::faults::report::Report as Settled;
use crate::faults::service::Services;

/// The load between two failovers, before the next one.
const BETWEEN: Duration = Duration::from_secs(5);

/// For so long the standby receives nothing before the primary is ended.
const TAIL: Duration = Duration::from_secs(1);

/// A machine that is cut off comes back after the other server has been promoted, and this.
const CUT_OFF: Duration = Duration::from_secs(5);

/// How long the deliveries may take to come to their ends.
const REST: Duration = Duration::from_secs(600);

/// How long an alarm or the next request may take.
const AWAITED: Duration = Duration::from_secs(120);

/// How often, and how the standby follows.
#[derive(Debug, Args)]
pub(crate) struct Failover {
    /// How the standby follows the primary.
    #[arg(long, value_enum, default_value = "synchronous")]
    replication: ReplicationMode,
    /// How often the primary is ended.
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// Responses a second; each is delivered to ten subscriptions.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rate: u32,
}

/// Runs, prints, and fails if anything that must hold does not.
pub(crate) async fn run(command: &Failover) -> anyhow::Result<()> {
    let mode = command.replication;
    let mut rig = Rig::start(mode).await?;
    let database = rig.databases().await?;
    database.migrate().await;
    let world = World::real_time(database).await;
    place_witness(world.pool()).await;
    let receivers = Receivers::start(Instant::now() + Duration::from_secs(86_400)).await?;
    let load = Load::prepare(&world, &receivers).await;
    let services = Services::start_in(&world.database, &rig.data_dir()).await?;
    services.ready().await?;
    let stop = CancellationToken::new();
    let pace = Pace { responses_per_second: command.rate, stop: stop.clone() };
    let failing = async {
        let times = fail_over(&mut rig, command, &services, &receivers).await;
        stop.cancel();
        times
    };
    let loading = async {
        match mode {
            ReplicationMode::Synchronous => load.run(&pace, &world, &services).await,
            // A subscription that was made in the lost end is gone, and nobody makes it again.
            ReplicationMode::Asynchronous => load.report(&pace, &world, &services).await,
        }
    };
    let (times, acknowledged) = tokio::try_join!(failing, loading)?;
    let ended = End { mode, world: &world, services: &services, receivers: &receivers };
    let violations = ended.violations(&load, &acknowledged, &times).await?;
    services.stop().await?;
    for violation in &violations {
        println!("VIOLATED {violation}");
    }
    ensure!(violations.is_empty(), "something that must hold does not");
    Ok(())
}

/// Ends the primary again and again. Returns the times of each failover.
async fn fail_over(
    rig: &mut Rig,
    command: &Failover,
    services: &Services,
    receivers: &Receivers,
) -> anyhow::Result<Vec<FailoverTimes>> {
    let mode = command.replication;
    let outages: &[Outage] = match mode {
        ReplicationMode::Synchronous => &[Outage::Crash, Outage::MachineLost, Outage::CutOff],
        ReplicationMode::Asynchronous => &[Outage::Crash, Outage::MachineLost],
    };
    let mut all = Vec::new();
    for outage in outages.iter().copied().cycle().take(command.kills) {
        rig.until_replicated(mode).await?;
        sleep(BETWEEN).await;
        if mode == ReplicationMode::Asynchronous {
            rig.hold_replication().await?;
            sleep(TAIL).await;
        }
        let began = Instant::now();
        let place = rig.end_primary(outage).await?;
        rig.until_promoted(place).await?;
        let promoted = Instant::now();
        let sends = until_sent(receivers, promoted);
        let (sent, alarm) = match mode {
            ReplicationMode::Synchronous => (sends.await?, None),
            ReplicationMode::Asynchronous => {
                let (sent, alarm) = tokio::try_join!(sends, until_alarm(services))?;
                services.acknowledge_lost_tails().await?;
                (sent, Some(alarm.duration_since(promoted)))
            }
        };
        let times = FailoverTimes {
            outage: outage.name(),
            to_promotion: promoted.duration_since(began),
            to_sending: sent.duration_since(promoted),
            to_alarm: alarm,
        };
        println!("{times}");
        all.push(times);
        if outage == Outage::CutOff {
            sleep(CUT_OFF).await;
        }
        rig.bring_back(place, outage).await?;
    }
    rig.until_replicated(mode).await?;
    Ok(all)
}

/// Waits for a request that arrived after this moment.
async fn until_sent(receivers: &Receivers, after: Instant) -> anyhow::Result<Instant> {
    let sent = async {
        loop {
            if let Some(arrived) = receivers.last_arrival().filter(|arrived| *arrived > after) {
                return arrived;
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(AWAITED, sent).await.context("nothing is sent after the failover")
}

/// Waits until the service says that the end of its log is lost.
async fn until_alarm(services: &Services) -> anyhow::Result<Instant> {
    let alarm = async {
        loop {
            let answer = get(services.internal, "/readyz").await;
            if answer.is_some_and(|(_, text)| text.contains("lost the end of its log")) {
                return Instant::now();
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(AWAITED, alarm).await.context("no alarm after the end of the log was lost")
}

/// A run whose last failover is over.
struct End<'a> {
    mode: ReplicationMode,
    world: &'a World,
    services: &'a Services,
    receivers: &'a Receivers,
}

impl End<'_> {
    /// Waits until all is at rest, prints the figures, and returns the violated invariants.
    async fn violations(
        &self,
        load: &Load,
        acknowledged: &Acknowledged,
        times: &[FailoverTimes],
    ) -> anyhow::Result<Vec<String>> {
        let pool = self.world.pool();
        let began = Instant::now();
        if self.mode == ReplicationMode::Asynchronous {
            load.report_again(self.world, self.services).await;
            self.services
                .command(&["verify", "deliveries", "--repair", "--reason", "failover"])
                .await?;
        }
        until_settled(pool, REST).await.map_err(Error::msg)?;
        let mut found = Vec::new();
        for command in [&["verify", "deliveries"][..], &["projections", "verify", "--all"]] {
            if let Err(error) = self.services.command(command).await {
                found.push(format!("{error:#}"));
            }
        }
        if self.mode == ReplicationMode::Synchronous {
            self.services.command(&["audit", "checkpoint"]).await?;
            if let Err(error) = self.services.command(&["audit", "verify"]).await {
                found.push(format!("{error:#}"));
            }
        }
        let requests = self.receivers.requests();
        let run = Run { pool, requests: &requests, acknowledged, lease: LEASE };
        let settled = Settled::new(&run, self.receivers).await?;
        let report = Report::new(self.mode, times, self.unknown(pool).await?);
        settled.print_states(began.elapsed());
        report.print()?;
        if self.mode == ReplicationMode::Synchronous {
            found.extend(run.violations().await);
        }
        if !settled.is_clean() && self.mode == ReplicationMode::Synchronous {
            found.push("deliveries were lost, or doubled without a reason".to_owned());
        }
        if settled.lost() > 0 {
            found.push(format!("{} deliveries were lost", settled.lost()));
        }
        if report.unknown > 0 {
            found.push(format!(
                "{} deliveries arrived under an id that is not in the log",
                report.unknown
            ));
        }
        Ok(found)
    }

    /// How many deliveries arrived that the log does not list in the end.
    async fn unknown(&self, pool: &PgPool) -> anyhow::Result<usize> {
        let known: Vec<Uuid> =
            sqlx::query_scalar("select delivery_id from deliveries").fetch_all(pool).await?;
        let known: HashSet<Uuid> = known.into_iter().collect();
        Ok(self.receivers.arrived().difference(&known).count())
    }
}
