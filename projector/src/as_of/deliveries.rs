//! Deliveries as they are or were: with their tries, which are in no table.

use chrono::{DateTime, Utc};
use cqrs_es::Aggregate;
use domain::as_of::AsOf;
use domain::delivery::{Attempt, CancelCause, Delivery, DeliveryEvent, DeliveryState, Reissued};
use domain::event::Event;
use domain::time::Timestamp;
use eventstore::RecordedEvent;
use eventstore::tail::TailError;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{STREAMS, had_happened};
use crate::deliveries::DeliveryRow;

/// A delivery with its tries, as it is or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryThen {
    /// Where it stood.
    pub row: DeliveryRow,
    /// Its tries by then, first to last.
    pub attempts: Vec<Attempt>,
}

/// The newest deliveries that a firm had by then, newest first, at most so many.
///
/// # Errors
/// [`TailError`].
pub async fn list(
    connection: &mut PgConnection,
    firm_id: Uuid,
    (as_of, limit): (AsOf, usize),
) -> Result<Vec<DeliveryRow>, TailError> {
    let mut page = Page::first(firm_id, as_of);
    let mut found = Vec::new();
    loop {
        let queued = page.read(connection).await?;
        page.before = queued.last().copied();
        let ids: Vec<Uuid> = queued.iter().map(|(_, id)| *id).collect();
        let streams = had_happened(connection, ("Delivery", &ids), as_of).await?;
        let mut rows: Vec<_> =
            streams.iter().filter_map(|stream| DeliveryThen::of(stream)).collect();
        rows.sort_by_key(|then| std::cmp::Reverse((then.row.created_at, then.row.delivery_id)));
        found.extend(rows.into_iter().map(|then| then.row));
        if found.len() >= limit || queued.len() < STREAMS {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// One delivery of a firm, if it was queued by then.
///
/// # Errors
/// [`TailError`].
pub async fn delivery(
    connection: &mut PgConnection,
    (firm_id, delivery_id): (Uuid, Uuid),
    as_of: AsOf,
) -> Result<Option<DeliveryThen>, TailError> {
    let streams = had_happened(connection, ("Delivery", &[delivery_id]), as_of).await?;
    let of_firm = |stream: &&Vec<RecordedEvent>| {
        stream.first().is_some_and(|first| first.context.firm_id == firm_id)
    };
    Ok(streams.first().filter(of_firm).and_then(|stream| DeliveryThen::of(stream)))
}

/// Deliveries of a firm that may have been queued by then, newest first, after another one.
struct Page {
    firm_id: Uuid,
    before: Option<(DateTime<Utc>, Uuid)>,
    position: Option<i64>,
}

impl Page {
    /// A position is no bound on times: the database's clock may have gone back.
    fn first(firm_id: Uuid, as_of: AsOf) -> Self {
        match as_of {
            AsOf::Instant(at) => {
                Self { firm_id, before: Some((at.get(), Uuid::max())), position: None }
            }
            AsOf::Position(last) => Self { firm_id, before: None, position: Some(last) },
        }
    }

    /// Those that the read model knows, and those it has not followed to.
    async fn read(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Vec<(DateTime<Utc>, Uuid)>, sqlx::Error> {
        sqlx::query_as(
            "(select created_at, delivery_id from deliveries
               where firm_id = $1
                 and ($2::timestamptz is null or (created_at, delivery_id) < ($2, $3))
                 and ($4::bigint is null or exists (
                        select from events
                         where aggregate_type = 'Delivery' and aggregate_id = delivery_id::text
                           and sequence = 1 and position <= $4))
               order by created_at desc, delivery_id desc limit $5)
              union
             (select recorded_at, aggregate_id::uuid from events
               where position > coalesce(
                         (select position from checkpoints where name = 'deliveries'), 0)
                 and ($4::bigint is null or position <= $4)
                 and aggregate_type = 'Delivery' and sequence = 1 and firm_id = $1
                 and ($2::timestamptz is null or (recorded_at, aggregate_id::uuid) < ($2, $3))
               order by 1 desc, 2 desc limit $5)
              order by 1 desc, 2 desc limit $5",
        )
        .bind(self.firm_id)
        .bind(self.before.map(|(at, _)| at))
        .bind(self.before.map(|(_, delivery_id)| delivery_id))
        .bind(self.position)
        .bind(i64::try_from(STREAMS).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await
    }
}

fn queued(recorded: &RecordedEvent) -> Option<DeliveryRow> {
    let Event::Delivery(event) = &recorded.event else { return None };
    let (hook_id, step, trigger, form_id, response_id) = match event {
        DeliveryEvent::DeliveryQueued(of)
        | DeliveryEvent::DeliveryReissued(Reissued { consignment: of, .. }) => {
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

impl DeliveryThen {
    /// What its stream comes to, or the first part of it. Where it stands is the aggregate's word; what else is
    /// shown comes with the events.
    #[must_use]
    pub fn of(stream: &[RecordedEvent]) -> Option<Self> {
        let mut then = Self { row: queued(stream.first()?)?, attempts: Vec::new() };
        let mut delivery = Delivery::default();
        for recorded in stream {
            let Event::Delivery(event) = &recorded.event else { continue };
            delivery.apply(event.clone());
            then.follow(event, recorded.context.recorded_at);
        }
        then.row.state = delivery.state()?.name().to_owned();
        then.row.body_sha256 = delivery.body().map(|body| body.sha256.clone());
        then.attempts.sort_by_key(|attempt| (attempt.number, attempt.late.is_some()));
        Some(then)
    }

    fn follow(&mut self, event: &DeliveryEvent, at: Timestamp) {
        match event {
            DeliveryEvent::DeliveryQueued(_)
            | DeliveryEvent::StepQueued(_)
            | DeliveryEvent::DeliveryReissued(_)
            | DeliveryEvent::DeliveryReplayed(_) => {}
            DeliveryEvent::StepRetried(_) => self.row.next_try_at = Some(at.get()),
            DeliveryEvent::DeliveryCancelled { cause } => {
                self.row.cause = Some(cause.name().to_owned());
                self.row.next_try_at = None;
            }
            DeliveryEvent::DeliveryAttempted(attempt) => {
                self.attempts.push(attempt.clone());
                if attempt.state_after().is_some() {
                    self.row.cause = attempt.cancelled.map(CancelCause::name).map(str::to_owned);
                    self.row.next_try_at = attempt.next_try_at.map(Timestamp::get);
                }
            }
        }
    }
}
