//! Notices to the operator's URL (ruling 49). A notice has a lane per firm and host, and the limits
//! and retries of a delivery to a subscription. It is no delivery: the log has an event once the
//! URL has taken it, and no history. A firm's suspension or closing does not hold it.

use chrono::{DateTime, Utc};
use domain::notice::{NoticeChannel, QueuedNotice, notice_lane_id};
use domain::retry::RetrySchedule;
use domain::target::host_of;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::wakes;

/// A notice to queue.
#[derive(Debug, Clone, Copy)]
pub struct NoticeToQueue<'a> {
    /// The firm.
    pub firm_id: Uuid,
    /// The operator's URL.
    pub url: &'a str,
    /// The event and the body.
    pub notice: &'a QueuedNotice,
}

/// Inserts the row of a notice, and wakes its lane. A notice that is queued stays as it is.
///
/// # Errors
/// If the database does not answer.
pub async fn queue(
    connection: &mut PgConnection,
    NoticeToQueue { firm_id, url, notice }: NoticeToQueue<'_>,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let notice_id = notice.sent.notice_id;
    let lane_id = open_lane(connection, firm_id, host_of(url)).await?;
    sqlx::query(
        "insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
                             response_id, position, due_at, tries_max, notice)
         values ($1, $2, $3, $4, 'notice', $4, $4, 0, $5, $6, $7)
             on conflict do nothing",
    )
    .bind(NoticeChannel::Operator.sending_id(notice_id))
    .bind(lane_id)
    .bind(firm_id)
    .bind(notice_id)
    .bind(now)
    .bind(RetrySchedule::RestHook.tries().cast_signed())
    .bind(Json(notice))
    .execute(&mut *connection)
    .await?;
    wakes::add(connection, lane_id, now).await
}

async fn open_lane(
    connection: &mut PgConnection,
    firm_id: Uuid,
    host: String,
) -> Result<Uuid, sqlx::Error> {
    let lane_id = notice_lane_id(firm_id, &host);
    sqlx::query(
        "insert into lanes (lane_id, firm_id, kind, host) values ($1, $2, 'notice', $3)
             on conflict do nothing",
    )
    .bind(lane_id)
    .bind(firm_id)
    .bind(host)
    .execute(connection)
    .await?;
    Ok(lane_id)
}
