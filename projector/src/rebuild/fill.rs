//! The fill applies the log to the shadow. It begins at position zero and stays below the fence,
//! one batch at a time. Then it applies the rest, as one snapshot of the database shows it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use domain::audit::Seal;
use eventstore::ranges::LogBorder;
use eventstore::tail::{self, LogRange, TailError};
use eventstore::{Fence, RecordedEvent, Upcasters, crash, ranges};
use sqlx::{Connection, PgConnection};

use super::model::ReadModel;
use super::{RebuildError, RebuildProgress};
use crate::deliveries::kept_since;
use crate::seals;

/// The number of events read at once. It covers two blocks, so that one is whole wherever the batch
/// begins.
const EVENTS_PER_READ: i64 = 2 * Seal::POSITIONS_PER_BLOCK;

/// The largest rest that is applied at once: events, which change no more rows than this, or
/// blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct FillLimit {
    events: i64,
    blocks: i64,
}

impl FillLimit {
    /// The limit while the live tables are only read, and block no caller.
    pub(super) const LOOKING: Self = Self { events: 5_000, blocks: seals::BLOCKS_PER_STEP };

    /// The limit while the live tables are locked, and block all callers.
    pub(super) const HOLDING: Self = Self { events: 500, blocks: 1 };
}

/// An event is at most so much older than one of a lower position. The clock of the database may
/// have gone back, but a process trusts no jump of more than 30 s.
const DISORDER_MAX: TimeDelta = TimeDelta::days(1);

/// The progress of one read model's rebuild.
#[derive(Debug)]
pub(super) struct ModelFill {
    pub(super) model: ReadModel,
    /// Everything at or below this position is applied.
    at: i64,
    /// Applied positions above `at`. They were visible before the log was settled up to them.
    beyond: BTreeSet<i64>,
    /// Counts of days before this one are left out.
    first_day: NaiveDate,
    /// The number of positions read for this model.
    pub(super) events: u64,
    /// The time spent on writes of this model.
    pub(super) spent: Duration,
}

impl ModelFill {
    pub(super) const fn new(model: ReadModel, first_day: NaiveDate) -> Self {
        Self { model, at: 0, beyond: BTreeSet::new(), first_day, events: 0, spent: Duration::ZERO }
    }

    /// Whether the model is made of events that have left the log. History is made of those alone
    /// whose deliveries it keeps.
    fn needs_archived(&self, border: LogBorder, kept_since: Option<DateTime<Utc>>) -> bool {
        let is_kept_later = kept_since.is_some_and(|since| since - DISORDER_MAX > border.since);
        self.model.needs_all_events() && !(self.model == ReadModel::Deliveries && is_kept_later)
    }

    /// Returns the last applied position.
    pub(super) fn applied_position(&self) -> i64 {
        self.beyond.last().map_or(self.at, |last| self.at.max(*last))
    }

    /// Returns the position up to which the model can be filled. It is not above the live follower,
    /// with which the model is compared.
    async fn fill_goal(&self, reader: &mut PgConnection, settled: i64) -> Result<i64, sqlx::Error> {
        Ok(goal_of_model(self.model, live_position(reader, self.model).await?, settled))
    }

    /// Returns the events that the reader sees and that are not applied. For a follower these end
    /// at its checkpoint. Otherwise they are all visible events, settled or not. A transaction that
    /// appends at the same time writes its table after the reader has finished. Returns `None` if
    /// the rest is above the limit.
    pub(super) async fn unfilled_events(
        &self,
        reader: &mut PgConnection,
        most: FillLimit,
    ) -> Result<Option<UnfilledEvents<'static>>, TailError> {
        let through = live_position(reader, self.model).await?;
        if let (ReadModel::Seals, Some(through)) = (self.model, through) {
            let near = through - self.at <= most.blocks * Seal::POSITIONS_PER_BLOCK;
            return Ok(
                near.then(|| UnfilledEvents { events: Cow::default(), through: Some(through) })
            );
        }
        let settled = through.unwrap_or(i64::MAX);
        let range = LogRange { after: self.at, settled, limit: most.events + 1 };
        let events = tail::read(reader, &Upcasters::current(), range).await?;
        if events.len() as u64 > most.events.cast_unsigned() {
            return Ok(None);
        }
        let events = self.unseen_events(&events, i64::MAX).into_owned();
        let rows: usize = events.iter().map(|event| self.model.rows_max(event)).sum();
        if rows as u64 > most.events.cast_unsigned() {
            return Ok(None);
        }
        Ok(Some(UnfilledEvents { events: events.into(), through }))
    }

    fn unseen_events<'a>(
        &self,
        events: &'a [RecordedEvent],
        through: i64,
    ) -> Cow<'a, [RecordedEvent]> {
        let from = events.partition_point(|event| event.position <= self.at);
        let to = events.partition_point(|event| event.position <= through).max(from);
        let new = &events[from..to];
        if self.beyond.is_empty() {
            return Cow::Borrowed(new);
        }
        new.iter().filter(|event| !self.beyond.contains(&event.position)).cloned().collect()
    }

    /// Applies the events that the model does not have yet.
    pub(super) async fn apply_unfilled(
        &mut self,
        connection: &mut PgConnection,
        UnfilledEvents { events, through }: &UnfilledEvents<'_>,
    ) -> Result<(), RebuildError> {
        self.apply_events(connection, events).await?;
        let Some(through) = *through else {
            self.beyond.extend(events.iter().map(|event| event.position));
            return Ok(());
        };
        if self.model == ReadModel::Seals && through > self.at {
            seals::seal_between(connection, self.at, through).await?;
            self.events += (through - self.at).cast_unsigned();
        }
        self.note_reached(through);
        Ok(())
    }

    async fn apply_events(
        &mut self,
        connection: &mut PgConnection,
        events: &[RecordedEvent],
    ) -> Result<(), RebuildError> {
        let model = self.model;
        let began = Instant::now();
        let applied = model.apply_events(connection, events, self.first_day).await;
        applied.map_err(|error| RebuildError::Writer { model, error })?;
        self.events += events.len() as u64;
        self.spent += began.elapsed();
        Ok(())
    }

    fn note_reached(&mut self, position: i64) {
        self.at = self.at.max(position);
        self.beyond = self.beyond.split_off(&(self.at + 1));
    }
}

/// The events that were not applied when the snapshot was read.
pub(super) struct UnfilledEvents<'a> {
    events: Cow<'a, [RecordedEvent]>,
    /// For a follower, the position up to which these events are complete.
    through: Option<i64>,
}

/// Returns the end of the settled and followed log. For seals it is the end of the last whole
/// block, because the fence may be behind them.
fn goal_of_model(model: ReadModel, checkpoint: Option<i64>, settled: i64) -> i64 {
    let goal = checkpoint.map_or(settled, |at| at.min(settled));
    if model == ReadModel::Seals {
        goal / Seal::POSITIONS_PER_BLOCK * Seal::POSITIONS_PER_BLOCK
    } else {
        goal
    }
}

/// Returns the position of the live follower. A model that is written in the append has none.
async fn live_position(
    connection: &mut PgConnection,
    model: ReadModel,
) -> Result<Option<i64>, sqlx::Error> {
    let Some(follower) = model.follower() else {
        return Ok(None);
    };
    let at = sqlx::query_scalar("select position from public.checkpoints where name = $1")
        .bind(follower)
        .fetch_optional(connection)
        .await?;
    Ok(Some(at.unwrap_or(0)))
}

/// Fills these read models up to the settled position. The log is read once for all of them.
pub(super) async fn fill_models(
    connection: &mut PgConnection,
    fence: &Fence,
    fillings: &mut [ModelFill],
    progress: &RebuildProgress<'_>,
) -> Result<(), RebuildError> {
    if let Some(border) = ranges::border(connection).await? {
        let kept_since = kept_since(connection).await?;
        let needs_archived = |filling: &&ModelFill| filling.needs_archived(border, kept_since);
        if let Some(ModelFill { model, .. }) = fillings.iter().find(needs_archived) {
            return Err(RebuildError::Archived { model: *model, through: border.through });
        }
    }
    let settled = fence.look_patiently().await?.settled;
    let mut goals = Vec::with_capacity(fillings.len());
    for filling in &*fillings {
        goals.push(filling.fill_goal(connection, settled).await?);
    }
    let goal = goals.iter().copied().max().unwrap_or(0);
    loop {
        let behind = fillings.iter().zip(&goals).filter(|(filling, goal)| filling.at < **goal);
        let Some(after) = behind.map(|(filling, _)| filling.at).min() else {
            return Ok(());
        };
        let range = LogRange { after, settled: goal, limit: EVENTS_PER_READ };
        let events = tail::read(connection, &Upcasters::current(), range).await?;
        let is_last = (events.len() as u64) < EVENTS_PER_READ.cast_unsigned();
        let end = events.last().filter(|_| !is_last).map_or(goal, |event| event.position);
        for (filling, goal) in fillings.iter_mut().zip(&goals) {
            fill_batch(connection, filling, &events, end.min(*goal)).await?;
        }
        progress(end, goal);
        crash::point("rebuilding");
    }
}

async fn fill_batch(
    connection: &mut PgConnection,
    filling: &mut ModelFill,
    events: &[RecordedEvent],
    through: i64,
) -> Result<(), RebuildError> {
    // A whole block is sealed from the stored digests.
    let (events, through) = match filling.model {
        ReadModel::Seals => {
            (Cow::default(), through / Seal::POSITIONS_PER_BLOCK * Seal::POSITIONS_PER_BLOCK)
        }
        _ => (filling.unseen_events(events, through), through),
    };
    if through <= filling.at {
        return Ok(());
    }
    let mut transaction = connection.begin().await?;
    filling
        .apply_unfilled(&mut transaction, &UnfilledEvents { events, through: Some(through) })
        .await?;
    Ok(transaction.commit().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log begins on day 10.
    #[test]
    fn history_needs_no_events_before_it() {
        let day = |day: i64| DateTime::UNIX_EPOCH + TimeDelta::days(day);
        let border = LogBorder { through: 7, since: day(10) };
        for (model, kept_since, needs) in [
            (ReadModel::Deliveries, None, true),
            (ReadModel::Deliveries, Some(day(9)), true),
            (ReadModel::Deliveries, Some(day(11)), true),
            (ReadModel::Deliveries, Some(day(12)), false),
            (ReadModel::AuditLog, Some(day(12)), true),
            (ReadModel::Seals, Some(day(12)), true),
            (ReadModel::Firms, None, false),
        ] {
            let filling = ModelFill::new(model, NaiveDate::default());
            assert_eq!(filling.needs_archived(border, kept_since), needs, "{model} {kept_since:?}");
        }
        let endless = LogBorder { since: DateTime::<Utc>::MAX_UTC, ..border };
        let filling = ModelFill::new(ReadModel::Deliveries, NaiveDate::default());
        assert!(filling.needs_archived(endless, Some(day(12))));
    }

    /// The fence can be behind the seals.
    #[test]
    fn filling_seals_ends_at_a_whole_block() {
        let whole = 2 * Seal::POSITIONS_PER_BLOCK;
        assert_eq!(
            goal_of_model(ReadModel::Seals, Some(whole), whole - 1),
            Seal::POSITIONS_PER_BLOCK
        );
        assert_eq!(goal_of_model(ReadModel::Seals, Some(whole), whole + 7), whole);
        assert_eq!(goal_of_model(ReadModel::Seals, Some(0), whole), 0);
        assert_eq!(goal_of_model(ReadModel::Deliveries, Some(whole), whole - 1), whole - 1);
        assert_eq!(goal_of_model(ReadModel::Firms, None, whole - 1), whole - 1);
    }
}
