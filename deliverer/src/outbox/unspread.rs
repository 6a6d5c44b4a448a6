//! Unspread occurrences: their rows were too many for the transaction that recorded them, or found
//! no lease in a burst. A worker inserts these rows later.

use std::collections::BTreeMap;

use eventstore::{EventPositions, JoinedWrites};
use sqlx::PgConnection;
use uuid::Uuid;

use super::row::{OutboxRow, counted_position};

/// Rows that the occurrences of one step list, at most, so that its transaction stays well under
/// 100 ms. Firms share them.
const ROWS_PER_STEP_MAX: i64 = 500;

/// Firms of one step. The share of each has room for the longest list, of 100 rows.
const FIRMS_PER_STEP_MAX: i64 = 10;

/// An occurrence whose rows are not in the outbox yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnspreadOccurrence {
    pub(crate) firm_id: Uuid,
    pub(crate) position: i64,
    pub(crate) occurrence_id: Uuid,
    pub(crate) rows_listed: i32,
}

/// The occurrences of these rows, each once. All rows of an occurrence are among them.
pub(crate) fn occurrences_of(rows: &[OutboxRow]) -> impl Iterator<Item = UnspreadOccurrence> {
    let mut occurrences = BTreeMap::new();
    for &OutboxRow { firm_id, position, occurrence_id, .. } in rows {
        let none = UnspreadOccurrence { firm_id, position, occurrence_id, rows_listed: 0 };
        occurrences.entry(position).or_insert(none).rows_listed += 1;
    }
    occurrences.into_values()
}

/// SQL: inserts unspread occurrences with this position.
macro_rules! unspread_sql {
    ($position:expr) => {
        concat!(
            "left_unspread as (
                 insert into unspread (firm_id, position, occurrence_id, rows_listed)
                 select firm_id, ",
            $position,
            ", occurrence_id, rows_listed
                   from rows($1::uuid, $2::bigint, $3::uuid, $4::int)
                        as t(firm_id, position, occurrence_id, rows_listed))"
        )
    };
}

/// Adds the write that leaves occurrences to the spread worker.
pub(crate) fn leave_unspread(
    writes: &mut JoinedWrites,
    unspread: &[UnspreadOccurrence],
    positions: EventPositions,
) {
    if unspread.is_empty() {
        return;
    }
    writes
        .add_rows(
            unspread.len(),
            match positions {
                EventPositions::Known => unspread_sql!("position"),
                EventPositions::OfStatement => unspread_sql!(counted_position!()),
            },
        )
        .bind_column(unspread.iter().map(|one| one.firm_id).collect())
        .bind_column(unspread.iter().map(|one| one.position).collect())
        .bind_column(unspread.iter().map(|one| one.occurrence_id).collect())
        .bind_column(unspread.iter().map(|one| one.rows_listed).collect());
}

/// Takes the next unspread occurrences, of firms after this one in turn. It takes the oldest of
/// each firm, within the firm's share of the step's rows. Occurrences that another process has
/// locked are left out.
///
/// The first list of a firm says how many occurrences are locked. If later lists are longer, some
/// of these are left for the next step. Locked rows are deleted by their `ctid`, because a join
/// would have plans that read the whole table.
pub(crate) async fn take_unspread(
    connection: &mut PgConnection,
    after: Uuid,
) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    sqlx::query_as(
        "with recursive firms as (
             (select firm_id, rows_listed, 1 as place from unspread where firm_id > $1
               order by firm_id, position limit 1)
             union all
             (select next.firm_id, next.rows_listed, f.place + 1 from firms f
               cross join lateral (select firm_id, rows_listed from unspread
                                    where firm_id > f.firm_id
                                    order by firm_id, position limit 1) next
               where f.place < $2)),
         shares as materialized (
             select firm_id, rows_listed, $3 / (select count(*) from firms) as rows_max
               from firms),
         locked as materialized (
             select u.id, u.firm_id, u.position, u.rows_listed, s.rows_max
               from shares s
              cross join lateral (
                    select ctid as id, firm_id, position, rows_listed from unspread
                     where firm_id = s.firm_id order by position
                     limit greatest(s.rows_max / greatest(s.rows_listed, 1), 1)
                       for update skip locked) u),
         added as (
             select id, rows_max,
                    sum(rows_listed) over from_oldest as rows_so_far,
                    row_number() over from_oldest as place
               from locked
             window from_oldest as (partition by firm_id order by position)),
         gone as (
             delete from unspread
              where ctid = any(array(
                    select id from added where rows_so_far <= rows_max or place = 1))
             returning firm_id, position, occurrence_id)
         select firm_id, occurrence_id from gone order by firm_id, position",
    )
    .bind(after)
    .bind(FIRMS_PER_STEP_MAX)
    .bind(ROWS_PER_STEP_MAX)
    .fetch_all(connection)
    .await
}
