//! Unspread occurrences: their rows were too many for the transaction that recorded them, or found
//! no lease in a burst. A worker inserts these rows later.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use uuid::Uuid;

use super::row::OutboxRow;

/// Occurrences that one step takes. They list 1,000 rows at most, so that the transaction stays
/// well under 100 ms.
const OCCURRENCES_PER_STEP: i64 = 10;

/// An occurrence whose rows are not in the outbox yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnspreadOccurrence {
    pub(crate) firm_id: Uuid,
    pub(crate) position: i64,
    pub(crate) occurrence_id: Uuid,
}

/// The occurrences of these rows, each once.
pub(crate) fn occurrences_of(rows: &[OutboxRow]) -> impl Iterator<Item = UnspreadOccurrence> {
    let of = |row: &OutboxRow| {
        let OutboxRow { firm_id, position, occurrence_id, .. } = *row;
        (position, UnspreadOccurrence { firm_id, position, occurrence_id })
    };
    rows.iter().map(of).collect::<BTreeMap<_, _>>().into_values()
}

/// Leaves occurrences to the spread worker.
pub(crate) async fn leave_unspread(
    connection: &mut PgConnection,
    unspread: &[UnspreadOccurrence],
) -> Result<(), sqlx::Error> {
    if unspread.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into unspread (firm_id, position, occurrence_id)
         select * from unnest($1::uuid[], $2::bigint[], $3::uuid[])",
    )
    .bind(unspread.iter().map(|one| one.firm_id).collect::<Vec<_>>())
    .bind(unspread.iter().map(|one| one.position).collect::<Vec<_>>())
    .bind(unspread.iter().map(|one| one.occurrence_id).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Takes the next unspread occurrences, of firms after this one in turn. It takes the oldest of
/// each firm, and fills up with more if there are few firms. Occurrences that another process has
/// locked are left out.
pub(crate) async fn take_unspread(
    connection: &mut PgConnection,
    after: Uuid,
) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    sqlx::query_as(
        "with recursive firms as (
             (select firm_id, 1 as place from unspread where firm_id > $1
               order by firm_id limit 1)
             union all
             (select next.firm_id, f.place + 1 from firms f
               cross join lateral (select firm_id from unspread where firm_id > f.firm_id
                                    order by firm_id limit 1) next
               where f.place < $2)),
         chosen as materialized (
             select u.firm_id, u.position
               from firms f
              cross join lateral (
                    select firm_id, position from unspread
                     where firm_id = f.firm_id order by position
                     limit greatest($2 / (select count(*) from firms), 1)
                       for update skip locked) u),
         gone as (
             delete from unspread u using chosen c
              where u.firm_id = c.firm_id and u.position = c.position
             returning u.firm_id, u.position, u.occurrence_id)
         select firm_id, occurrence_id from gone order by firm_id, position",
    )
    .bind(after)
    .bind(OCCURRENCES_PER_STEP)
    .fetch_all(connection)
    .await
}
