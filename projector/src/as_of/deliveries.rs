//! Deliveries at a moment, with their attempts, which are in no table.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use cqrs_es::Aggregate;
use domain::activity::{Happening, OccurrenceEvent};
use domain::delivery::{
    Attempt, CancelCause, Delivery, DeliveryEvent, DeliveryOf, DeliveryState, ReissuedDelivery,
};
use domain::event::Event;
use domain::subscription::shown_target;
use domain::values::{AsOf, Timestamp};
use eventstore::ranges::LogBorder;
use eventstore::tail::{self, ReadUntil, TailError};
use eventstore::{RecordedEvent, Upcasters, load_first, ranges};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use super::left::CLOCKS_DIFFER_MAX;
use super::{AsOfError, LeftStreams, STREAMS_PER_READ, had_happened};
use crate::deliveries::DeliveryRow;
use crate::hooks;

/// A delivery at a moment, with its attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryThen {
    /// The state of the delivery.
    pub row: DeliveryRow,
    /// The attempts up to that moment, in order.
    pub attempts: Vec<Attempt>,
}

/// Lists up to `limit` deliveries of a firm that existed at a moment, newest first.
pub async fn list_deliveries(
    connection: &mut PgConnection,
    firm_id: Uuid,
    as_of: AsOf,
    limit: usize,
) -> Result<Vec<DeliveryRow>, AsOfError> {
    let mut page = BegunPage::first_page(firm_id, as_of);
    let mut found = Vec::new();
    loop {
        let begun = page.read_page(connection).await?;
        page.before = begun.last().map(|one| (one.created_at, one.delivery_id));
        let mut rows = load_as_of(connection, firm_id, &begun, as_of, &[]).await?;
        rows.sort_by_key(|then| std::cmp::Reverse((then.row.created_at, then.row.delivery_id)));
        found.extend(rows.into_iter().map(|then| then.row));
        if found.len() >= limit || begun.len() < STREAMS_PER_READ {
            break;
        }
    }
    if found.len() < limit {
        require_all_stored(connection, firm_id).await?;
    }
    found.truncate(limit);
    Ok(found)
}

/// Refuses a list that ends where events have left: older deliveries of the firm are not in it.
async fn require_all_stored(connection: &mut PgConnection, firm_id: Uuid) -> Result<(), AsOfError> {
    let Some(border) = ranges::border(connection).await? else { return Ok(()) };
    let has_older: bool = sqlx::query_scalar(
        "select exists (select from deliveries where firm_id = $1 and created_at < $2)",
    )
    .bind(firm_id)
    .bind(border.since)
    .fetch_one(connection)
    .await?;
    if has_older { Err(AsOfError::ListLeft { through: border.through }) } else { Ok(()) }
}

/// Finds one delivery of a firm, if its occurrence listed it or an event had queued it. Events that
/// have left the database come from elsewhere: `archived`.
///
/// # Errors
/// [`AsOfError`]. [`AsOfError::Left`] names the events to look for.
pub async fn find_delivery(
    connection: &mut PgConnection,
    firm_id: Uuid,
    delivery_id: Uuid,
    as_of: AsOf,
    archived: &[RecordedEvent],
) -> Result<Option<DeliveryThen>, AsOfError> {
    let known: Option<KnownDelivery> = sqlx::query_as(
        "select created_at, delivery_id, occurrence_id, hook_id, ended_at, state from deliveries
          where delivery_id = $1 and firm_id = $2",
    )
    .bind(delivery_id)
    .bind(firm_id)
    .fetch_optional(&mut *connection)
    .await?;
    let begun = match &known {
        Some(known) => known.begun,
        // The read model may be behind. The occurrence's list or the delivery's stream has the
        // answer then.
        None => {
            let page = BegunPage { firm_id, before: None, position: None };
            let unfollowed = page.read_unfollowed(connection).await?.into_iter();
            let mut listed = unfollowed.filter(|one| one.delivery_id == delivery_id);
            listed.next().unwrap_or(BegunDelivery { delivery_id, ..BegunDelivery::default() })
        }
    };
    let then = load_as_of(connection, firm_id, &[begun], as_of, archived).await?;
    let then = then.into_iter().next();
    if let Some(known) = known.filter(|_| archived.is_empty()) {
        let differs =
            as_of == AsOf::NOW && then.as_ref().is_none_or(|then| then.row.state != known.state);
        if let Some(border) = known.border_above(connection, differs).await? {
            let left = known.left_streams(connection, firm_id, border).await?;
            return Err(AsOfError::Left(left));
        }
    }
    let Some(mut then) = then else { return Ok(None) };
    if let Some(hook_id) = then.row.hook_id {
        for (_, target) in hooks::target_urls(connection, &[hook_id]).await? {
            then.show_target(&shown_target(&target));
        }
    }
    Ok(Some(then))
}

/// A delivery of history.
#[derive(Debug, FromRow)]
struct KnownDelivery {
    #[sqlx(flatten)]
    begun: BegunDelivery,
    ended_at: Option<DateTime<Utc>>,
    state: String,
}

impl KnownDelivery {
    /// Returns the border of the log if events of the delivery have left: its first one, or others,
    /// without which the log comes to another state than history.
    async fn border_above(
        &self,
        connection: &mut PgConnection,
        differs: bool,
    ) -> Result<Option<LogBorder>, AsOfError> {
        let Some(border) = ranges::border(connection).await? else { return Ok(None) };
        let BegunDelivery { delivery_id, occurrence_id, created_at, .. } = self.begun;
        if created_at - CLOCKS_DIFFER_MAX >= border.since {
            return Ok(None);
        }
        let (kind, first_id) =
            occurrence_id.map_or(("Delivery", delivery_id), |id| ("Occurrence", id));
        let first_id = first_id.to_string();
        let first = load_first(connection, &Upcasters::current(), kind, &[&first_id]).await?;
        Ok((differs || first.is_empty()).then_some(border))
    }

    /// Returns where its events lie. History knows when it was made and has ended, and the firm's
    /// replays may have sent it again since then.
    async fn left_streams(
        &self,
        connection: &mut PgConnection,
        firm_id: Uuid,
        border: LogBorder,
    ) -> Result<LeftStreams, sqlx::Error> {
        let Self { begun, ended_at, .. } = self;
        let replays: Vec<(DateTime<Utc>, Option<DateTime<Utc>>)> = sqlx::query_as(
            "select requested_at, ended_at + interval '1 day' from replays
              where firm_id = $1 and requested_at between $2 and $3",
        )
        .bind(firm_id)
        .bind(begun.created_at)
        .bind(border.since)
        .fetch_all(connection)
        .await?;
        let own = (begun.created_at, *ended_at);
        let periods = replays.into_iter().chain([own]).map(|(since, until)| {
            let until = until.map_or(border.since, |until| until.min(border.since));
            // The border has no time if nothing lies behind it.
            let until = until.checked_add_signed(CLOCKS_DIFFER_MAX).unwrap_or(until);
            (since - CLOCKS_DIFFER_MAX).into()..=until.into()
        });
        let ids = begun.occurrence_id.into_iter().chain([begun.delivery_id]).collect();
        Ok(LeftStreams { ids, through: border.through, periods: periods.collect() })
    }
}

/// A delivery that may have begun by that moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, FromRow)]
struct BegunDelivery {
    created_at: DateTime<Utc>,
    delivery_id: Uuid,
    occurrence_id: Option<Uuid>,
    hook_id: Option<Uuid>,
}

impl BegunDelivery {
    fn delivery_of(&self) -> Option<DeliveryOf> {
        Some(DeliveryOf { hook_id: self.hook_id?, occurrence_id: self.occurrence_id? })
    }
}

/// Loads the state of these deliveries of a firm at that moment. Deliveries that had not begun are
/// left out.
async fn load_as_of(
    connection: &mut PgConnection,
    firm_id: Uuid,
    begun: &[BegunDelivery],
    as_of: AsOf,
    archived: &[RecordedEvent],
) -> Result<Vec<DeliveryThen>, TailError> {
    let is_of_firm = |event: &RecordedEvent| event.context.firm_id == firm_id;
    let ids: Vec<Uuid> = begun.iter().map(|one| one.delivery_id).collect();
    let streams = had_happened(connection, "Delivery", &ids, as_of).await?;
    let streams = with_archived(streams, archived, as_of);
    let streams: HashMap<&str, &[RecordedEvent]> = streams
        .iter()
        .filter(|stream| stream.first().is_some_and(is_of_firm))
        .map(|stream| (stream[0].aggregate_id.as_str(), stream.as_slice()))
        .collect();
    let names: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    let with_stream: Vec<(&BegunDelivery, &[RecordedEvent])> = begun
        .iter()
        .zip(&names)
        .map(|(one, name)| (one, streams.get(name.as_str()).copied().unwrap_or_default()))
        .collect();
    let of = |(one, stream): &(&BegunDelivery, &[RecordedEvent])| {
        stream.first().and_then(delivery_of).or_else(|| one.delivery_of())
    };
    let occurrences: HashSet<String> = with_stream
        .iter()
        .filter_map(of)
        .map(|delivery_of| delivery_of.occurrence_id.to_string())
        .collect();
    let occurrences: Vec<&str> = occurrences.iter().map(String::as_str).collect();
    let occurrences =
        load_first(connection, &Upcasters::current(), "Occurrence", &occurrences).await?;
    let occurrences: HashMap<Uuid, &RecordedEvent> = archived
        .iter()
        .filter(|event| matches!(event.event, Event::Occurrence(_)))
        .chain(&occurrences)
        .filter(|event| is_of_firm(event))
        .filter(|event| as_of.includes(event.position, event.context.recorded_at))
        .filter_map(|event| Some((event.aggregate_id.parse().ok()?, event)))
        .collect();
    let told = |pair: &(&BegunDelivery, &[RecordedEvent])| {
        let (one, stream) = *pair;
        if let Some(then) = DeliveryThen::new(stream) {
            return Some(then);
        }
        let delivery_of = of(pair)?;
        let occurrence = occurrences.get(&delivery_of.occurrence_id)?;
        let row = listed_row(one.delivery_id, delivery_of, occurrence)?;
        Some(DeliveryThen::without_attempts(row).after_events(stream))
    };
    Ok(with_stream.iter().filter_map(told).collect())
}

/// Puts the archived events of a delivery before those that the log still has.
fn with_archived(
    mut streams: Vec<Vec<RecordedEvent>>,
    archived: &[RecordedEvent],
    as_of: AsOf,
) -> Vec<Vec<RecordedEvent>> {
    let is_then = |event: &&RecordedEvent| {
        matches!(event.event, Event::Delivery(_))
            && as_of.includes(event.position, event.context.recorded_at)
    };
    let mut whole: Vec<RecordedEvent> = archived.iter().filter(is_then).cloned().collect();
    if whole.is_empty() {
        return streams;
    }
    let is_same = |stream: &Vec<RecordedEvent>| stream[0].aggregate_id == whole[0].aggregate_id;
    if let Some(place) = streams.iter().position(is_same) {
        whole.extend(streams.swap_remove(place));
    }
    whole.sort_by_key(|event| event.sequence);
    whole.dedup_by_key(|event| event.sequence);
    streams.push(whole);
    streams
}

/// Returns the subscription and the occurrence by the first event of a stream.
const fn delivery_of(first: &RecordedEvent) -> Option<DeliveryOf> {
    match &first.event {
        Event::Delivery(DeliveryEvent::DeliveryAttempted(attempt)) => attempt.of,
        Event::Delivery(DeliveryEvent::DeliveryCancelled { of, .. }) => *of,
        _ => None,
    }
}

/// A page of a firm's deliveries that may have begun by a moment, newest first, after another
/// delivery.
struct BegunPage {
    firm_id: Uuid,
    before: Option<(DateTime<Utc>, Uuid)>,
    position: Option<i64>,
}

impl BegunPage {
    /// A position bounds no times, because the database's clock may have gone back.
    fn first_page(firm_id: Uuid, as_of: AsOf) -> Self {
        match as_of {
            AsOf::Instant(at) => {
                Self { firm_id, before: Some((at.get(), Uuid::max())), position: None }
            }
            AsOf::Position(last) => Self { firm_id, before: None, position: Some(last) },
        }
    }

    /// Reads the deliveries of the read model and, beyond its checkpoint, those of the log.
    async fn read_page(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Vec<BegunDelivery>, TailError> {
        let mut begun: HashSet<BegunDelivery> =
            self.read_followed(connection).await?.into_iter().collect();
        begun.extend(self.read_unfollowed(connection).await?);
        let mut begun: Vec<BegunDelivery> = begun.into_iter().collect();
        begun.sort_unstable_by_key(|one| std::cmp::Reverse((one.created_at, one.delivery_id)));
        begun.truncate(STREAMS_PER_READ);
        Ok(begun)
    }

    async fn read_followed(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Vec<BegunDelivery>, sqlx::Error> {
        sqlx::query_as(
            "select created_at, delivery_id, occurrence_id, hook_id from deliveries
              where firm_id = $1
                and ($2::timestamptz is null or (created_at, delivery_id) < ($2, $3))
                and ($4::bigint is null or exists (
                       select from events
                        where (aggregate_type, aggregate_id) in (
                                  ('Delivery', delivery_id::text),
                                  ('Occurrence', occurrence_id::text))
                          and sequence = 1 and position <= $4))
              order by created_at desc, delivery_id desc limit $5",
        )
        .bind(self.firm_id)
        .bind(self.before.map(|(at, _)| at))
        .bind(self.before.map(|(_, delivery_id)| delivery_id))
        .bind(self.position)
        .bind(i64::try_from(STREAMS_PER_READ).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await
    }

    async fn read_unfollowed(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Vec<BegunDelivery>, TailError> {
        let until =
            ReadUntil { recorded_at: self.before.map(|(at, _)| at), position: self.position };
        let firm_id = self.firm_id;
        let events =
            tail::begun_after("deliveries", connection, firm_id, until, STREAMS_PER_READ).await?;
        let mut begun = Vec::new();
        for event in events {
            let Ok(id) = event.aggregate_id.parse() else { continue };
            let created_at = event.context.recorded_at.get();
            let one = BegunDelivery { created_at, delivery_id: id, ..BegunDelivery::default() };
            match &event.event {
                Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(happening)) => {
                    begun.extend(happening.deliveries(id).map(|(delivery_id, hook_id)| {
                        BegunDelivery {
                            delivery_id,
                            occurrence_id: Some(id),
                            hook_id: Some(hook_id),
                            ..one
                        }
                    }));
                }
                Event::Delivery(of) if of.queues() => begun.push(one),
                _ => {}
            }
        }
        begun.retain(|one| {
            self.before.is_none_or(|before| (one.created_at, one.delivery_id) < before)
        });
        Ok(begun)
    }
}

/// Returns a delivery that its occurrence lists, before its first attempt. Returns `None` if the
/// occurrence does not list it.
fn listed_row(
    delivery_id: Uuid,
    of: DeliveryOf,
    occurrence: &RecordedEvent,
) -> Option<DeliveryRow> {
    let happening = occurrence.event.happening()?;
    let mut deliveries = happening.deliveries(of.occurrence_id);
    deliveries.find(|pair| *pair == (delivery_id, of.hook_id))?;
    let Happening { trigger, form_id, response_id, .. } = happening;
    let created_at = occurrence.context.recorded_at.get();
    Some(DeliveryRow {
        delivery_id,
        hook_id: Some(of.hook_id),
        run_id: None,
        step_id: None,
        trigger: trigger.key().to_owned(),
        form_id: *form_id,
        response_id: *response_id,
        state: DeliveryState::Pending.name().to_owned(),
        cause: None,
        created_at,
        next_try_at: Some(created_at),
        body_sha256: None,
        reissue_of: None,
    })
}

/// Returns a delivery whose stream begins with the event that queues it.
fn queued_row(recorded: &RecordedEvent) -> Option<DeliveryRow> {
    let Event::Delivery(event) = &recorded.event else { return None };
    let (hook_id, step, trigger, form_id, response_id) = match event {
        DeliveryEvent::DeliveryQueued(of)
        | DeliveryEvent::DeliveryReissued(ReissuedDelivery { consignment: of, .. }) => {
            (Some(of.hook_id), None, of.trigger, of.form_id, of.response_id)
        }
        DeliveryEvent::StepQueued(of) => {
            (None, Some(of.step), of.trigger, of.form_id, of.response_id)
        }
        _ => return None,
    };
    let reissue_of = match event {
        DeliveryEvent::DeliveryReissued(reissued) => Some(reissued.reissue_of),
        _ => None,
    };
    let created_at = recorded.context.recorded_at.get();
    Some(DeliveryRow {
        delivery_id: recorded.aggregate_id.parse().ok()?,
        hook_id,
        run_id: step.map(|step| step.run_id),
        step_id: step.map(|step| step.step_id),
        trigger: trigger.key().to_owned(),
        form_id,
        response_id,
        state: DeliveryState::Pending.name().to_owned(),
        cause: None,
        created_at,
        next_try_at: Some(created_at),
        body_sha256: None,
        reissue_of,
    })
}

/// Returns the attempts of a stream, in order.
#[must_use]
pub fn stream_attempts(stream: &[RecordedEvent]) -> Vec<Attempt> {
    let attempt = |recorded: &RecordedEvent| match &recorded.event {
        Event::Delivery(DeliveryEvent::DeliveryAttempted(attempt)) => Some(attempt.clone()),
        _ => None,
    };
    let mut attempts: Vec<Attempt> = stream.iter().filter_map(attempt).collect();
    attempts.sort_by_key(|attempt| (attempt.number, attempt.late.is_some()));
    attempts
}

impl DeliveryThen {
    /// Folds a stream, or the beginning of one, if its first event queues the delivery.
    #[must_use]
    pub fn new(stream: &[RecordedEvent]) -> Option<Self> {
        Some(Self::without_attempts(queued_row(stream.first()?)?).after_events(stream))
    }

    const fn without_attempts(row: DeliveryRow) -> Self {
        Self { row, attempts: Vec::new() }
    }

    /// Applies the events. The aggregate decides about the state, and the other columns come from
    /// the events.
    fn after_events(mut self, stream: &[RecordedEvent]) -> Self {
        let mut delivery = Delivery::default();
        for recorded in stream {
            let Event::Delivery(event) = &recorded.event else { continue };
            delivery.apply(event.clone());
            self.follow_event(event, recorded.context.recorded_at);
        }
        let state = delivery.state().unwrap_or(DeliveryState::Pending);
        state.name().clone_into(&mut self.row.state);
        self.row.body_sha256 = delivery.body().map(|body| body.sha256.clone());
        self.attempts = stream_attempts(stream);
        if let Some(Event::Delivery(DeliveryEvent::StepQueued(order))) =
            stream.first().map(|first| &first.event)
        {
            self.show_target(&order.target.shown());
        }
        self
    }

    /// Names the target in the first hop of each attempt. The log leaves the target out there.
    pub fn show_target(&mut self, shown: &str) {
        for first in self.attempts.iter_mut().filter_map(|attempt| attempt.hops.first_mut()) {
            first.url = Some(shown.to_owned());
        }
    }

    fn follow_event(&mut self, event: &DeliveryEvent, at: Timestamp) {
        match event {
            DeliveryEvent::DeliveryQueued(_)
            | DeliveryEvent::StepQueued(_)
            | DeliveryEvent::DeliveryReissued(_)
            | DeliveryEvent::DeliveryReplayed(_) => {}
            DeliveryEvent::StepRetried(_) => self.row.next_try_at = Some(at.get()),
            DeliveryEvent::DeliveryCancelled { cause, .. } => {
                self.row.cause = Some(cause.name().to_owned());
                self.row.next_try_at = None;
            }
            DeliveryEvent::DeliveryAttempted(attempt) => {
                if attempt.state_after().is_some() {
                    self.row.cause = attempt.cancelled.map(CancelCause::name).map(str::to_owned);
                    self.row.next_try_at = attempt.next_try_at.map(Timestamp::get);
                }
            }
        }
    }
}
