//! The list of a firm's deliveries, newest first, in pages.

use chrono::{DateTime, TimeDelta, Utc};
use domain::delivery::DeliveryState;
use domain::subscription::Trigger;
use sqlx::postgres::PgArguments;
use sqlx::query::QueryAs;
use sqlx::{PgPool, Postgres};
use uuid::Uuid;

use super::DeliveryRow;

/// A time after all deliveries: the year 9999, in PostgreSQL's range.
const FAR_AHEAD: DateTime<Utc> = match DateTime::from_timestamp(253_370_764_800, 0) {
    Some(far) => far,
    None => DateTime::UNIX_EPOCH,
};

/// The filter of a list of deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Only deliveries of this subscription.
    pub hook_id: Option<Uuid>,
    /// Only deliveries of this trigger.
    pub trigger: Option<Trigger>,
    /// Only deliveries in this state.
    pub state: Option<DeliveryState>,
    /// Only deliveries queued at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Only deliveries queued before this time.
    pub until: Option<DateTime<Utc>>,
    /// Only deliveries after this one, which is the last of the page before.
    pub after: Option<(DateTime<Utc>, Uuid)>,
    /// The largest number of deliveries to return.
    pub limit: i64,
}

impl DeliveryFilter {
    /// The page begins below this place: the last delivery of the page before, or the end of the
    /// time. A second bound on the time would make the scan of the index begin at the newest row.
    fn page_bound(&self) -> (DateTime<Utc>, Uuid) {
        let end = (self.until.unwrap_or(FAR_AHEAD), Uuid::nil());
        self.after.map_or(end, |after| after.min(end))
    }
}

/// The statement of a list. `$2` to `$7` follow [`DeliveryFilter`]. The added condition repeats a
/// filter literally, because the planner then finds the partial index for it. An open end of the
/// time is a far one, so that a kept plan begins at the page. Row guards allow no expression here.
macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "select delivery_id, hook_id, run_id, step_id, trigger, form_id, response_id, state,
                    cause, created_at, next_try_at, body_sha256, reissue_of
               from deliveries
              where firm_id = $1
                and ($2::uuid is null or hook_id = $2)
                and ($3::text is null or trigger = $3)
                and ($4::text is null or state = $4)
                and created_at >= $5 and (created_at, delivery_id) < ($6, $7)
                and ",
            $condition,
            " order by created_at desc, delivery_id desc limit $8"
        )
    };
}

const ANY: &str = listed!("true");
const OF_HOOK: &str = listed!("hook_id = $2");
const OF_HOOK_FAILED: &str = listed!("hook_id = $2 and state = 'failed'");
const OF_HOOK_CANCELLED: &str = listed!("hook_id = $2 and state = 'cancelled'");
const OF_RARE_TRIGGER: &str = listed!("trigger = $3 and trigger <> 'form_submitted'");
const FAILED: &str = listed!("state = 'failed'");
const PENDING: &str = listed!("state = 'pending'");
const CANCELLED: &str = listed!("state = 'cancelled'");
const OF_STEPS: &str = listed!("run_id is not null");
const ENDED_LATER: &str = listed!(
    "(ended_at is null or ended_at - created_at > interval '1 minute')
                and (ended_at is null or ended_at >= $9)"
);
const STEPS_ENDED_LATER: &str = listed!(
    "(ended_at is null or ended_at - created_at > interval '1 minute')
                and (ended_at is null or ended_at >= $9) and run_id is not null"
);

/// Deliveries that end sooner after their queuing are not in the index of [`list_ended_later`].
pub const ENDED_LATER_MIN: TimeDelta = TimeDelta::minutes(1);

/// Kinds of deliveries in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedKind {
    /// Deliveries of subscriptions and of workflow steps.
    All,
    /// Deliveries of workflow steps.
    Steps,
}

/// Lists a firm's deliveries, newest first.
pub async fn list(
    pool: &PgPool,
    firm_id: Uuid,
    wanted: &DeliveryFilter,
) -> Result<Vec<DeliveryRow>, sqlx::Error> {
    let rare = wanted.trigger.is_some_and(|trigger| trigger != Trigger::FormSubmitted);
    let statement = match (wanted.hook_id, wanted.state) {
        (Some(_), Some(DeliveryState::Failed)) => OF_HOOK_FAILED,
        (Some(_), Some(DeliveryState::Cancelled)) => OF_HOOK_CANCELLED,
        // A subscription has one trigger.
        (Some(_), _) if rare => OF_RARE_TRIGGER,
        (Some(_), _) => OF_HOOK,
        (None, Some(DeliveryState::Failed)) => FAILED,
        (None, Some(DeliveryState::Cancelled)) => CANCELLED,
        (None, Some(DeliveryState::Pending)) => PENDING,
        (None, Some(DeliveryState::Delivered) | None) if rare => OF_RARE_TRIGGER,
        (None, Some(DeliveryState::Delivered) | None) => ANY,
    };
    fetch_page(pool, statement, firm_id, wanted).await
}

/// Lists the deliveries of a firm's workflow steps, newest first.
pub async fn list_steps(
    pool: &PgPool,
    firm_id: Uuid,
    wanted: &DeliveryFilter,
) -> Result<Vec<DeliveryRow>, sqlx::Error> {
    fetch_page(pool, OF_STEPS, firm_id, wanted).await
}

/// Lists the deliveries of a firm that are pending, or ended at this time or later, newest first.
/// Deliveries that ended within [`ENDED_LATER_MIN`] of their queuing are left out. The filter's
/// trigger and state do not count.
pub async fn list_ended_later(
    pool: &PgPool,
    firm_id: Uuid,
    wanted: &DeliveryFilter,
    kind: ListedKind,
    ended_since: DateTime<Utc>,
) -> Result<Vec<DeliveryRow>, sqlx::Error> {
    let statement = match kind {
        ListedKind::All => ENDED_LATER,
        ListedKind::Steps => STEPS_ENDED_LATER,
    };
    filtered_query(statement, firm_id, wanted).bind(ended_since).fetch_all(pool).await
}

async fn fetch_page(
    pool: &PgPool,
    statement: &'static str,
    firm_id: Uuid,
    wanted: &DeliveryFilter,
) -> Result<Vec<DeliveryRow>, sqlx::Error> {
    filtered_query(statement, firm_id, wanted).fetch_all(pool).await
}

/// The statement with its parameters `$1` to `$8`.
fn filtered_query<'q>(
    statement: &'static str,
    firm_id: Uuid,
    wanted: &DeliveryFilter,
) -> QueryAs<'q, Postgres, DeliveryRow, PgArguments> {
    let (before, before_id) = wanted.page_bound();
    sqlx::query_as(statement)
        .bind(firm_id)
        .bind(wanted.hook_id)
        .bind(wanted.trigger.map(Trigger::key))
        .bind(wanted.state.map(DeliveryState::name))
        .bind(wanted.since.unwrap_or(DateTime::UNIX_EPOCH))
        .bind(before)
        .bind(before_id)
        .bind(wanted.limit)
}

/// Lists the deliveries of a firm about these responses that were queued at this time or later,
/// newest first. Reads the history of the firm from then on.
pub async fn about_responses(
    pool: &PgPool,
    firm_id: Uuid,
    response_ids: &[Uuid],
    since: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<DeliveryRow>, sqlx::Error> {
    sqlx::query_as(
        "select delivery_id, hook_id, run_id, step_id, trigger, form_id, response_id, state, cause,
                created_at, next_try_at, body_sha256, reissue_of
           from deliveries
          where firm_id = $1 and created_at >= $2 and response_id = any($3)
          order by created_at desc, delivery_id desc limit $4",
    )
    .bind(firm_id)
    .bind(since)
    .bind(response_ids)
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// A page of a workflow run.
#[derive(Debug, Clone, Copy)]
pub struct RunPage {
    /// The firm.
    pub firm_id: Uuid,
    /// The run.
    pub run_id: Uuid,
    /// Only deliveries after this one of the run.
    pub after: Option<(DateTime<Utc>, Uuid)>,
    /// Most rows.
    pub limit: i64,
}

/// Lists the deliveries of a workflow run of a firm, oldest first.
pub async fn of_run(pool: &PgPool, page: RunPage) -> Result<Vec<DeliveryRow>, sqlx::Error> {
    sqlx::query_as(
        "select delivery_id, hook_id, run_id, step_id, trigger, form_id, response_id, state, cause,
                created_at, next_try_at, body_sha256, reissue_of
           from deliveries
          where run_id = $2 and firm_id = $1
            and ($3::timestamptz is null or (created_at, delivery_id) > ($3, $4))
          order by created_at, delivery_id limit $5",
    )
    .bind(page.firm_id)
    .bind(page.run_id)
    .bind(page.after.map(|(at, _)| at))
    .bind(page.after.map(|(_, id)| id))
    .bind(page.limit)
    .fetch_all(pool)
    .await
}

/// Lists these deliveries of a firm, newest first.
pub async fn list_among(
    pool: &PgPool,
    firm_id: Uuid,
    delivery_ids: &[Uuid],
) -> Result<Vec<DeliveryRow>, sqlx::Error> {
    if delivery_ids.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_as(
        "select delivery_id, hook_id, run_id, step_id, trigger, form_id, response_id, state, cause,
                created_at, next_try_at, body_sha256, reissue_of
           from deliveries
          where delivery_id = any($2) and firm_id = $1
          order by created_at desc, delivery_id desc",
    )
    .bind(firm_id)
    .bind(delivery_ids)
    .fetch_all(pool)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds are the last row and the end of the time.
    #[test]
    fn a_page_begins_at_the_earlier_bound() {
        let at = |second| DateTime::from_timestamp(second, 0);
        let filter = |until: Option<i64>, after: Option<i64>| DeliveryFilter {
            until: until.and_then(at),
            after: after.and_then(at).map(|time| (time, Uuid::max())),
            ..DeliveryFilter::default()
        };
        assert_eq!(filter(None, None).page_bound(), (FAR_AHEAD, Uuid::nil()));
        assert_eq!(Some(filter(Some(9), None).page_bound().0), at(9));
        assert_eq!(filter(Some(9), Some(9)).page_bound().1, Uuid::nil());
        assert_eq!(Some(filter(Some(9), Some(8)).page_bound().0), at(8));
    }
}
