//! The pulse: one statement a second asks for the first due time of each work queue of this
//! process, and for the last position of the log. It wakes the workers whose time has come, and all
//! workers if other processes have drawn positions.
//!
//! So idle workers need no statement of their own. Each still looks twice a minute: news that the
//! pulse does not see are late, not lost.

use std::fmt::Write;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::time::sleep;

use crate::clock::Clock;
use crate::pool::answer_within;
use crate::store::Store;

/// The interval of the pulse.
const PULSE_INTERVAL: Duration = Duration::from_secs(1);

/// A pulse without an answer for so long has lost its connection without notice.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// The pulse of this process.
pub struct Pulse {
    store: Store,
    clock: Clock,
    /// The number of positions that other processes have drawn.
    foreign: Option<i64>,
}

impl Pulse {
    /// The pulse of the workers that this store's nudge wakes.
    #[must_use]
    pub const fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock, foreign: None }
    }

    /// Beats each second until the future is dropped.
    pub async fn keep_beating(mut self) {
        loop {
            sleep(PULSE_INTERVAL).await;
            self.beat().await;
        }
    }

    /// Asks once, and wakes the workers that have work. If there is no answer, all workers wake, so
    /// that they notice it.
    pub async fn beat(&mut self) {
        let questions = self.store.nudge().due_questions().clone();
        let queries = questions.queries();
        match answer_within(ANSWER_WITHIN, self.ask(&queries)).await {
            Ok(answer) => {
                let now = self.clock.now().get();
                let is_due = |due_at: &Option<DateTime<Utc>>| due_at.is_some_and(|at| at <= now);
                let due = queries.iter().zip(&answer.due_at).filter(|(_, at)| is_due(at));
                questions.wake(&due.map(|(sql, _)| *sql).collect::<Vec<_>>());
                // The appends of this process have woken their workers. A running append of this
                // process looks like a foreign one, and so does its end.
                let foreign = answer.position - self.store.nudge().drawn();
                let before = self.foreign.replace(foreign);
                if before.is_some_and(|before| before != foreign) {
                    self.store.nudge().wake_all();
                }
            }
            Err(error) => {
                tracing::debug!(%error, "the pulse got no answer");
                questions.wake(&queries);
                self.store.nudge().wake_all();
            }
        }
    }

    async fn ask(&self, queries: &[&'static str]) -> Result<PulseAnswer, sqlx::Error> {
        let mut sql = String::from("select case when is_called then last_value else 0 end");
        for query in queries {
            let _ = write!(sql, ", ({query})");
        }
        sql.push_str(" from events_position_seq");
        let mut connection = self.store.connections().take().await?;
        let row = sqlx::query(&sql).fetch_one(&mut *connection).await?;
        self.store.connections().give_back(connection);
        PulseAnswer::from_row(&row)
    }
}

/// The answer to a pulse.
struct PulseAnswer {
    /// The last position that was drawn.
    position: i64,
    /// The first due time of each question.
    due_at: Vec<Option<DateTime<Utc>>>,
}

impl PulseAnswer {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        let due_at = (1..row.len()).map(|column| row.try_get(column)).collect::<Result<_, _>>()?;
        Ok(Self { position: row.try_get(0)?, due_at })
    }
}
