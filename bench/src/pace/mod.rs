//! Reports of submissions, each by a call of its own: at a pace that does not wait for answers, or
//! as fast as they are answered.

mod free;
mod on_time;
mod reporter;

use std::time::{Duration, Instant};

use tests::Firm;
use tokio::task::JoinSet;

use crate::connection::Connection;

pub(crate) use self::reporter::{Reported, Reporter};

/// Connections that report as fast as they are answered.
const CONNECTIONS: usize = 32;

/// How many reports, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    pub(crate) time: Duration,
}

impl Reporter {
    /// Reports responses of these firms in turn.
    pub(crate) async fn steadily(
        &self,
        firms: &[Firm],
        pace: Pace,
    ) -> anyhow::Result<Vec<Reported>> {
        self.steadily_from(Instant::now(), firms, pace).await
    }

    /// Reports responses of these firms in turn, the first of them due then, even if this instant
    /// is over.
    pub(crate) async fn steadily_from(
        &self,
        began: Instant,
        firms: &[Firm],
        Pace { per_second, time }: Pace,
    ) -> anyhow::Result<Vec<Reported>> {
        let count = (per_second * time.as_secs_f64()) as u32;
        let due = move |number| began + Duration::from_secs_f64(f64::from(number) / per_second);
        on_time::report(self, firms, (0..count).map(due)).await
    }

    /// Reports as many as are taken in, for so long: each connection reports when its last report
    /// is answered.
    pub(crate) async fn flat_out(
        &self,
        firms: &[Firm],
        time: Duration,
    ) -> anyhow::Result<Vec<Reported>> {
        let (end, mut tasks, mut reported) = (Instant::now() + time, JoinSet::new(), Vec::new());
        for first in 0..CONNECTIONS {
            let (reporter, firms) = (self.clone(), firms.to_vec());
            tasks.spawn(async move {
                let mut connection = Connection::open(reporter.door).await?;
                let (mut all, mut firms) = (Vec::new(), firms.iter().cycle().skip(first));
                while let Some(firm) = firms.next().filter(|_| Instant::now() < end) {
                    all.push(reporter.report(&mut connection, firm, Instant::now()).await?);
                }
                anyhow::Ok(all)
            });
        }
        while let Some(ended) = tasks.join_next().await {
            reported.extend(ended??);
        }
        Ok(reported)
    }
}
