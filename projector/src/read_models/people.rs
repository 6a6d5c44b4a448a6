//! The read model of people: who gets no mail, and who was erased (contract, section FormInvite;
//! ruling 11, invites).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::event::Event;
use domain::invite::PersonEvent;
use eventstore::{AppendError, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgExecutor};
use uuid::Uuid;

/// The writer of the table `people`.
pub(crate) struct PersonWriter;

impl WithAppend for PersonWriter {
    fn apply_appended<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let mut changes: BTreeMap<(Uuid, Uuid), PersonUpdate> = BTreeMap::new();
            for recorded in events {
                if let (Event::Person(event), Ok(person_id)) =
                    (&recorded.event, recorded.aggregate_id.parse())
                {
                    let person = (recorded.context.firm_id, person_id);
                    changes.entry(person).or_default().take_event(*event);
                }
            }
            Ok(write_changes(connection, &changes).await?)
        })
    }
}

/// The changes to one person's row. `None` leaves the column as it is.
#[derive(Debug, Default, Clone, Copy)]
struct PersonUpdate {
    unsubscribed: Option<bool>,
    bounced: Option<bool>,
    erased_at: Option<DateTime<Utc>>,
}

impl PersonUpdate {
    fn take_event(&mut self, event: PersonEvent) {
        match event {
            PersonEvent::AddressUnsubscribed { .. } => self.unsubscribed = Some(true),
            PersonEvent::AddressBounced { .. } => self.bounced = Some(true),
            PersonEvent::AddressRestored { .. } => {
                (self.unsubscribed, self.bounced) = (Some(false), Some(false));
            }
            PersonEvent::PersonErased { time } => self.erased_at = Some(time.get()),
        }
    }
}

async fn write_changes(
    connection: &mut PgConnection,
    changes: &BTreeMap<(Uuid, Uuid), PersonUpdate>,
) -> Result<(), sqlx::Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let (firm_ids, person_ids): (Vec<Uuid>, Vec<Uuid>) = changes.keys().copied().unzip();
    // An upsert would need a value for each column, so it could not leave one as it is.
    sqlx::query(
        "with t as (
             select * from unnest($1::uuid[], $2::uuid[], $3::bool[], $4::bool[], $5::timestamptz[])
                  as t(firm_id, person_id, unsubscribed, bounced, erased_at)
         ), changed as (
             update people p
                set unsubscribed = coalesce(t.unsubscribed, p.unsubscribed),
                    bounced = coalesce(t.bounced, p.bounced),
                    erased_at = coalesce(t.erased_at, p.erased_at)
               from t where p.firm_id = t.firm_id and p.person_id = t.person_id
             returning p.firm_id, p.person_id
         )
         insert into people (firm_id, person_id, unsubscribed, bounced, erased_at)
         select firm_id, person_id, coalesce(unsubscribed, false), coalesce(bounced, false), erased_at
           from t where (firm_id, person_id) not in (select firm_id, person_id from changed)",
    )
    .bind(firm_ids)
    .bind(person_ids)
    .bind(changes.values().map(|change| change.unsubscribed).collect::<Vec<_>>())
    .bind(changes.values().map(|change| change.bounced).collect::<Vec<_>>())
    .bind(changes.values().map(|change| change.erased_at).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// The state of a person's address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromRow)]
pub struct PersonRow {
    /// The person wants no mail.
    pub unsubscribed: bool,
    /// The address takes no mail.
    pub bounced: bool,
}

/// Returns the state of a person's address. Mail may go to an address without a row.
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

/// Returns the time of a person's last erasure.
pub async fn erased_at(
    connection: &mut PgConnection,
    firm_id: Uuid,
    person_id: Uuid,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let found =
        sqlx::query_scalar("select erased_at from people where firm_id = $1 and person_id = $2")
            .bind(firm_id)
            .bind(person_id)
            .fetch_optional(connection)
            .await?;
    Ok(found.flatten())
}
