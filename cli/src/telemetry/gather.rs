//! The figures that have to be asked of the database, by one connection of the health pool: bounded
//! questions, in one short transaction.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use deliverer::backlog::{self, Backlog, Lanes};
use eventstore::progress::{Progress, progress};
use projector::{invites, replays};
use sqlx::PgPool;
use telemetry::figures as told;

/// Whoever scrapes waits no longer than this for the database.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The followers there are: their names are labels. The seals wait for a block to be whole: what they
/// read next may be old, and nothing is late.
const FOLLOWERS: [(&str, bool); 5] = [
    ("fan_out", true),
    ("deliveries", true),
    ("audit_log", true),
    ("erase", true),
    ("seals", false),
];

/// What the database says of the service.
pub(super) struct Gathered {
    at: DateTime<Utc>,
    backlog: Backlog,
    lanes: Lanes,
    progress: Vec<Progress>,
    replays: (i64, i64),
    open_invites: i64,
}

impl Gathered {
    /// Asks, within two seconds.
    pub(super) async fn ask(pool: &PgPool, at: DateTime<Utc>) -> Result<Self, sqlx::Error> {
        let answered = tokio::time::timeout(ANSWER_WITHIN, Self::within(pool, at)).await;
        answered.map_err(|late| sqlx::Error::Io(late.into()))?
    }

    async fn within(pool: &PgPool, at: DateTime<Utc>) -> Result<Self, sqlx::Error> {
        let mut transaction = pool.begin().await?;
        // The server gives up by itself what nobody waits for any more.
        sqlx::query("set local statement_timeout = '1500ms'").execute(&mut *transaction).await?;
        let gathered = Self {
            at,
            backlog: backlog::deliveries(&mut transaction, at).await?,
            lanes: backlog::lanes(&mut transaction, at).await?,
            progress: progress(&mut transaction).await?,
            replays: replays::count_open(&mut transaction).await?,
            open_invites: invites::under_way(&mut transaction).await?,
        };
        transaction.rollback().await?;
        Ok(gathered)
    }

    /// Tells it.
    pub(super) fn tell(&self) {
        let Backlog { due, waiting, in_flight } = self.backlog;
        for (state, count) in [("due", due), ("waiting", waiting), ("in_flight", in_flight)] {
            told::BACKLOG.set_count(&[("state", state)], count);
        }
        let Lanes { due, waiting, paused, closing, oldest_due_at } = self.lanes;
        let lanes = [("due", due), ("waiting", waiting), ("paused", paused), ("closing", closing)];
        for (state, count) in lanes {
            told::LANES.set_count(&[("state", state)], count);
        }
        told::BACKLOG_AGE.set(&[], self.since(oldest_due_at));
        for of in &self.progress {
            self.tell_progress(of);
        }
        let (running, paused) = self.replays;
        told::REPLAYS.set_count(&[("state", "running")], running);
        told::REPLAYS.set_count(&[("state", "paused")], paused);
        told::OPEN_INVITES.set_count(&[], self.open_invites);
    }

    fn tell_progress(&self, of: &Progress) {
        let Some((name, timely)) = FOLLOWERS.into_iter().find(|(name, _)| *name == of.name) else {
            return;
        };
        told::FOLLOWER_POSITIONS.set_count(&[("follower", name)], of.behind);
        if timely {
            told::FOLLOWER_SECONDS.set(&[("follower", name)], self.since(of.next_at));
        }
    }

    fn since(&self, at: Option<DateTime<Utc>>) -> f64 {
        at.map_or(0.0, |at| seconds(self.at - at).max(0.0))
    }
}

/// A time, in seconds and parts of them.
pub(super) fn seconds(time: TimeDelta) -> f64 {
    time.as_seconds_f64()
}
