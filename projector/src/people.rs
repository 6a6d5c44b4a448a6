//! People whose address no mail may go to (contract, section FormInvite; ruling 11).

use domain::event::Event;
use domain::person::PersonEvent;
use eventstore::{AppendError, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgExecutor};
use uuid::Uuid;

/// The writer.
pub(crate) struct People;

impl WithAppend for People {
    fn after<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            for recorded in events {
                if let (Event::Person(event), Ok(person_id)) =
                    (&recorded.event, recorded.aggregate_id.parse())
                {
                    apply(connection, (recorded.context.firm_id, person_id), *event).await?;
                }
            }
            Ok(())
        })
    }
}

async fn apply(
    connection: &mut PgConnection,
    (firm_id, person_id): (Uuid, Uuid),
    event: PersonEvent,
) -> Result<(), sqlx::Error> {
    let erased_at = match event {
        PersonEvent::PersonErased { time } => Some(time.get()),
        PersonEvent::AddressUnsubscribed { .. }
        | PersonEvent::AddressBounced { .. }
        | PersonEvent::AddressRestored { .. } => None,
    };
    let (unsubscribed, bounced) = match event {
        PersonEvent::AddressUnsubscribed { .. } => (Some(true), None),
        PersonEvent::AddressBounced { .. } => (None, Some(true)),
        PersonEvent::AddressRestored { .. } => (Some(false), Some(false)),
        PersonEvent::PersonErased { .. } => (None, None),
    };
    sqlx::query(
        "insert into people as p (firm_id, person_id, unsubscribed, bounced, erased_at)
         values ($1, $2, coalesce($3, false), coalesce($4, false), $5)
             on conflict (firm_id, person_id) do update
            set unsubscribed = coalesce($3, p.unsubscribed), bounced = coalesce($4, p.bounced),
                erased_at = coalesce($5, p.erased_at)",
    )
    .bind(firm_id)
    .bind(person_id)
    .bind(unsubscribed)
    .bind(bounced)
    .bind(erased_at)
    .execute(connection)
    .await?;
    Ok(())
}

/// What is known of a person's address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromRow)]
pub struct PersonRow {
    /// The person wants no mail.
    pub unsubscribed: bool,
    /// Mail cannot be delivered there.
    pub bounced: bool,
}

/// What is known of a person's address; of one nothing was ever said of, that mail may go there.
///
/// # Errors
/// If the database does not answer.
pub async fn find(
    database: impl PgExecutor<'_>,
    firm_id: Uuid,
    person_id: Uuid,
) -> Result<PersonRow, sqlx::Error> {
    let row = sqlx::query_as(
        "select unsubscribed, bounced from people where firm_id = $1 and person_id = $2",
    )
    .bind(firm_id)
    .bind(person_id)
    .fetch_optional(database)
    .await?;
    Ok(row.unwrap_or_default())
}
