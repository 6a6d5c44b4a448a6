//! Reports at a pace that does not wait for answers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use tests::{Firm, submitted};
use tokio::task::JoinSet;
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

use crate::connection::Connection;

/// Connections that take turns, at most: that many reports may be under way.
const CONNECTIONS: usize = 16;

/// How many reports, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    pub(crate) time: Duration,
}

/// An event that was reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) firm_id: Uuid,
    pub(crate) response_id: Uuid,
    /// When it should have been.
    pub(crate) due: Instant,
}

/// Who reports.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) door: SocketAddr,
    pub(crate) token: String,
}

impl Reporter {
    /// Reports responses of these firms in turn.
    pub(crate) async fn steadily(
        &self,
        firms: &[Firm],
        pace: Pace,
    ) -> anyhow::Result<Vec<Reported>> {
        let began = Instant::now();
        let count = (pace.per_second * pace.time.as_secs_f64()) as usize;
        let reports: Vec<_> = (0..count)
            .map(|number| {
                let firm = &firms[number % firms.len()];
                let response_id = SystemEntropy.id();
                let due = began + Duration::from_secs_f64(number as f64 / pace.per_second);
                let line = submitted(firm, response_id).to_string().into_bytes();
                (Reported { firm_id: firm.id, response_id, due }, line)
            })
            .collect();
        // Each has something to say within a second: the door waits 10 s for that.
        let connections = CONNECTIONS.min(pace.per_second.ceil() as usize);
        let mut tasks = JoinSet::new();
        for connection in 0..connections {
            let reports: Vec<_> =
                reports.iter().skip(connection).step_by(connections).cloned().collect();
            tasks.spawn(self.clone().one_by_one(reports));
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(reports.into_iter().map(|(reported, _)| reported).collect())
    }

    async fn one_by_one(self, reports: Vec<(Reported, Vec<u8>)>) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.door).await?;
        for (reported, line) in reports {
            tokio::time::sleep_until(reported.due.into()).await;
            let (answer, body) = connection.report(&self.token, &line).await?;
            ensure!(answer.ok, "a report was refused: {}", String::from_utf8_lossy(&body));
        }
        Ok(())
    }
}
