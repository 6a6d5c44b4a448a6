//! The rows that fan-out puts in the queue: due now, or leased as they are put there.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::delivery::DeliveryEvent;
use domain::event::Event;
use domain::occurrence::delivery_id;
use domain::retry::Schedule;
use eventstore::RecordedEvent;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Matches;
use crate::claim::{FrozenBody, Leased, Taken};
use crate::lanes::Work;

/// The rows of the outbox, by column.
#[derive(Default)]
pub(super) struct OutboxRows {
    pub(super) delivery_ids: Vec<Uuid>,
    pub(super) lane_ids: Vec<Uuid>,
    firm_ids: Vec<Uuid>,
    occurrence_ids: Vec<Uuid>,
    triggers: Vec<&'static str>,
    form_ids: Vec<Uuid>,
    response_ids: Vec<Uuid>,
    report_ids: Vec<Option<Uuid>>,
    booking_ids: Vec<Option<Uuid>>,
    positions: Vec<i64>,
    traceparents: Vec<Option<String>>,
}

impl OutboxRows {
    pub(super) fn of(queued: &[RecordedEvent], matches: &Matches<'_>) -> Self {
        let mut rows = Self::default();
        let mut pairs = matches.pairs.iter();
        for recorded in queued {
            let Event::Delivery(DeliveryEvent::DeliveryQueued(consignment)) = &recorded.event
            else {
                continue;
            };
            let pair = pairs.find(|(occurred, hook_id)| {
                occurred.id == consignment.occurrence_id && *hook_id == consignment.hook_id
            });
            if let Some((occurred, hook_id)) = pair {
                rows.delivery_ids.push(delivery_id(occurred.id, *hook_id));
                rows.lane_ids.push(*hook_id);
                rows.firm_ids.push(recorded.context.firm_id);
                rows.occurrence_ids.push(occurred.id);
                rows.triggers.push(consignment.trigger.key());
                rows.form_ids.push(consignment.form_id);
                rows.response_ids.push(consignment.response_id);
                rows.report_ids.push(occurred.happening.report_id);
                rows.booking_ids.push(occurred.happening.booking_id);
                rows.positions.push(occurred.recorded.position);
                let place = recorded.context.traceparent;
                rows.traceparents.push(place.map(|place| place.to_string()));
            }
        }
        rows
    }

    /// The rows as they are once they are leased.
    pub(super) fn leased(&self) -> Vec<Leased> {
        let row = |at: usize| Leased {
            delivery_id: self.delivery_ids[at],
            lane_id: self.lane_ids[at],
            firm_id: self.firm_ids[at],
            occurrence_id: self.occurrence_ids[at],
            trigger: self.triggers[at].to_owned(),
            form_id: self.form_ids[at],
            response_id: self.response_ids[at],
            report_id: self.report_ids[at],
            booking_id: self.booking_ids[at],
            sequence: 1,
            tries: 1,
            tries_max: Schedule::RestHook.tries().cast_signed(),
            step: None,
            replay_id: None,
            traceparent: self.traceparents[at].clone(),
            lease: 1,
            body_id: None,
            body_sha256: None,
            interrupted_at: None,
        };
        (0..self.delivery_ids.len()).map(row).collect()
    }

    /// What that gives their lanes to do.
    pub(super) fn work(&self, leases: &Leases<'_>) -> BTreeMap<Uuid, Work> {
        let mut all = BTreeMap::new();
        for (delivery_id, lane_id) in self.delivery_ids.iter().zip(&self.lane_ids) {
            let is_leased = leases.bodies.contains_key(delivery_id);
            let due_at = if is_leased { leases.end } else { leases.now };
            let work = all.entry(*lane_id).or_insert(Work { due_at, leased: 0 });
            work.due_at = work.due_at.min(due_at);
            work.leased += i32::from(is_leased);
        }
        all
    }

    /// Puts them in the queue, due now, or leased.
    pub(super) async fn insert(
        &self,
        connection: &mut PgConnection,
        leases: &Leases<'_>,
    ) -> Result<(), sqlx::Error> {
        let leased = || self.delivery_ids.iter().map(|id| leases.bodies.get(id).copied());
        let bodies = || leased().map(Option::flatten);
        sqlx::query(
            "insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
                                 response_id, report_id, booking_id, position, traceparent, body_id,
                                 body_sha256, tries, lease, leased_at, due_at, tries_max)
             select delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id, response_id,
                    report_id, booking_id, position, traceparent, body_id, sha256, leased::int,
                    leased::int, case when leased then $15 end, case when leased then $16 else $15 end,
                    $17
               from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::uuid[],
                           $7::uuid[], $8::uuid[], $9::uuid[], $10::bigint[], $11::text[],
                           $12::uuid[], $13::bytea[], $14::bool[])
                    as t(delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id, response_id,
                         report_id, booking_id, position, traceparent, body_id, sha256, leased)",
        )
        .bind(&self.delivery_ids)
        .bind(&self.lane_ids)
        .bind(&self.firm_ids)
        .bind(&self.occurrence_ids)
        .bind(&self.triggers)
        .bind(&self.form_ids)
        .bind(&self.response_ids)
        .bind(&self.report_ids)
        .bind(&self.booking_ids)
        .bind(&self.positions)
        .bind(&self.traceparents)
        .bind(bodies().map(|body| body.map(|body| body.body_id)).collect::<Vec<_>>())
        .bind(bodies().map(|body| body.map(|body| body.sha256)).collect::<Vec<_>>())
        .bind(leased().map(|one| one.is_some()).collect::<Vec<_>>())
        .bind(leases.now)
        .bind(leases.end)
        .bind(Schedule::RestHook.tries().cast_signed())
        .execute(connection)
        .await?;
        Ok(())
    }
}

/// What of the rows is leased, each with its body, if it could be built.
pub(super) struct Leases<'a> {
    bodies: HashMap<Uuid, Option<&'a FrozenBody>>,
    now: DateTime<Utc>,
    /// When they end.
    pub(super) end: DateTime<Utc>,
}

impl<'a> Leases<'a> {
    pub(super) fn of(taken: Option<&'a Taken>, (now, last): (DateTime<Utc>, Duration)) -> Self {
        let bodies = taken.iter().flat_map(|taken| {
            let body = |row: &Leased| taken.composed.bodies.get(&row.delivery_id);
            taken.leased.iter().map(move |row| (row.delivery_id, body(row)))
        });
        Self { bodies: bodies.collect(), now, end: now + last }
    }
}
