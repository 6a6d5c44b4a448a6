//! A row of the outbox: a delivery that has not ended, due at a time or leased.
//!
//! The table's columns are listed here for statements that read rows, and again for
//! [`insert_rows`]. That insert has no `notice`: `notices.rs` inserts the rows of notices.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::activity::Happening;
use domain::delivery::pressure::flight::ClaimCandidate;
use domain::delivery::workflow::{StepOrder, StoredStepOrder};
use domain::delivery::{DeliveryEvent, DeliveryOf, RetrySchedule};
use domain::event::{EventContext, Traceparent};
use domain::notice::QueuedNotice;
use domain::subscription::Trigger;
use domain::values::Timestamp;
use eventstore::{EventPositions, JoinedWrites, NewEvent, RecordedEvent};
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;
use vault::{Entropy, KeySubject};

use crate::attempt::system_context;

/// A row of the outbox.
#[derive(Debug, Clone, FromRow)]
pub(crate) struct OutboxRow {
    pub(crate) delivery_id: Uuid,
    pub(crate) lane_id: Uuid,
    pub(crate) firm_id: Uuid,
    pub(crate) occurrence_id: Uuid,
    pub(crate) trigger: String,
    pub(crate) form_id: Uuid,
    pub(crate) response_id: Uuid,
    pub(crate) report_id: Option<Uuid>,
    pub(crate) booking_id: Option<Uuid>,
    pub(crate) position: i64,
    pub(crate) sequence: i64,
    /// Attempts so far. A claim counts its own attempt.
    pub(crate) tries: i32,
    pub(crate) tries_max: i32,
    pub(crate) step: Option<Json<StoredStepOrder>>,
    pub(crate) replay_id: Option<Uuid>,
    pub(crate) traceparent: Option<String>,
    pub(crate) body_id: Option<Uuid>,
    pub(crate) body_sha256: Option<Vec<u8>>,
    /// A notice to the operator's URL. Its delivery is in no history.
    pub(crate) notice: Option<Json<QueuedNotice>>,
}

/// The columns of an [`OutboxRow`], each with this prefix: `""`, or an alias with its dot.
macro_rules! outbox_columns {
    ($prefix:literal) => {
        outbox_columns!(
            $prefix,
            "delivery_id" "lane_id" "firm_id" "occurrence_id" "trigger" "form_id" "response_id"
            "report_id" "booking_id" "position" "sequence" "tries" "tries_max" "step" "replay_id"
            "traceparent" "body_id" "body_sha256" "notice"
        )
    };
    ($prefix:literal, $first:literal $($column:literal)*) => {
        concat!($prefix, $first $(, ", ", $prefix, $column)*)
    };
}
pub(crate) use outbox_columns;

impl OutboxRow {
    /// The row of an occurrence's delivery to a subscription, before its first attempt.
    pub(crate) fn listed(
        delivery_id: Uuid,
        hook_id: Uuid,
        occurrence_id: Uuid,
        recorded: &RecordedEvent,
        happening: &Happening,
    ) -> Self {
        Self {
            delivery_id,
            lane_id: hook_id,
            firm_id: recorded.context.firm_id,
            occurrence_id,
            trigger: happening.trigger.key().to_owned(),
            form_id: happening.form_id,
            response_id: happening.response_id,
            report_id: happening.report_id,
            booking_id: happening.booking_id,
            position: recorded.position,
            sequence: 0,
            tries: 0,
            tries_max: RetrySchedule::RestHook.tries().cast_signed(),
            step: None,
            replay_id: None,
            traceparent: recorded.context.traceparent.map(|trace| trace.to_string()),
            body_id: None,
            body_sha256: None,
            notice: None,
        }
    }

    /// The trace that the delivery continues.
    pub(crate) fn traceparent(&self) -> Option<Traceparent> {
        self.traceparent.as_ref()?.parse().ok()
    }

    pub(crate) const fn subject(&self) -> KeySubject {
        KeySubject { firm_id: self.firm_id, subject_id: self.response_id }
    }

    /// The candidate that the limits choose from, for a lane with this host.
    pub(crate) const fn claim_candidate(&self, host: String) -> ClaimCandidate {
        let Self { delivery_id, lane_id, firm_id, tries, .. } = *self;
        ClaimCandidate { delivery_id, lane_id, firm_id, host, is_retry: tries > 0 }
    }

    /// The occurrence and the subscription, if the next event is the first of its stream.
    pub(crate) fn delivery_of(&self) -> Option<DeliveryOf> {
        let of = DeliveryOf { hook_id: self.lane_id, occurrence_id: self.occurrence_id };
        (self.sequence == 0 && self.step.is_none()).then_some(of)
    }

    /// Whether the delivery reports an unfinished response and was never attempted.
    pub(crate) fn is_first_of_partial(&self) -> bool {
        self.trigger == Trigger::PartialSubmission.key() && self.tries == 0 && self.step.is_none()
    }

    /// The next event of the delivery's stream.
    pub(crate) fn next(&self, event: DeliveryEvent, now: Timestamp) -> NewEvent {
        let context = system_context(self.firm_id, self.delivery_id, now);
        NewEvent {
            aggregate_id: self.delivery_id.to_string(),
            sequence: self.sequence + 1,
            event: event.into(),
            context: EventContext { traceparent: self.traceparent(), ..context },
        }
    }
}

/// A new fencing token. Its 63 random bits make it unique.
pub(crate) fn new_lease(entropy: &dyn Entropy) -> i64 {
    let mut bytes = [0; 8];
    entropy.fill_bytes(&mut bytes);
    i64::from_be_bytes(bytes) & i64::MAX
}

/// A row to insert, due or with its lease.
pub(crate) struct NewOutboxRow {
    pub(crate) row: OutboxRow,
    pub(crate) due_at: DateTime<Utc>,
    pub(crate) lease: Option<NewLease>,
}

/// The lease of a row that is inserted with one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewLease {
    pub(crate) token: i64,
    pub(crate) leased_at: DateTime<Utc>,
}

/// Inserts rows, and wakes the lanes of rows without a lease.
pub(crate) async fn insert_rows(
    connection: &mut PgConnection,
    rows: &[NewOutboxRow],
) -> Result<(), sqlx::Error> {
    let mut writes = JoinedWrites::default();
    write_rows(&mut writes, rows, EventPositions::Known);
    writes.execute(connection).await
}

/// SQL expression: the log position of the n-th event of the statement. The column `position` holds
/// n, from 1.
macro_rules! counted_position {
    () => {
        "(select all_of_them[position] from positions)"
    };
}
pub(crate) use counted_position;

/// SQL: the columns of an inserted row, without its position.
macro_rules! inserted_columns {
    () => {
        "delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id, response_id, report_id,
         booking_id, sequence, tries, tries_max, replay_id, traceparent, body_id, body_sha256,
         due_at, lease, leased_at, step"
    };
}

/// SQL: inserts rows with this position.
macro_rules! queue_sql {
    ($position:expr) => {
        concat!(
            "queued as (insert into outbox (",
            inserted_columns!(),
            ", position) select ",
            inserted_columns!(),
            ", ",
            $position,
            " from rows($1::uuid, $2::uuid, $3::uuid, $4::uuid, $5::text, $6::uuid, $7::uuid,
                        $8::uuid, $9::uuid, $10::bigint, $11::int, $12::int, $13::uuid, $14::text,
                        $15::uuid, $16::bytea, $17::timestamptz, $18::bigint, $19::timestamptz,
                        $20::jsonb, $21::bigint) as t(",
            inserted_columns!(),
            ", position))"
        )
    };
}

/// Adds the write that inserts rows, and wakes the lanes of rows without a lease.
pub(crate) fn write_rows(
    writes: &mut JoinedWrites,
    rows: &[NewOutboxRow],
    positions: EventPositions,
) {
    if rows.is_empty() {
        return;
    }
    let each = || rows.iter().map(|new| &new.row);
    let leases = || rows.iter().map(|new| new.lease);
    let woken = lanes_to_wake(rows);
    writes
        .add_rows(
            rows.len(),
            match positions {
                EventPositions::Known => queue_sql!("position"),
                EventPositions::OfStatement => queue_sql!(counted_position!()),
            },
        )
        .bind_column(each().map(|row| row.delivery_id).collect())
        .bind_column(each().map(|row| row.lane_id).collect())
        .bind_column(each().map(|row| row.firm_id).collect())
        .bind_column(each().map(|row| row.occurrence_id).collect())
        .bind_column(each().map(|row| row.trigger.as_str()).collect())
        .bind_column(each().map(|row| row.form_id).collect())
        .bind_column(each().map(|row| row.response_id).collect())
        .bind_column(each().map(|row| row.report_id).collect())
        .bind_column(each().map(|row| row.booking_id).collect())
        .bind_column(each().map(|row| row.sequence).collect())
        .bind_column(each().map(|row| row.tries).collect())
        .bind_column(each().map(|row| row.tries_max).collect())
        .bind_column(each().map(|row| row.replay_id).collect())
        .bind_column(each().map(|row| row.traceparent.as_deref()).collect())
        .bind_column(each().map(|row| row.body_id).collect())
        .bind_column(each().map(|row| row.body_sha256.as_deref()).collect())
        .bind_column(rows.iter().map(|new| new.due_at).collect())
        .bind_column(leases().map(|lease| lease.map(|lease| lease.token)).collect())
        .bind_column(leases().map(|lease| lease.map(|lease| lease.leased_at)).collect())
        .bind_column(each().map(step_order).collect())
        .bind_column(each().map(|row| row.position).collect());
    // Each part of a statement has a price, also without rows. Most rows come with a lease.
    if woken.is_empty() {
        return;
    }
    writes
        .add(
            "woken as (
                 insert into lane_wakes (lane_id, due_at)
                 select * from unnest($1::uuid[], $2::timestamptz[]))",
        )
        .bind(woken.keys().copied().collect::<Vec<_>>())
        .bind(woken.values().copied().collect::<Vec<_>>());
}

fn step_order(row: &OutboxRow) -> Option<Json<&StepOrder>> {
    row.step.as_ref().map(|Json(StoredStepOrder(order))| Json(order))
}

/// The lanes of rows without a lease, each with the time at which its first row is due.
fn lanes_to_wake(rows: &[NewOutboxRow]) -> BTreeMap<Uuid, DateTime<Utc>> {
    let mut lanes = BTreeMap::new();
    for NewOutboxRow { row, due_at, .. } in rows.iter().filter(|new| new.lease.is_none()) {
        let first = lanes.entry(row.lane_id).or_insert(*due_at);
        *first = (*first).min(*due_at);
    }
    lanes
}

/// Deletes rows. An empty list must not reach the planner, which would read all leased rows for it.
pub(crate) async fn drop_rows(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    if delivery_ids.is_empty() {
        return Ok(());
    }
    sqlx::query("delete from outbox where delivery_id = any($1)")
        .bind(delivery_ids)
        .execute(connection)
        .await?;
    Ok(())
}
