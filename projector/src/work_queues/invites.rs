//! The work queue of invites with mail under way. A worker takes over an invite that its process
//! left open (ruling 11, invites).

use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};
use domain::event::Event;
use domain::invite::{InviteEvent, InviteOf};
use eventstore::{AppendError, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// The time in which a process must finish an invite that it has reserved or taken over.
pub const FINISH_WITHIN: Duration = Duration::from_secs(120);

/// The writer of the table `open_invites`.
pub(crate) struct InviteWriter;

impl WithAppend for InviteWriter {
    fn apply_appended<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            for recorded in events {
                if let (Event::Invite(event), Ok(invite_id)) =
                    (&recorded.event, recorded.aggregate_id.parse())
                {
                    apply_event(connection, invite_id, event, recorded).await?;
                }
            }
            Ok(())
        })
    }
}

async fn apply_event(
    connection: &mut PgConnection,
    invite_id: Uuid,
    event: &InviteEvent,
    recorded: &RecordedEvent,
) -> Result<(), sqlx::Error> {
    match event {
        InviteEvent::InviteReserved(of) => open_invite(connection, invite_id, of, recorded).await,
        InviteEvent::InviteSent(_)
        | InviteEvent::InviteRefused(_)
        | InviteEvent::InviteReleased(_) => close_invite(connection, invite_id).await,
    }
}

async fn open_invite(
    connection: &mut PgConnection,
    invite_id: Uuid,
    of: &InviteOf,
    recorded: &RecordedEvent,
) -> Result<(), sqlx::Error> {
    let at = recorded.context.recorded_at.get();
    sqlx::query(
        "insert into open_invites
                (invite_id, firm_id, form_id, person_id, day, reserved_at, due_at)
         values ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(invite_id)
    .bind(recorded.context.firm_id)
    .bind(of.form_id)
    .bind(of.person_id)
    .bind(of.day)
    .bind(at)
    .bind(at + FINISH_WITHIN)
    .execute(connection)
    .await?;
    Ok(())
}

async fn close_invite(connection: &mut PgConnection, invite_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query("delete from open_invites where invite_id = $1")
        .bind(invite_id)
        .execute(connection)
        .await?;
    Ok(())
}

/// An invite with mail under way.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct OpenInvite {
    /// The id of the invite.
    pub invite_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// The form.
    pub form_id: Uuid,
    /// The person.
    pub person_id: Uuid,
    /// The day in whose limit the invite is counted.
    pub day: NaiveDate,
    /// The time at which the invite was reserved.
    pub reserved_at: DateTime<Utc>,
}

impl OpenInvite {
    /// Returns the form, the person and the day of the invite.
    #[must_use]
    pub const fn invite_of(&self) -> InviteOf {
        InviteOf { form_id: self.form_id, person_id: self.person_id, day: self.day }
    }
}

/// Counts the invites with mail under way, up to 100,000.
pub async fn under_way(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from (select from open_invites limit 100000) i")
        .fetch_one(connection)
        .await
}

/// Returns whether an invite is under way.
pub async fn is_open(pool: &PgPool, invite_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select exists (select 1 from open_invites where invite_id = $1)")
        .bind(invite_id)
        .fetch_one(pool)
        .await
}

/// Takes over the invite that has been overdue longest, if there is one. No other process takes it
/// over for the next 120 seconds.
pub async fn take_over(
    pool: &PgPool,
    now: DateTime<Utc>,
) -> Result<Option<OpenInvite>, sqlx::Error> {
    sqlx::query_as(
        "with due as (
             select invite_id from open_invites where due_at <= $1
              order by due_at limit 1 for update skip locked
         )
         update open_invites o set due_at = $2 from due where o.invite_id = due.invite_id
         returning o.invite_id, o.firm_id, o.form_id, o.person_id, o.day, o.reserved_at",
    )
    .bind(now)
    .bind(now + FINISH_WITHIN)
    .fetch_optional(pool)
    .await
}

/// Returns whether an open invite may still be sent. Its firm must be active and send invites, and
/// its form be published. Its person must want mail, have a working address, and not be erased.
pub async fn may_go(pool: &PgPool, invite: &OpenInvite) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (
             select 1 from firms f join forms o on o.firm_id = f.firm_id
              where f.firm_id = $1 and f.status = 'active' and f.invites_enabled
                and o.form_id = $2 and o.status = 'published' and not o.deleted)
            and not exists (
             select 1 from people
              where firm_id = $1 and person_id = $3
                and (unsubscribed or bounced or erased_at >= $4))",
    )
    .bind(invite.firm_id)
    .bind(invite.form_id)
    .bind(invite.person_id)
    .bind(invite.reserved_at)
    .fetch_one(pool)
    .await
}
