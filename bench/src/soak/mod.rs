//! `soak`: the highest rate is found, then the service runs at a share of it for a long time, and
//! every minute has its figures. Nothing may drift: rate, latency, memory, the rows of queues and
//! counters, and the bytes that a delivery leaves in the log and in history.

mod drift;
mod report;
mod sample;

use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use tests::cluster_with;
use tests::raw::try_call;
use tokio::time::{sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use self::report::{Minute, Report};
use self::sample::Sample;
use crate::audience::Audience;
use crate::latency::{Latency, Ledger};
use crate::open_loop::late;
use crate::pace::{Pace, Reported, Reporter};
use crate::running::Running;
use crate::service::{SETTINGS, described};
use crate::usage::Cpu;

/// Firms, each with one subscription.
const FIRMS: usize = 10;

/// For so long reports come as fast as they are answered, to find the highest rate that holds. An
/// empty database takes a fifth more, for as long as its indexes fit the server's memory.
const FINDING: Duration = Duration::from_secs(600);

/// Load before the search, so that the search finds a warm service.
const WARM_UP: Duration = Duration::from_secs(5);

const MINUTE: Duration = Duration::from_secs(60);

/// A key asks for its subscriptions so often, so that the rates have something to count.
const READ_EVERY: Duration = Duration::from_secs(1);

/// The work that is left after the last event of a minute, or of the run, takes no longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often to look whether all have arrived.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Options of `soak`.
#[derive(Debug, Args)]
pub(crate) struct Soak {
    /// Minutes, after one that is not counted.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(2..=1_440))]
    minutes: u32,
    /// Of the highest rate, in percent.
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u32).range(1..=100))]
    share: u32,
    /// The highest rate, in deliveries a second. If it is not given, it is found, and the database
    /// is not empty when the minutes begin.
    #[arg(long)]
    highest: Option<u32>,
}

/// Runs, prints minute by minute, and fails if anything drifted, was lost or came twice.
pub(crate) async fn run(command: &Soak) -> anyhow::Result<()> {
    let cluster = cluster_with(&SETTINGS).await;
    let running = Running::whole(&cluster, &[]).await?;
    let postgres = described(&running.world.system).await?;
    let audience = Audience::subscribe(&running.world, FIRMS).await?;
    let reporter = running.reporter();
    let mut bench = Bench { running, reporter, audience, ledger: Ledger::default() };
    let highest = match command.highest {
        Some(highest) => highest.into(),
        None => bench.highest().await?,
    };
    let rate = highest * f64::from(command.share) / 100.0;
    println!("PostgreSQL {postgres}");
    println!("{} % of {highest:.0} deliveries a second: {rate:.0}", command.share);
    let minutes = bench.minutes(rate, command.minutes).await?;
    let (lost, twice) = bench.rest().await?;
    let drifts = drift::drift_lines(&minutes);
    let report = Report::new(postgres, (highest, rate), minutes, (lost, twice), drifts);
    report.print()?;
    report.check()
}

/// The reports of a minute, once all are answered.
type Reports = AbortOnDropHandle<anyhow::Result<Vec<Reported>>>;

/// How everything stands between two minutes.
struct Mark {
    at: Instant,
    spent: Cpu,
    sample: Sample,
}

struct Bench {
    running: Running,
    reporter: Reporter,
    audience: Audience,
    ledger: Ledger,
}

impl Bench {
    /// Deliveries a second when reports come as fast as they are answered.
    async fn highest(&mut self) -> anyhow::Result<f64> {
        self.flat_out(WARM_UP).await?;
        self.flat_out(FINDING).await
    }

    async fn flat_out(&mut self, time: Duration) -> anyhow::Result<f64> {
        let began = Instant::now();
        let reported = self.reporter.flat_out(&self.audience.firms, time).await?;
        self.audience.arrived(reported.len()).await;
        let took = began.elapsed();
        self.running.at_rest(PATIENCE).await?;
        self.ledger.expect(self.audience.due(&reported));
        self.ledger.arrived(self.audience.receiver.take_arrivals());
        ensure!(self.ledger.missing() == 0, "{} deliveries were lost", self.ledger.missing());
        Ok(reported.len() as f64 / took.as_secs_f64())
    }

    /// Runs one minute that is not counted, then the counted minutes. The reports of each minute
    /// are due even if the figures of the minute before are not there yet.
    async fn minutes(&mut self, rate: f64, count: u32) -> anyhow::Result<Vec<Minute>> {
        let (mut before, mut minutes) = (self.mark().await?, Vec::new());
        let began = before.at;
        let mut reports = self.reports(began, rate);
        Minute::head();
        for number in 0..=count {
            let after = (number < count).then(|| self.reports(began + MINUTE * (number + 1), rate));
            let began = began + MINUTE * number;
            let (minute, mark) = self.minute((number, began), reports, &before).await?;
            minute.print();
            before = mark;
            minutes.push(minute);
            let Some(after) = after else { break };
            reports = after;
        }
        Ok(minutes.split_off(1))
    }

    /// The reports of the minute that begins then.
    fn reports(&self, began: Instant, per_second: f64) -> Reports {
        let (reporter, firms) = (self.reporter.clone(), self.audience.firms.clone());
        let pace = Pace { per_second, time: MINUTE };
        AbortOnDropHandle::new(tokio::spawn(async move {
            reporter.steadily_from(began, &firms, pace).await
        }))
    }

    /// The figures of a minute: the latency of its reports, and the arrivals and the cost since the
    /// mark before.
    async fn minute(
        &mut self,
        (number, began): (u32, Instant),
        reports: Reports,
        before: &Mark,
    ) -> anyhow::Result<(Minute, Mark)> {
        let reported = async { reports.await? };
        let (reported, ()) = tokio::try_join!(reported, self.read(began))?;
        self.ledger.expect(self.audience.due(&reported));
        let (took, arrived) = self.arrivals().await;
        let mark = self.mark().await?;
        let minute = Minute {
            number,
            per_second: arrived as f64 / (mark.at - before.at).as_secs_f64(),
            cpu: mark.spent.since(before.spent).each(arrived),
            resident_mib: self.running.memory()?.now_mib,
            grown: mark.sample.since(&before.sample).each(arrived),
            held: mark.sample.held.clone(),
            reported_late: late(&reported),
            latency: Latency::new(took),
        };
        Ok((minute, mark))
    }

    /// The latencies of the deliveries expected by now, once all are there, and the number of
    /// arrivals since the last call.
    async fn arrivals(&mut self) -> (Vec<u64>, usize) {
        let (began, mut took, mut count) = (Instant::now(), Vec::new(), 0);
        loop {
            let arrivals = self.audience.receiver.take_arrivals();
            count += arrivals.len();
            took.extend(self.ledger.arrived(arrivals));
            if self.ledger.missing() == 0 || began.elapsed() > PATIENCE {
                return (took, count);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn mark(&self) -> anyhow::Result<Mark> {
        let (at, spent) = (Instant::now(), self.running.spent()?);
        Ok(Mark { at, spent, sample: Sample::look(self.running.world.pool()).await? })
    }

    /// Firms ask for their subscriptions, in turn.
    async fn read(&self, began: Instant) -> anyhow::Result<()> {
        let times = MINUTE.as_secs() / READ_EVERY.as_secs();
        for (time, firm) in (0..times).zip(self.audience.firms.iter().cycle()) {
            sleep_until((began + READ_EVERY * u32::try_from(time)?).into()).await;
            let answer = try_call(self.running.public, ("GET", "/hooks"), &firm.key, "").await;
            ensure!(answer.is_some_and(|(status, _)| status == 200), "a call was refused");
        }
        Ok(())
    }

    /// Waits for the rest. Returns the numbers of lost and of doubled deliveries.
    async fn rest(mut self) -> anyhow::Result<(usize, usize)> {
        self.running.at_rest(PATIENCE).await?;
        self.ledger.arrived(self.audience.receiver.take_arrivals());
        self.running.stop().await?;
        Ok((self.ledger.missing(), self.ledger.twice()))
    }
}
