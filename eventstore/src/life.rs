//! The life of the database server, as this process sees it (ruling 43).
//!
//! A crash, a failover and a restore each begin a new life of the server. The end of the log may be
//! gone then, and positions and transaction ids may be drawn again. So nothing that a process
//! remembers of the log outlives a life. Each memory keeps the [`LifeNumber`] it was made in, and
//! its owner drops it when the number has changed.
//!
//! The death of one process of the server is a crash, too: the postmaster ends all the others and
//! recovers, and it keeps its start. Such a recovery empties the statistics, and only that shows to
//! every login. An operator who empties the statistics of the archiver begins a life by mistake,
//! which costs a few reads.
//!
//! Every new connection of a watched pool asks which life its server is in. The number changes
//! before the first use of the first connection to another life. A connection of an earlier life is
//! not used again, and commits nothing more.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection};

use crate::event::RecordedEvent;

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
         pg_postmaster_start_time() as started_at,
         (select stats_reset from pg_stat_archiver) as recovered_at"
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
    /// The start of the postmaster.
    pub started_at: DateTime<Utc>,
    /// The last time at which the statistics were emptied, as each recovery from a crash does.
    pub recovered_at: Option<DateTime<Utc>>,
}

impl ServerLife {
    /// Reads the life of the server behind a connection.
    pub async fn new(connection: &mut PgConnection) -> Result<Self, sqlx::Error> {
        sqlx::query_as(concat!("select ", life_columns!())).fetch_one(connection).await
    }

    /// Returns whether this server of the same cluster was left behind by a promotion.
    #[must_use]
    pub fn is_older_than(&self, newest: &Self) -> bool {
        newest.system_identifier == self.system_identifier && self.timeline < newest.timeline
    }
}

impl fmt::Display for ServerLife {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system_identifier, timeline, started_at, recovered_at } = self;
        let timeline = timeline.as_deref().unwrap_or("of a standby");
        write!(formatter, "system {system_identifier}, timeline {timeline}, since {started_at}")?;
        match recovered_at {
            Some(at) if at > started_at => write!(formatter, ", recovered {at}"),
            _ => Ok(()),
        }
    }
}

/// The number of a life among those that this process has seen.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LifeNumber(u64);

#[cfg(test)]
impl LifeNumber {
    pub(crate) const FIRST: Self = Self(1);
}

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
    pub const fn new(event: &RecordedEvent) -> Self {
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
    /// Whether a server with a lower timeline is an old primary that stands beside the new one.
    older_timelines: OlderTimelines,
}

/// The treatment of a server of the same cluster with a lower timeline than the last one's.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OlderTimelines {
    /// The only host has been replaced, by a restore for example.
    #[default]
    Used,
    /// With several hosts, the old primary stands beside the new one.
    Refused,
}

#[derive(Debug, Default)]
struct WatchState {
    life: Option<ServerLife>,
    /// The moment at which this process noticed the life, if it has seen an earlier one.
    noticed: Option<Instant>,
    /// The newest committed events, with the life in which they were seen.
    seen: VecDeque<(LifeNumber, SeenEvent)>,
    /// The last moment at which a refused server was logged.
    refusal_logged: Option<Instant>,
    /// The other hosts that take writes, at the last look.
    other_primaries: Vec<String>,
}

impl LifeWatch {
    /// Makes a watch whose pools refuse every standby. `name` stands for the database in the log.
    #[must_use]
    pub(crate) fn of_primary(name: &'static str, older_timelines: OlderTimelines) -> Self {
        let watched = Watched { primary_of: Some(name), older_timelines, ..Watched::default() };
        Self(Arc::new(watched))
    }

    /// Returns the name of the database in the log.
    pub(crate) fn database_name(&self) -> &'static str {
        self.0.primary_of.unwrap_or("the database")
    }

    /// Notes the life behind a new connection, or refuses it.
    ///
    /// # Errors
    /// If the server is a standby or an old primary, and only the primary will do.
    pub(crate) fn admit_life(&self, life: ServerLife) -> Result<(), sqlx::Error> {
        let Some(refusal) = self.refusal_reason(&life) else {
            self.note_life(life);
            return Ok(());
        };
        let now = Instant::now();
        let mut state = self.lock_state();
        if state.refusal_logged.is_none_or(|at| now - at >= REFUSAL_LOG_INTERVAL) {
            state.refusal_logged = Some(now);
            tracing::warn!(
                "the server of {} is {refusal}: its connections are refused until a primary \
                 answers",
                self.database_name()
            );
        }
        Err(sqlx::Error::Configuration(format!("the server is {refusal}").into()))
    }

    /// Returns why this server will not do.
    fn refusal_reason(&self, life: &ServerLife) -> Option<&'static str> {
        self.0.primary_of?;
        let is_old = || {
            self.0.older_timelines == OlderTimelines::Refused
                && self.lock_state().life.as_ref().is_some_and(|newest| life.is_older_than(newest))
        };
        match life.timeline {
            None => Some("a standby"),
            Some(_) => is_old().then_some("an old primary"),
        }
    }

    /// Returns the number of the present life.
    #[must_use]
    pub fn life_number(&self) -> LifeNumber {
        LifeNumber(self.0.number.load(Ordering::SeqCst))
    }

    /// Returns the present life, once a connection was made.
    #[must_use]
    pub fn present_life(&self) -> Option<ServerLife> {
        self.lock_state().life.clone()
    }

    /// Returns whether the present life had begun at this moment, as far as this process knew.
    #[must_use]
    pub fn had_begun_at(&self, moment: Instant) -> bool {
        self.lock_state().noticed.is_none_or(|noticed| noticed <= moment)
    }

    /// Notes the life behind a new connection.
    pub(crate) fn note_life(&self, life: ServerLife) {
        let mut state = self.lock_state();
        match &state.life {
            Some(known) if *known == life => return,
            Some(earlier) => {
                tracing::warn!(
                    %earlier,
                    now = %life,
                    "the database's server is in another life: what was read of the log is dropped"
                );
                self.begin_life(&mut state);
            }
            None => {}
        }
        state.life = Some(life);
    }

    /// Ends the use of all connections of now, because they have fallen silent. The server may have
    /// vanished and come back, so all memory of the log ends, too.
    pub(crate) fn renew_life(&self) {
        self.begin_life(&mut self.lock_state());
    }

    fn begin_life(&self, state: &mut WatchState) {
        state.noticed = Some(Instant::now());
        self.0.number.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the other hosts of this database that take writes, at the last look of this process.
    /// There should be none: events written to an older primary are lost. The text names each by
    /// its address.
    #[must_use]
    pub fn other_primaries(&self) -> Vec<String> {
        self.lock_state().other_primaries.clone()
    }

    /// Notes the other hosts that take writes, and returns those that did not before.
    pub(crate) fn note_other_primaries(&self, places: Vec<String>) -> Vec<String> {
        let mut state = self.lock_state();
        let is_new = |place: &&String| !state.other_primaries.contains(place);
        let new = places.iter().filter(is_new).cloned().collect();
        state.other_primaries = places;
        new
    }

    /// Remembers an event whose commit this process has seen.
    pub fn remember_event(&self, event: SeenEvent) {
        let number = self.life_number();
        let mut state = self.lock_state();
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
        let state = self.lock_state();
        state.seen.iter().filter(|(life, _)| *life < number).map(|(_, event)| *event).collect()
    }

    /// Forgets the events seen before this life.
    pub(crate) fn forget_before(&self, number: LifeNumber) {
        self.lock_state().seen.retain(|(life, _)| *life >= number);
    }

    fn lock_state(&self) -> MutexGuard<'_, WatchState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(started_at: &str, timeline: &str) -> ServerLife {
        let started_at = started_at.parse().unwrap();
        ServerLife {
            system_identifier: 7,
            timeline: Some(timeline.to_owned()),
            started_at,
            recovered_at: None,
        }
    }

    fn event(position: i64) -> SeenEvent {
        SeenEvent { position, digest: [0; 32] }
    }

    /// A reconnect begins none.
    #[test]
    fn a_restart_or_promotion_begins_a_life() {
        let watch = LifeWatch::default();
        let before = Instant::now();
        watch.note_life(life("2026-11-01T12:00:00Z", "00000001"));
        watch.note_life(life("2026-11-01T12:00:00Z", "00000001"));
        assert_eq!(watch.life_number(), LifeNumber(0));
        assert!(watch.had_begun_at(before), "the first life has no earlier one");
        watch.note_life(life("2026-11-01T12:00:01Z", "00000001"));
        assert_eq!(watch.life_number(), LifeNumber(1));
        assert!(!watch.had_begun_at(before) && watch.had_begun_at(Instant::now()));
        watch.note_life(life("2026-11-01T12:00:01Z", "00000002"));
        assert_eq!(watch.life_number(), LifeNumber(2));
    }

    #[test]
    fn recovery_and_silence_begin_a_life() {
        let watch = LifeWatch::default();
        let first = life("2026-11-01T12:00:00Z", "00000001");
        watch.note_life(first.clone());
        let recovered_at = Some("2026-11-01T13:00:00Z".parse().unwrap());
        watch.note_life(ServerLife { recovered_at, ..first });
        assert_eq!(watch.life_number(), LifeNumber(1));
        let before = Instant::now();
        watch.renew_life();
        assert_eq!(watch.life_number(), LifeNumber(2));
        assert!(!watch.had_begun_at(before));
    }

    /// Where no primary is needed, a standby is admitted.
    #[test]
    fn a_standby_is_refused_as_a_primary() {
        let standby = || ServerLife { timeline: None, ..life("2026-11-01T12:00:00Z", "00000001") };
        assert!(LifeWatch::default().admit_life(standby()).is_ok());
        let serving = LifeWatch::of_primary("the main database", OlderTimelines::Used);
        serving.admit_life(life("2026-11-01T12:00:00Z", "00000001")).unwrap();
        serving.admit_life(standby()).unwrap_err();
        assert_eq!(serving.life_number(), LifeNumber(0), "a refused server begins no life");
    }

    #[test]
    fn an_old_primary_beside_others_is_refused() {
        let newest = || life("2026-11-01T12:00:00Z", "00000002");
        let older = || life("2026-11-01T11:00:00Z", "00000001");
        for (older_timelines, lives) in [(OlderTimelines::Refused, 0), (OlderTimelines::Used, 1)] {
            let watch = LifeWatch::of_primary("the main database", older_timelines);
            watch.admit_life(newest()).unwrap();
            assert_eq!(watch.admit_life(older()).is_ok(), older_timelines == OlderTimelines::Used);
            assert_eq!(watch.life_number(), LifeNumber(lives));
        }
    }

    #[test]
    fn another_primary_is_news_once() {
        let watch = LifeWatch::default();
        let places = || vec!["db-a:5432".to_owned()];
        assert_eq!(watch.note_other_primaries(places()), places());
        assert_eq!(watch.note_other_primaries(places()), Vec::<String>::new());
        assert_eq!(watch.other_primaries(), places());
        watch.note_other_primaries(Vec::new());
        assert_eq!(watch.note_other_primaries(places()), places());
    }

    /// The events are kept until a later life is checked.
    #[test]
    fn a_lifes_newest_events_are_remembered() {
        let watch = LifeWatch::default();
        watch.note_life(life("2026-11-01T12:00:00Z", "00000001"));
        (1..=40).for_each(|position| watch.remember_event(event(position)));
        assert_eq!(watch.seen_before(watch.life_number()), []);
        watch.note_life(life("2026-11-01T12:00:01Z", "00000002"));
        (41..=43).for_each(|position| watch.remember_event(event(position)));
        let seen = watch.seen_before(watch.life_number());
        assert_eq!((seen.len(), seen[0]), (REMEMBERED_MAX, event(9)));
        watch.forget_before(watch.life_number());
        assert_eq!(watch.seen_before(watch.life_number()), []);
    }
}
