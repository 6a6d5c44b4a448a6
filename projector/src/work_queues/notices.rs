//! The work queue of notices. A worker takes a notice, queues it for the operator's URL, and mails
//! it to the firm (ruling 49).

use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::notice::{NoticeFacts, NoticeHook, NoticeKey};
use domain::subscription::shown_target;
use domain::values::Timestamp;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::keys;

/// The time in which a process must finish a notice that it has taken.
pub const TAKEN_FOR: Duration = Duration::from_secs(120);

/// A notice to raise.
#[derive(Debug, Clone)]
pub(crate) struct NewNotice {
    pub(crate) firm_id: Uuid,
    pub(crate) raised_at: Timestamp,
    pub(crate) facts: NoticeFacts,
}

/// Inserts these notices. A notice that is known already stays as it is.
pub(crate) async fn raise(
    connection: &mut PgConnection,
    raised: &[NewNotice],
) -> Result<(), sqlx::Error> {
    if raised.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into notices (notice_id, firm_id, facts, raised_at, due_at)
         select notice_id, firm_id, facts, raised_at, raised_at
           from unnest($1::uuid[], $2::uuid[], $3::jsonb[], $4::timestamptz[])
                as t(notice_id, firm_id, facts, raised_at)
             on conflict do nothing",
    )
    .bind(raised.iter().map(|new| new.facts.notice_id()).collect::<Vec<_>>())
    .bind(raised.iter().map(|new| new.firm_id).collect::<Vec<_>>())
    .bind(raised.iter().map(|new| Json(&new.facts)).collect::<Vec<_>>())
    .bind(raised.iter().map(|new| new.raised_at.get()).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// A notice that is not finished.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct OpenNotice {
    /// The id of the notice.
    pub notice_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// Its facts of the log.
    pub facts: Json<NoticeFacts>,
    /// Tries to mail it.
    pub mail_tries: i32,
}

/// Takes up to `limit` notices that have been due longest. No other process takes them for the next
/// 120 seconds.
pub async fn take_due(
    pool: &PgPool,
    now: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<OpenNotice>, sqlx::Error> {
    sqlx::query_as(
        "with due as (
             select notice_id from notices where due_at <= $1
              order by due_at limit $3 for update skip locked
         )
         update notices n set due_at = $2 from due where n.notice_id = due.notice_id
         returning n.notice_id, n.firm_id, n.facts, n.mail_tries",
    )
    .bind(now)
    .bind(now + TAKEN_FOR)
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// Up to `limit` notices that are not in the outbox yet, the oldest first.
pub async fn not_queued(pool: &PgPool, limit: i64) -> Result<Vec<OpenNotice>, sqlx::Error> {
    sqlx::query_as(
        "select notice_id, firm_id, facts, mail_tries from notices
          where not is_queued order by raised_at limit $1",
    )
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// Notes that the notice is in the outbox. Returns whether this call was the first to do so.
pub async fn note_queued(
    connection: &mut PgConnection,
    notice_id: Uuid,
) -> Result<bool, sqlx::Error> {
    let noted =
        sqlx::query("update notices set is_queued = true where notice_id = $1 and not is_queued")
            .bind(notice_id)
            .execute(connection)
            .await?;
    Ok(noted.rows_affected() == 1)
}

/// Puts a notice off whose mail could not be sent.
pub async fn put_off(
    pool: &PgPool,
    notice_id: Uuid,
    until: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query("update notices set due_at = $2, mail_tries = mail_tries + 1 where notice_id = $1")
        .bind(notice_id)
        .bind(until)
        .execute(pool)
        .await?;
    Ok(())
}

/// Deletes a finished notice. Returns whether it was there.
pub async fn finish(connection: &mut PgConnection, notice_id: Uuid) -> Result<bool, sqlx::Error> {
    let gone = sqlx::query("delete from notices where notice_id = $1")
        .bind(notice_id)
        .execute(connection)
        .await?;
    Ok(gone.rows_affected() == 1)
}

/// The subscriptions that a notice names: its own, or all that went along with a key or a firm.
pub async fn named_hooks(
    connection: &mut PgConnection,
    firm_id: Uuid,
    facts: &NoticeFacts,
) -> Result<Vec<NoticeHook>, sqlx::Error> {
    let statement = match facts.subject_kind() {
        "hook" => {
            "select hook_id, trigger, target_url from hooks where firm_id = $1 and hook_id = $2"
        }
        "key" => {
            "select hook_id, trigger, target_url from hooks
              where firm_id = $1 and key_id = $2 and removal_reason = 'key_revoked'
              order by created_position"
        }
        _ => {
            "select hook_id, trigger, target_url from hooks
              where firm_id = $1 and firm_id = $2 and removal_reason = 'firm_closed'
              order by created_position"
        }
    };
    let rows: Vec<(Uuid, String, String)> = sqlx::query_as(statement)
        .bind(firm_id)
        .bind(facts.subject_id)
        .fetch_all(connection)
        .await?;
    let hook = |(hook_id, trigger, target): (Uuid, String, String)| NoticeHook {
        hook_id,
        trigger,
        target: shown_target(&target),
    };
    Ok(rows.into_iter().map(hook).collect())
}

/// The label and first characters of a key that a notice is about.
pub async fn notice_key(
    connection: &mut PgConnection,
    facts: &NoticeFacts,
) -> Result<Option<NoticeKey>, sqlx::Error> {
    if facts.subject_kind() != "key" {
        return Ok(None);
    }
    let named = keys::named(connection, &[facts.subject_id]).await?.into_iter().next();
    Ok(named.map(|key| NoticeKey { name: key.name, prefix: key.prefix }))
}

/// Notices that are not finished, and the age of the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct NoticeBacklog {
    /// Notices that are not mailed yet, up to 100,000.
    pub mails: i64,
    /// Time at which the oldest of them became due.
    pub oldest_mail_at: Option<DateTime<Utc>>,
    /// Notices in the outbox, up to 100,000.
    pub posts: i64,
    /// Most tries that one of them has used up.
    pub post_tries: i32,
}

/// Counts the notices that are not finished.
pub async fn backlog(connection: &mut PgConnection) -> Result<NoticeBacklog, sqlx::Error> {
    sqlx::query_as(
        "select (select count(*) from (select from notices limit 100000) n) as mails,
                (select min(raised_at) from (select raised_at from notices
                                              order by due_at limit 1000) n) as oldest_mail_at,
                count(*) as posts, coalesce(max(tries), 0) as post_tries
           from (select tries from outbox where notice is not null limit 100000) o",
    )
    .fetch_one(connection)
    .await
}
