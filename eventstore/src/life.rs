//! The life of the database server, as this process sees it (ruling 43).
//!
//! A crash, a failover and a restore each begin a new life of the server. The end of the log may be
//! gone then, and positions and transaction ids may be drawn again. So nothing that a process
//! remembers of the log outlives a life. Each memory keeps the [`LifeNumber`] it was made in, and
//! its owner drops it when the number has changed.
//!
//! Every new connection of a watched pool asks which life its server is in. The number changes
//! before the first use of the first connection to another life. A connection of an earlier life is
//! not used again.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection};

use crate::append::RecordedEvent;

/// The newest committed events of a life that are remembered. A lost end of the log has the newest
/// commits, and a few cover commits that this process saw in another order than they were written.
const REMEMBERED_MAX: usize = 32;

/// A refused standby is logged at most this often. Each try to connect meets it again.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The columns of a [`ServerLife`].
macro_rules! life_columns {
    () => {
        "(select system_identifier from pg_control_system()) as system_identifier,
         case when not pg_is_in_recovery()
              then left(pg_walfile_name(pg_current_wal_lsn()), 8) end as timeline,
         pg_postmaster_start_time() as started_at"
    };
}
pub(crate) use life_columns;

/// One life of a database server: from a start of this server, on this timeline.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ServerLife {
    /// The identifier that PostgreSQL drew when the cluster was made.
    pub system_identifier: i64,
    /// The timeline, which changes with a promotion. `None` on a standby.
    pub timeline: Option<String>,
    /// The start of the server.
    pub started_at: DateTime<Utc>,
}

impl ServerLife {
    /// Reads the life of the server behind a connection.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn of(connection: &mut PgConnection) -> Result<Self, sqlx::Error> {
        sqlx::query_as(concat!("select ", life_columns!())).fetch_one(connection).await
    }
}

impl fmt::Display for ServerLife {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system_identifier, timeline, started_at } = self;
        let timeline = timeline.as_deref().unwrap_or("of a standby");
        write!(formatter, "system {system_identifier}, timeline {timeline}, since {started_at}")
    }
}

/// The number of a life among those that this process has seen.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LifeNumber(u64);

/// A committed event that this process has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenEvent {
    /// The position in the log.
    pub position: i64,
    /// The stored digest.
    pub digest: [u8; 32],
}

impl SeenEvent {
    /// Returns what identifies this event.
    #[must_use]
    pub const fn of(event: &RecordedEvent) -> Self {
        Self { position: event.position, digest: event.digest }
    }
}

/// The lives of one database's server, shared by all connections of a process.
#[derive(Debug, Default, Clone)]
pub struct LifeWatch(Arc<Watched>);

#[derive(Debug, Default)]
struct Watched {
    number: AtomicU64,
    state: Mutex<WatchState>,
    /// The name of the database in the log, if only its primary will do.
    primary_of: Option<&'static str>,
}

#[derive(Debug, Default)]
struct WatchState {
    life: Option<ServerLife>,
    /// The moment at which this process noticed the life, if it has seen an earlier one.
    noticed: Option<Instant>,
    /// The newest committed events, with the life in which they were seen.
    seen: VecDeque<(LifeNumber, SeenEvent)>,
    /// The last moment at which a refused standby was logged.
    refusal_logged: Option<Instant>,
}

impl LifeWatch {
    /// Makes a watch whose pools refuse every standby. `name` stands for the database in the log.
    #[must_use]
    pub fn of_primary(name: &'static str) -> Self {
        Self(Arc::new(Watched { primary_of: Some(name), ..Watched::default() }))
    }

    /// Returns the name of the database in the log.
    pub(crate) fn name(&self) -> &'static str {
        self.0.primary_of.unwrap_or("the database")
    }

    /// Notes the life behind a new connection, or refuses it.
    ///
    /// # Errors
    /// If the server is a standby, and only a primary will do.
    pub(crate) fn admit(&self, life: ServerLife) -> Result<(), sqlx::Error> {
        if life.timeline.is_some() || self.0.primary_of.is_none() {
            self.note(life);
            return Ok(());
        }
        let now = Instant::now();
        let mut state = self.state();
        if state.refusal_logged.is_none_or(|at| now - at >= REFUSAL_LOG_INTERVAL) {
            state.refusal_logged = Some(now);
            tracing::warn!(
                "the server of {} is a standby: its connections are refused until a primary \
                 answers",
                self.name()
            );
        }
        Err(sqlx::Error::Configuration("the server is a standby".into()))
    }

    /// Returns the number of the present life.
    #[must_use]
    pub fn number(&self) -> LifeNumber {
        LifeNumber(self.0.number.load(Ordering::SeqCst))
    }

    /// Returns the present life, once a connection was made.
    #[must_use]
    pub fn life(&self) -> Option<ServerLife> {
        self.state().life.clone()
    }

    /// Returns whether the present life had begun at this moment, as far as this process knew.
    #[must_use]
    pub fn had_begun_at(&self, moment: Instant) -> bool {
        self.state().noticed.is_none_or(|noticed| noticed <= moment)
    }

    /// Notes the life behind a new connection.
    pub(crate) fn note(&self, life: ServerLife) {
        let mut state = self.state();
        match &state.life {
            Some(known) if *known == life => return,
            Some(earlier) => {
                tracing::warn!(
                    %earlier,
                    now = %life,
                    "the database's server is in another life: what was read of the log is dropped"
                );
                state.noticed = Some(Instant::now());
                self.0.number.fetch_add(1, Ordering::SeqCst);
            }
            None => {}
        }
        state.life = Some(life);
    }

    /// Remembers an event whose commit this process has seen.
    pub fn saw(&self, event: SeenEvent) {
        let number = self.number();
        let mut state = self.state();
        let of_this_life = state.seen.iter().filter(|(life, _)| *life == number).count();
        if of_this_life >= REMEMBERED_MAX
            && let Some(oldest) = state.seen.iter().position(|(life, _)| *life == number)
        {
            state.seen.remove(oldest);
        }
        state.seen.push_back((number, event));
    }

    /// Returns the events seen before this life.
    pub(crate) fn seen_before(&self, number: LifeNumber) -> Vec<SeenEvent> {
        let state = self.state();
        state.seen.iter().filter(|(life, _)| *life < number).map(|(_, event)| *event).collect()
    }

    /// Forgets the events seen before this life.
    pub(crate) fn forget_before(&self, number: LifeNumber) {
        self.state().seen.retain(|(life, _)| *life >= number);
    }

    fn state(&self) -> MutexGuard<'_, WatchState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(started_at: &str, timeline: &str) -> ServerLife {
        let started_at = started_at.parse().unwrap();
        ServerLife { system_identifier: 7, timeline: Some(timeline.to_owned()), started_at }
    }

    fn event(position: i64) -> SeenEvent {
        SeenEvent { position, digest: [0; 32] }
    }

    #[test]
    fn a_restart_and_a_promotion_each_begin_a_life_and_a_reconnect_does_not() {
        let watch = LifeWatch::default();
        let before = Instant::now();
        watch.note(life("2026-11-01T12:00:00Z", "00000001"));
        watch.note(life("2026-11-01T12:00:00Z", "00000001"));
        assert_eq!(watch.number(), LifeNumber(0));
        assert!(watch.had_begun_at(before), "the first life has no earlier one");
        watch.note(life("2026-11-01T12:00:01Z", "00000001"));
        assert_eq!(watch.number(), LifeNumber(1));
        assert!(!watch.had_begun_at(before) && watch.had_begun_at(Instant::now()));
        watch.note(life("2026-11-01T12:00:01Z", "00000002"));
        assert_eq!(watch.number(), LifeNumber(2));
    }

    #[test]
    fn a_standby_is_refused_only_where_a_primary_is_needed() {
        let standby = || ServerLife { timeline: None, ..life("2026-11-01T12:00:00Z", "00000001") };
        assert!(LifeWatch::default().admit(standby()).is_ok());
        let serving = LifeWatch::of_primary("the main database");
        serving.admit(life("2026-11-01T12:00:00Z", "00000001")).unwrap();
        serving.admit(standby()).unwrap_err();
        assert_eq!(serving.number(), LifeNumber(0), "a refused server begins no life");
    }

    #[test]
    fn the_newest_events_of_a_life_are_remembered_until_a_later_one_is_checked() {
        let watch = LifeWatch::default();
        watch.note(life("2026-11-01T12:00:00Z", "00000001"));
        (1..=40).for_each(|position| watch.saw(event(position)));
        assert_eq!(watch.seen_before(watch.number()), []);
        watch.note(life("2026-11-01T12:00:01Z", "00000002"));
        (41..=43).for_each(|position| watch.saw(event(position)));
        let seen = watch.seen_before(watch.number());
        assert_eq!((seen.len(), seen[0]), (REMEMBERED_MAX, event(9)));
        watch.forget_before(watch.number());
        assert_eq!(watch.seen_before(watch.number()), []);
    }
}
