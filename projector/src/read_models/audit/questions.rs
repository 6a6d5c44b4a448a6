//! Questions about the audit log.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use domain::audit::AuditPeriod;
use domain::audit::merkle::Hash;
use domain::values::Timestamp;
use sqlx::types::JsonValue;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use super::{AuditLog, EntryRow};
use crate::follow::Projection;

/// The statement that reads the [`EntryRow`]s that meet this condition.
macro_rules! entries_where {
    ($($condition:expr),+) => {
        concat!(
            "select firm_id, sequence, position, at, action, actor_kind, actor_id, subject_kind,
                    subject_id, reason, evidence, entry, previous_hash, hash
               from audit_log where ",
            $($condition),+
        )
    };
}

/// The filter of a list of entries. `None` filters nothing.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// The actions.
    pub actions: Option<Vec<&'static str>>,
    /// The kind or the id of the actor.
    pub actor: Option<String>,
    /// The kind or the id of the subject.
    pub subject: Option<String>,
    /// Entries at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Entries before this time.
    pub until: Option<DateTime<Utc>>,
    /// The cursor: the sequence of the last entry of the page before.
    pub before: Option<i64>,
}

/// The statement of the newest `$8` entries of the firm `$1` that meet a filter. The sequence of
/// the cursor is `$2`, and the filter is `$3` to `$7`: actions, actor, subject, since and until.
/// A part that the filter lacks is null.
///
/// With a column, the statement reads an index of this column and the time. It compares the column
/// by its order, not for equality. PostgreSQL would guess otherwise that the end of the chain has
/// enough such entries, and read all of a chain that has few.
macro_rules! newest_entries {
    () => {
        newest_entries!("", "", "", "")
    };
    ($column:literal, $value:literal) => {
        newest_entries!(
            concat!(" and ", $column, " between ", $value, " and ", $value),
            concat!($column, ", "),
            concat!($value, ", "),
            concat!($column, " desc, ")
        )
    };
    ($condition:expr, $column:expr, $value:expr, $order:expr) => {
        concat!(
            "(",
            entries_where!(
                "firm_id = $1
                 and ($3::text[] is null or action = any($3))
                 and ($4::text is null or actor_kind = $4 or actor_id = $4)
                 and ($5::text is null or subject_kind = $5 or subject_id = $5)
                 and at >= coalesce($6, '-infinity'::timestamptz)
                 and at < coalesce($7, 'infinity'::timestamptz)",
                $condition,
                " and (",
                $column,
                "at, sequence) < (",
                $value,
                "case when $2::bigint is null then 'infinity'
                      else (select at from audit_log where firm_id = $1 and sequence = $2) end,
                 coalesce($2, 9223372036854775807))
                 order by ",
                $order,
                "at desc, sequence desc limit $8)"
            )
        )
    };
}

/// The statement of the newest `$8` of these entries.
macro_rules! newest_of {
    ($($entries:expr),+) => {
        concat!(
            "select entry.* from (", $($entries),+,
            ") entry order by at desc, sequence desc limit $8"
        )
    };
}

/// Actions that are looked up one by one, at most. More of them are most of a chain.
const ACTIONS_LOOKED_UP_MAX: usize = 8;

/// The index that leads to few entries that do not meet the filter.
#[derive(Debug, Clone, Copy)]
enum EntryIndex {
    Time,
    Action,
    Actor,
    Subject,
}

impl EntryIndex {
    fn for_filter(filter: &AuditFilter) -> Self {
        let AuditFilter { actions, actor, subject, .. } = filter;
        let few_actions =
            actions.as_ref().is_some_and(|actions| actions.len() <= ACTIONS_LOOKED_UP_MAX);
        match (subject, actor, actions) {
            (Some(_), _, _) => Self::Subject,
            (None, Some(_), _) if !few_actions => Self::Actor,
            (None, _, Some(_)) => Self::Action,
            (None, _, None) => Self::Time,
        }
    }

    /// The statement that reads by this index. An actor and a subject are asked for by kind or by
    /// id, and each has an index of its own.
    const fn statement(self) -> &'static str {
        match self {
            Self::Time => newest_entries!(),
            Self::Action => newest_of!(
                "select one.* from unnest($3) wanted (action) cross join lateral ",
                newest_entries!("action", "wanted.action"),
                " one"
            ),
            Self::Actor => newest_of!(
                newest_entries!("actor_kind", "$4"),
                " union ",
                newest_entries!("actor_id", "$4")
            ),
            Self::Subject => newest_of!(
                newest_entries!("subject_kind", "$5"),
                " union ",
                newest_entries!("subject_id", "$5")
            ),
        }
    }
}

/// Lists up to `limit` entries of a firm, newest first: by their time if anything is filtered, else
/// by their place in the chain. The two orders differ only where clocks of machines do.
pub async fn list_entries(
    pool: &PgPool,
    firm_id: Uuid,
    filter: &AuditFilter,
    limit: i64,
) -> Result<Vec<EntryRow>, sqlx::Error> {
    let AuditFilter { actions, actor, subject, since, until, before } = filter;
    if matches!((actions, actor, subject, since, until), (None, None, None, None, None)) {
        return list_before(pool, firm_id, *before, limit).await;
    }
    // An action named twice would give its entries twice.
    let actions = actions.as_ref().map(|actions| Vec::from_iter(BTreeSet::from_iter(actions)));
    sqlx::query_as(EntryIndex::for_filter(filter).statement())
        .bind(firm_id)
        .bind(before)
        .bind(actions)
        .bind(actor)
        .bind(subject)
        .bind(since)
        .bind(until)
        .bind(limit)
        .fetch_all(pool)
        .await
}

/// Lists up to `limit` entries of a chain before this place, newest first.
async fn list_before(
    pool: &PgPool,
    firm_id: Uuid,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("firm_id = $1 and sequence < $2 order by sequence desc limit $3"))
        .bind(firm_id)
        .bind(before.unwrap_or(i64::MAX))
        .bind(limit)
        .fetch_all(pool)
        .await
}

/// Lists all entries about a subject, oldest first.
pub async fn of_subject(pool: &PgPool, subject_id: Uuid) -> Result<Vec<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("subject_id = $1 order by position"))
        .bind(subject_id.to_string())
        .fetch_all(pool)
        .await
}

/// Finds the entry of the event at this position, if it has one.
pub async fn find_at(pool: &PgPool, position: i64) -> Result<Option<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("position = $1")).bind(position).fetch_optional(pool).await
}

/// Lists the entries of the events at these positions, in no order.
pub async fn find_at_all(
    connection: &mut PgConnection,
    positions: &[i64],
) -> Result<Vec<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("position = any($1)")).bind(positions).fetch_all(connection).await
}

/// Finds the sequences of the entries of the events at these positions, by position.
pub async fn sequences_at(
    pool: &PgPool,
    positions: &[i64],
) -> Result<HashMap<i64, i64>, sqlx::Error> {
    let found: Vec<(i64, i64)> =
        sqlx::query_as("select position, sequence from audit_log where position = any($1)")
            .bind(positions)
            .fetch_all(pool)
            .await?;
    Ok(found.into_iter().collect())
}

/// Lists the entries with this hash: one, unless a chain was forged.
pub async fn by_hash(pool: &PgPool, hash: Hash) -> Result<Vec<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("hash = $1 order by position limit 10"))
        .bind(hash)
        .fetch_all(pool)
        .await
}

/// An operator at a terminal, by the entries of a firm.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct OperatorSeen {
    /// The name.
    pub name: String,
    /// The first entry.
    pub first_at: DateTime<Utc>,
    /// The last entry.
    pub last_at: DateTime<Utc>,
    /// The number of entries.
    pub entries: i64,
    /// The terminal of the last entry.
    pub terminal: Option<JsonValue>,
}

/// Lists the operators who gave commands about a firm at a terminal, up to a time, by name.
pub async fn list_operators(
    pool: &PgPool,
    firm_id: Uuid,
    until: DateTime<Utc>,
) -> Result<Vec<OperatorSeen>, sqlx::Error> {
    sqlx::query_as(
        // PostgreSQL cannot tell how rare terminals are. Without the `with`, the order of groups
        // would lead it through all entries of operators.
        "with seen as materialized (
             select actor_id, at, sequence, evidence->'terminal' as terminal from audit_log
              where firm_id = $1 and actor_kind = 'operator' and at <= $2
                and evidence->'terminal' is not null)
         select actor_id as name, min(at) as first_at, max(at) as last_at, count(*) as entries,
                (array_agg(terminal order by sequence desc))[1] as terminal
           from seen group by actor_id order by actor_id",
    )
    .bind(firm_id)
    .bind(until)
    .fetch_all(pool)
    .await
}

/// Lists the sign-ins of users of the provider after `since` and up to `at`, in their order.
/// `firm_id` is that of the installation.
pub async fn sign_ins(
    pool: &PgPool,
    firm_id: Uuid,
    since: DateTime<Utc>,
    at: DateTime<Utc>,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select subject_id::uuid from audit_log
          where firm_id = $1 and action = 'user_signed_in' and at > $2 and at <= $3
          order by at, sequence",
    )
    .bind(firm_id)
    .bind(since)
    .bind(at)
    .fetch_all(pool)
    .await
}

/// Returns the position of an event that has an entry, by the event's id.
pub async fn position_of_event(
    connection: &mut PgConnection,
    event_id: Uuid,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("select position from audit_log where event_id = $1")
        .bind(event_id)
        .fetch_optional(connection)
        .await
}

/// Lists up to `limit` entries at this position and above, in the order of positions.
pub async fn list_from(
    connection: &mut PgConnection,
    from: i64,
    limit: i64,
) -> Result<Vec<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("position >= $1 order by position limit $2"))
        .bind(from)
        .bind(limit)
        .fetch_all(connection)
        .await
}

/// Counts the entries, without a condition on their positions.
pub async fn count_entries(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from audit_log").fetch_one(connection).await
}

/// Counts the firms that have an entry. PostgreSQL looks each of them up in the index.
pub async fn count_firms(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "with recursive firm as (
             (select firm_id from audit_log order by firm_id limit 1)
              union all
             select (select firm_id from audit_log where firm_id > firm.firm_id
                      order by firm_id limit 1)
               from firm where firm_id is not null)
         select count(firm_id) from firm",
    )
    .fetch_one(connection)
    .await
}

/// A span of a firm's chain, with both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct ChainSpan {
    /// The first place.
    pub first: i64,
    /// The last place.
    pub last: i64,
}

/// Returns the shortest span, up to the place `through`, with all entries since `since` and before
/// `until`. Returns `None` without such entries.
pub async fn find_span(
    connection: &mut PgConnection,
    firm_id: Uuid,
    through: i64,
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
) -> Result<Option<ChainSpan>, sqlx::Error> {
    let (first, last): (Option<i64>, Option<i64>) = sqlx::query_as(
        "select min(sequence), max(sequence) from audit_log
          where firm_id = $1 and sequence <= $2
            and ($3::timestamptz is null or at >= $3) and ($4::timestamptz is null or at < $4)",
    )
    .bind(firm_id)
    .bind(through)
    .bind(since)
    .bind(until)
    .fetch_one(connection)
    .await?;
    Ok(first.zip(last).map(|(first, last)| ChainSpan { first, last }))
}

/// Returns the span, up to the place `through`, that proves which entries are in a period. It has
/// all of these entries, the entry before them and the entry after them. Without such entries these
/// two follow each other. A chain has at least one entry.
pub async fn proving_span(
    connection: &mut PgConnection,
    firm_id: Uuid,
    through: i64,
    period: AuditPeriod,
) -> Result<ChainSpan, sqlx::Error> {
    sqlx::query_as(
        "select greatest(1, coalesce(
                    (select min(sequence) from audit_log
                      where firm_id = $1 and sequence <= $2
                        and ($3::timestamptz is null or at >= $3)), $2 + 1) - 1) as first,
                least($2, coalesce(
                    (select max(sequence) from audit_log
                      where firm_id = $1 and sequence <= $2
                        and ($4::timestamptz is null or at < $4)), 0) + 1) as last",
    )
    .bind(firm_id)
    .bind(through)
    .bind(period.since.map(Timestamp::get))
    .bind(period.until.map(Timestamp::get))
    .fetch_one(connection)
    .await
}

/// Lists up to `limit` entries of a firm after this place in its chain, in order.
pub async fn list_after(
    connection: &mut PgConnection,
    firm_id: Uuid,
    after: i64,
    limit: i64,
) -> Result<Vec<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("firm_id = $1 and sequence > $2 order by sequence limit $3"))
        .bind(firm_id)
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await
}

/// Returns the position of the last entry of all chains, or 0.
pub async fn last_position(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let last: Option<i64> =
        sqlx::query_scalar("select max(position) from audit_log").fetch_one(connection).await?;
    Ok(last.unwrap_or(0))
}

/// Lists the entries of a span, in order.
pub async fn list_span(
    connection: &mut PgConnection,
    firm_id: Uuid,
    span: ChainSpan,
) -> Result<Vec<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("firm_id = $1 and sequence between $2 and $3 order by sequence"))
        .bind(firm_id)
        .bind(span.first)
        .bind(span.last)
        .fetch_all(connection)
        .await
}

/// Lists the hashes of a span, in order.
pub async fn list_hashes(
    connection: &mut PgConnection,
    firm_id: Uuid,
    span: ChainSpan,
) -> Result<Vec<Hash>, sqlx::Error> {
    sqlx::query_scalar(
        "select hash from audit_log
          where firm_id = $1 and sequence between $2 and $3 order by sequence",
    )
    .bind(firm_id)
    .bind(span.first)
    .bind(span.last)
    .fetch_all(connection)
    .await
}

/// Returns the position up to which the audit log has followed the log.
pub async fn followed_to(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let position = sqlx::query_scalar("select position from checkpoints where name = $1")
        .bind(AuditLog::NAME)
        .fetch_optional(connection)
        .await?;
    Ok(position.unwrap_or(0))
}

/// The hash of an entry, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct ChainHash {
    /// The firm of the chain.
    pub firm_id: Uuid,
    /// The entry's sequence.
    pub sequence: i64,
    /// The entry's hash.
    pub hash: Hash,
}

/// Lists the hashes of all entries up to a position, chain by chain, after this one. `later` has
/// the positions of late entries whose statements are above that position.
pub async fn hashes_after(
    connection: &mut PgConnection,
    after: Option<ChainHash>,
    through: i64,
    later: &[i64],
    limit: i64,
) -> Result<Vec<ChainHash>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, sequence, hash from audit_log
          where (firm_id, sequence) > ($1, $2) and position <= $3 and position <> all($5)
          order by firm_id, sequence limit $4",
    )
    .bind(after.map_or(Uuid::nil(), |after| after.firm_id))
    .bind(after.map_or(0, |after| after.sequence))
    .bind(through)
    .bind(limit)
    .bind(later)
    .fetch_all(connection)
    .await
}
