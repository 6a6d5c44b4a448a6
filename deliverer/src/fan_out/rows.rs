//! The rows that fan-out puts in the queue: due now, or leased as they are put there.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::retry::Schedule;
use sqlx::PgConnection;
use uuid::Uuid;

use super::matches::Occurred;
use crate::claim::{FrozenBody, Leased, Taken};

/// A row of the outbox: as it is once it is leased, and the place of its occurrence in the log.
pub(crate) struct Row {
    pub(crate) leased: Leased,
    pub(crate) position: i64,
}

impl Row {
    /// The first try of an occurrence's delivery to a subscription.
    pub(super) fn of(occurred: &Occurred<'_>, hook_id: Uuid) -> Self {
        let happening = occurred.happening;
        let leased = Leased {
            delivery_id: occurred.delivery_id(hook_id),
            lane_id: hook_id,
            firm_id: occurred.recorded.context.firm_id,
            occurrence_id: occurred.id,
            trigger: happening.trigger.key().to_owned(),
            form_id: happening.form_id,
            response_id: happening.response_id,
            report_id: happening.report_id,
            booking_id: happening.booking_id,
            sequence: 1,
            tries: 1,
            tries_max: Schedule::RestHook.tries().cast_signed(),
            step: None,
            replay_id: None,
            traceparent: None,
            lease: 1,
            body_id: None,
            body_sha256: None,
            interrupted_at: None,
        };
        Self { leased, position: occurred.recorded.position }
    }
}

/// The lanes of these rows.
pub(crate) fn lane_ids(rows: &[Row]) -> Vec<Uuid> {
    rows.iter().map(|row| row.leased.lane_id).collect()
}

/// What a lane is given to do.
struct Work {
    /// When the first of it is due, or its lease ends.
    due_at: DateTime<Utc>,
    /// How many of it are leased.
    leased: i32,
}

/// What these rows give their lanes to do.
fn work(rows: &[Row], leases: &Leases<'_>) -> BTreeMap<Uuid, Work> {
    let mut all = BTreeMap::new();
    for Row { leased, .. } in rows {
        let is_leased = leases.bodies.contains_key(&leased.delivery_id);
        let due_at = if is_leased { leases.end } else { leases.now };
        let work = all.entry(leased.lane_id).or_insert(Work { due_at, leased: 0 });
        work.due_at = work.due_at.min(due_at);
        work.leased += i32::from(is_leased);
    }
    all
}

/// Puts these rows in the queue, due now, or leased, and gives their locked lanes the work: they are due with
/// it, if they are not before. What is in flight of those that lease some is what was counted last: none of
/// them has a lease that has ended.
pub(super) async fn insert(
    connection: &mut PgConnection,
    rows: &[Row],
    leases: &Leases<'_>,
) -> Result<(), sqlx::Error> {
    let each = || rows.iter().map(|row| &row.leased);
    let leased = || each().map(|row| leases.bodies.get(&row.delivery_id).copied());
    let bodies = || leased().map(Option::flatten);
    let work = work(rows, leases);
    sqlx::query(
        "with given as (
             update lanes l
                set due_at = least(l.due_at, t.due_at), running = l.running + t.leased,
                    running_until = case when t.leased > 0 then greatest(l.running_until, $16)
                                         else l.running_until end
               from unnest($18::uuid[], $19::timestamptz[], $20::int[])
                    as t(lane_id, due_at, leased)
              where l.lane_id = t.lane_id and l.lane_id = any($18)
                and (t.leased > 0 or l.due_at is null or l.due_at > t.due_at))
         insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
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
    .bind(each().map(|row| row.delivery_id).collect::<Vec<_>>())
    .bind(lane_ids(rows))
    .bind(each().map(|row| row.firm_id).collect::<Vec<_>>())
    .bind(each().map(|row| row.occurrence_id).collect::<Vec<_>>())
    .bind(each().map(|row| row.trigger.as_str()).collect::<Vec<_>>())
    .bind(each().map(|row| row.form_id).collect::<Vec<_>>())
    .bind(each().map(|row| row.response_id).collect::<Vec<_>>())
    .bind(each().map(|row| row.report_id).collect::<Vec<_>>())
    .bind(each().map(|row| row.booking_id).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.position).collect::<Vec<_>>())
    .bind(each().map(|row| row.traceparent.as_deref()).collect::<Vec<_>>())
    .bind(bodies().map(|body| body.map(|body| body.body_id)).collect::<Vec<_>>())
    .bind(bodies().map(|body| body.map(|body| body.sha256)).collect::<Vec<_>>())
    .bind(leased().map(|one| one.is_some()).collect::<Vec<_>>())
    .bind(leases.now)
    .bind(leases.end)
    .bind(Schedule::RestHook.tries().cast_signed())
    .bind(work.keys().copied().collect::<Vec<_>>())
    .bind(work.values().map(|work| work.due_at).collect::<Vec<_>>())
    .bind(work.values().map(|work| work.leased).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// What of the rows is leased, each with its body, if it could be built.
pub(super) struct Leases<'a> {
    bodies: HashMap<Uuid, Option<&'a FrozenBody>>,
    now: DateTime<Utc>,
    /// When they end.
    end: DateTime<Utc>,
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
