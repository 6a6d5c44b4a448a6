//! `deliveries`: events reported, and every delivery of them, at several numbers of subscriptions,
//! each to a host of its own; beside each the ceiling and the bare sender, in the same run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use tokio::time::Instant;

use crate::bare::{self, Leaves};
use crate::ceiling::Posts;
use crate::peer::Peer;
use crate::report::{Figure, Report};
use crate::service::{Feed, Load, cluster};
use crate::submissions::Submissions;

/// Events reported at a time.
const BATCH: usize = 100;

/// POSTs of the ceiling in flight at a time; the ratio is to the better one.
const IN_FLIGHT: [usize; 2] = [64, 256];

/// Options of `deliveries`.
#[derive(Debug, Args)]
pub(crate) struct Deliveries {
    /// Events that are reported.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    events: u32,
    /// How events are reported: in batches of 100, four at a time, or by an HTTP call each, on 32
    /// connections.
    #[arg(long, value_enum, default_value = "batches")]
    feed: Feed,
    /// Numbers of subscriptions, each measured by itself.
    #[arg(long, default_value = "1,10", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=100))]
    subscriptions: Vec<u8>,
    /// The run gives up after so many seconds.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=120))]
    within: u64,
    /// Also measure the bare sender with the two events and the row of history that every delivery
    /// leaves behind.
    #[arg(long)]
    traces: bool,
    /// Also show the cost of PostgreSQL's statements; this has a price of its own.
    #[arg(long)]
    statements: bool,
    /// The folder of PostgreSQL's programs, if they are not where they usually are.
    #[arg(long, env = "FIRMFORMS_PG_BIN")]
    pg_bin: Option<PathBuf>,
}

/// Measures, prints, and fails if anything was lost.
pub(crate) async fn run(command: &Deliveries) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(command.within);
    let mut peer = Peer::start().await?;
    let mut figures = Vec::new();
    for subscriptions in &command.subscriptions {
        figures.push(command.figure(usize::from(*subscriptions), &mut peer, deadline).await?);
    }
    let report = Report::new(figures);
    report.print()?;
    match report.missing() {
        0 => Ok(()),
        missing => bail!("{missing} deliveries were lost or not recorded"),
    }
}

impl Deliveries {
    async fn figure(
        &self,
        subscriptions: usize,
        peer: &mut Peer,
        deadline: Instant,
    ) -> anyhow::Result<Figure> {
        let submissions = Submissions::first(usize::try_from(self.events)?)?;
        let bodies = submissions.bodies()?;
        let load = Load {
            batches: submissions.batches(BATCH),
            founding: submissions.founding,
            events: bodies.len(),
            feed: self.feed,
            subscriptions,
            pg_bin: self.pg_bin.clone(),
            statements: self.statements,
        };
        let posts = Arc::new(Posts::new(bodies, subscriptions, peer)?);
        let mut ceilings = Vec::new();
        for in_flight in IN_FLIGHT {
            let sent = tokio::time::timeout_at(deadline, posts.send(in_flight, peer)).await;
            ceilings.push(sent.context("the run took too long")??);
        }
        let bare = self.bare((&posts, Leaves::Nothing), peer, deadline).await?;
        let with_traces = if self.traces {
            Some(self.bare((&posts, Leaves::Traces), peer, deadline).await?)
        } else {
            None
        };
        drop(posts);
        let delivered = load.run(peer, deadline).await?;
        Ok(Figure::new(&load, (&ceilings, &bare, with_traces.as_ref()), &delivered))
    }

    async fn bare(
        &self,
        (posts, leaves): (&Arc<Posts>, Leaves),
        peer: &mut Peer,
        deadline: Instant,
    ) -> anyhow::Result<bare::Sent> {
        let cluster = cluster(self.pg_bin.clone(), false).await?;
        let sent = bare::run(&cluster, (posts, self.feed, leaves), peer);
        let sent = tokio::time::timeout_at(deadline, sent).await;
        cluster.stop().await?;
        sent.context("the run took too long")?
    }
}
