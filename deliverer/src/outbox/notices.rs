//! Notices to the operator's URL (ruling 49). All of them have one lane, with the limits and
//! retries of a delivery to a subscription. So a slow URL of the operator holds up no firm's
//! deliveries. A notice is no delivery: the log has an event once the URL has taken it, and no
//! history. A firm's suspension or closing does not hold it.

use chrono::{DateTime, Utc};
use domain::delivery::{Attempt, RetrySchedule};
use domain::notice::{NOTICE_FIRM, NoticeChannel, QueuedNotice, SentNotice, notice_lane_id};
use domain::subscription::host_of;
use sqlx::PgConnection;
use sqlx::types::Json;
use telemetry::metrics::NOTICES;
use uuid::Uuid;

use super::wakes;

/// A notice to queue.
#[derive(Debug, Clone, Copy)]
pub struct NoticeToQueue<'a> {
    /// The operator's URL.
    pub url: &'a str,
    /// The event and the body.
    pub notice: &'a QueuedNotice,
}

/// Inserts the row of a notice, and wakes its lane. A notice that is queued stays as it is.
pub async fn queue_notice(
    connection: &mut PgConnection,
    NoticeToQueue { url, notice }: NoticeToQueue<'_>,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let notice_id = notice.sent.notice_id;
    let lane_id = open_lane(connection, host_of(url)).await?;
    sqlx::query(
        "insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id,
                             response_id, position, due_at, tries_max, notice)
         values ($1, $2, $3, $4, 'notice', $4, $4, 0, $5, $6, $7)
             on conflict do nothing",
    )
    .bind(NoticeChannel::Operator.sending_id(notice_id))
    .bind(lane_id)
    .bind(NOTICE_FIRM)
    .bind(notice_id)
    .bind(now)
    .bind(RetrySchedule::RestHook.tries().cast_signed())
    .bind(Json(notice))
    .execute(&mut *connection)
    .await?;
    wakes::add_wake(connection, lane_id, now).await
}

/// Logs and counts a notice that is not sent again.
pub(crate) fn note_given_up(sent: &SentNotice, last: Option<&Attempt>) {
    tracing::error!(
        notice_id = %sent.notice_id,
        status = last.and_then(|attempt| attempt.status),
        error = last.and_then(|attempt| attempt.error.as_deref()).unwrap_or("interrupted"),
        "the operator's URL did not take a notice; it is given up"
    );
    NOTICES.count(&[("channel", NoticeChannel::Operator.name()), ("outcome", "given_up")]);
}

async fn open_lane(connection: &mut PgConnection, host: String) -> Result<Uuid, sqlx::Error> {
    let lane_id = notice_lane_id(&host);
    sqlx::query(
        "insert into lanes (lane_id, firm_id, kind, host) values ($1, $2, 'notice', $3)
             on conflict do nothing",
    )
    .bind(lane_id)
    .bind(NOTICE_FIRM)
    .bind(host)
    .execute(connection)
    .await?;
    Ok(lane_id)
}
