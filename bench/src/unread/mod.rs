//! `unread`: good calls at both doors and deliveries, beside callers that do not read their answers
//! or read a byte a second.
//!
//! The service is a process, a new one on a new database for each case. The calls are made in three
//! phases: alone, while the bad callers arrive, and beside them.

mod bad_callers;
mod good_calls;
mod report;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use domain::values::Timestamp;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tests::raw::get;
use tests::{ATTEMPTS, World, cluster_with};
use tokio::time::sleep;

use self::bad_callers::{BadCallers, Reading};
use self::good_calls::{GoodCalls, Target};
use self::report::{DeliveryTries, Figure, Report};
use crate::peer::Peer;
use crate::service::{SETTINGS, described};
use crate::serving::{Serving, stop};

/// Deliveries beside the bad callers, to one receiver each.
const DELIVERIES: usize = 40;

/// Nothing lasts longer: neither the deliveries, nor their record.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The cases.
const CASES: [Case; 4] = [
    Case { sockets: 1_200, addresses: 1, descriptors: Some(1_024), reading: Reading::Nothing },
    Case { sockets: 1_200, addresses: 1, descriptors: Some(1_024), reading: Reading::Drip },
    Case { sockets: 8_500, addresses: 2, descriptors: None, reading: Reading::Nothing },
    Case { sockets: 8_500, addresses: 2, descriptors: None, reading: Reading::Drip },
];

/// So many bad callers, and so many descriptors of the service.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Case {
    sockets: usize,
    addresses: u8,
    descriptors: Option<u32>,
    reading: Reading,
}

/// The length of a run.
#[derive(Debug, Args)]
pub(crate) struct Unread {
    /// Seconds of good calls, before and beside the bad callers.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(2..))]
    seconds: u16,
}

/// Measures, and prints.
pub(crate) async fn run(command: &Unread) -> anyhow::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let cluster = cluster_with(&SETTINGS).await;
    let mut figures = Vec::new();
    let mut postgres = String::new();
    for case in CASES {
        let world = World::real_time(cluster.database().await).await;
        postgres = described(&world.system).await?;
        let figure = figure(&world, case, Duration::from_secs(command.seconds.into())).await?;
        figure.print();
        figures.push(figure);
    }
    Report::new(postgres, figures).print()
}

async fn figure(world: &World, case: Case, time: Duration) -> anyhow::Result<Figure> {
    let serving = Serving::on(&world.database)?;
    let serving = match case.descriptors {
        Some(descriptors) => serving.with_descriptors(descriptors),
        None => serving,
    };
    let mut service = serving.process(&[])?;
    serving.ready().await?;
    let targets = Target::both(world, &serving, time).await;
    let peer = Peer::start().await?;
    let firm = world.firm().await;
    for number in 0..DELIVERIES {
        world.subscribe(&firm, &peer.target(number)).await;
    }
    let delivering = async || {
        let since = world.clock.now();
        world.submit(&firm).await;
        tries(world, since).await
    };
    let (alone, delivered) = tokio::join!(GoodCalls::during(&targets, time), delivering());
    delivered?;
    let arriving = GoodCalls::while_it_lasts(&targets, BadCallers::begin(serving.public, case));
    let (bad, arriving) = arriving.await;
    let bad = bad?;
    let (beside, deliveries) = tokio::join!(GoodCalls::during(&targets, time), delivering());
    let opened = bad.end().await;
    let refusals = refusals(&serving).await?;
    stop(&mut service, "service").await?;
    Ok(Figure { case, opened, alone, arriving, beside, deliveries: deliveries?, refusals })
}

async fn refusals(serving: &Serving) -> anyhow::Result<Vec<String>> {
    let (_, metrics) = get(serving.internal, "/metrics").await.context("no metrics")?;
    let told = metrics.lines().filter(|line| {
        line.starts_with("firmforms_door_refusals") || line.starts_with("firmforms_descriptor")
    });
    Ok(told.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect())
}

/// Waits for the deliveries, and counts their tries since then.
async fn tries(world: &World, since: Timestamp) -> anyhow::Result<DeliveryTries> {
    let count = format!(
        "select count(*) filter (where outcome = 'delivered' and number = 1) as first,
                count(*) filter (where outcome = 'delivered') as delivered,
                count(*) as tries
           from {ATTEMPTS} where started_at >= $1"
    );
    let began = Instant::now();
    loop {
        let tries: DeliveryTries =
            sqlx::query_as(&count).bind(since.get()).fetch_one(world.pool()).await?;
        if tries.delivered == i64::try_from(DELIVERIES).context("deliveries")? {
            return Ok(tries);
        }
        ensure!(began.elapsed() < PATIENCE, "not all deliveries arrived: {tries:?}");
        sleep(LOOK_EVERY).await;
    }
}
