//! Tables that decide and are in no chain. They change in the append of their event, so in one
//! snapshot each row must be what its stream says. A row without a stream lets somebody in whom the
//! log does not know. A row that an index does not have would be passed over, so all rows are
//! counted without indexes.

use std::collections::HashMap;

use domain::values::Timestamp;
use eventstore::tail::TailError;
use eventstore::{RecordedEvent, StreamName, Upcasters, load_many};
use projector::StoredRow;
use projector::hooks::StoredHook;
use projector::keys::StoredKey;
use projector::portal_sessions;
use projector::sign_ins::{StoredSignIn, StoredUser};
use sqlx::PgConnection;
use vault::secrets;

use super::events::LogTally;
use super::visited::{ROWS_PER_READ, VisitedRows};
use super::{FlawLocation, VerifyStop, broken_at, portal};

/// The counts of the compared rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComparedRows {
    /// Keys that are as the log says.
    pub keys: i64,
    /// Subscriptions that are as the log says.
    pub hooks: i64,
    /// Signing secrets that are as old as the log says.
    pub secrets: i64,
    /// Sessions of users of the provider that are as the log says.
    pub sign_ins: i64,
    /// Users of the provider whose names are as the log says.
    pub users: i64,
    /// Sessions of the portal that are as the log says.
    pub portal_sessions: i64,
    /// Why nothing can be said of a session of the portal.
    pub undecided: Option<String>,
    /// Tables that this login may not read, so they are not compared.
    pub unreadable: Vec<&'static str>,
}

/// Compares keys, subscriptions, sessions, users and the ages of signing secrets with the log.
/// `tally` is `None` if the log has events that this build cannot read: they may make rows too.
pub(super) async fn compare(
    connection: &mut PgConnection,
    tally: Option<&LogTally>,
) -> Result<ComparedRows, VerifyStop> {
    let mut compared = ComparedRows::default();
    let unreadable = &mut compared.unreadable;
    let keys = tally.map(|tally| tally.keys);
    compared.keys = compare_readable::<StoredKey>(connection, keys, unreadable).await?;
    let hooks = tally.map(|tally| tally.hooks);
    compared.hooks = compare_readable::<StoredHook>(connection, hooks, unreadable).await?;
    // A session's row goes some time after its end, so the log does not tell the number of rows.
    compared.sign_ins = compare_readable::<StoredSignIn>(connection, None, unreadable).await?;
    compared.users = compare_readable::<StoredUser>(connection, None, unreadable).await?;
    if may_read(connection, portal_sessions::TABLE, "cookie_sha256").await? {
        let portal = portal::compare_sessions(connection).await?;
        compared.portal_sessions = portal.sessions;
        compared.undecided = portal.undecided;
    } else {
        compared.unreadable.push(portal_sessions::TABLE);
    }
    if !may_read(connection, SECRETS, "rotated_at").await? {
        compared.unreadable.push(SECRETS);
    } else if let Some(tally) = tally {
        compared.secrets = compare_secrets(connection, tally).await?;
    }
    Ok(compared)
}

const SECRETS: &str = "webhook_secrets";

async fn may_read(
    connection: &mut PgConnection,
    table: &str,
    column: &str,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select has_column_privilege($1, $2, 'select')")
        .bind(table)
        .bind(column)
        .fetch_one(connection)
        .await
}

/// Compares a table, or notes that this login may not read it.
async fn compare_readable<R: StoredRow>(
    connection: &mut PgConnection,
    known: Option<i64>,
    unreadable: &mut Vec<&'static str>,
) -> Result<i64, VerifyStop> {
    if may_read(connection, R::TABLE, R::COLUMN).await? {
        return compare_table::<R>(connection, known).await;
    }
    unreadable.push(R::TABLE);
    Ok(0)
}

/// Compares each row with its stream, and the number of rows with that of the streams.
async fn compare_table<R: StoredRow>(
    connection: &mut PgConnection,
    known: Option<i64>,
) -> Result<i64, VerifyStop> {
    let mut after = None;
    let mut count = 0;
    loop {
        let rows = R::rows_after(connection, after, ROWS_PER_READ).await?;
        let Some(last) = rows.last() else {
            break;
        };
        after = Some(last.row_id());
        count += i64::try_from(rows.len()).unwrap_or(i64::MAX);
        compare_rows(connection, &rows).await?;
    }
    let visited = VisitedRows { table: R::TABLE, condition: "true", count };
    visited.require_all(connection).await?;
    if let Some(known) = known.filter(|known| *known != count) {
        let why = format!("it has {count} rows, and the log leads to {known}");
        return broken_at(FlawLocation::Table { name: R::TABLE }, why);
    }
    Ok(count)
}

async fn compare_rows<R: StoredRow>(
    connection: &mut PgConnection,
    rows: &[R],
) -> Result<(), VerifyStop> {
    if let Some([row, _]) = rows.array_windows().find(|[one, next]| one.row_id() == next.row_id()) {
        let place = FlawLocation::Row { table: R::TABLE, key: row.row_id() };
        return broken_at(place, "two rows have this id");
    }
    let ids: Vec<String> = rows.iter().map(|row| row.stream_id().to_string()).collect();
    let events = match read_streams(connection, R::AGGREGATE, &ids).await {
        Err(TailError::Unreadable { .. }) if rows.len() > 1 => {
            for row in rows {
                Box::pin(compare_rows(connection, std::slice::from_ref(row))).await?;
            }
            return Ok(());
        }
        // The walk has reported the event.
        Err(TailError::Unreadable { .. }) => return Ok(()),
        Err(TailError::Database(error)) => return Err(error.into()),
        Ok(events) => events,
    };
    let mut streams: HashMap<&str, Vec<&RecordedEvent>> = HashMap::new();
    for event in &events {
        streams.entry(&event.aggregate_id).or_default().push(event);
    }
    for (row, id) in rows.iter().zip(&ids) {
        let place = FlawLocation::Row { table: R::TABLE, key: row.row_id() };
        match streams.get(id.as_str()).and_then(|stream| R::from_stream(stream)) {
            None => return broken_at(place, "it is there, and the log does not know it"),
            Some(expected) => {
                if let Some(column) = row.first_difference(&expected) {
                    return broken_at(place, format!("its {column} is not what the log says"));
                }
            }
        }
    }
    Ok(())
}

async fn read_streams(
    connection: &mut PgConnection,
    aggregate_type: &'static str,
    ids: &[String],
) -> Result<Vec<RecordedEvent>, TailError> {
    let name = |id: &String| StreamName { aggregate_type, aggregate_id: id.clone() };
    let names: Vec<StreamName> = ids.iter().map(name).collect();
    load_many(connection, &Upcasters::current(), &names).await
}

/// Compares the age of each signing secret. The secret itself is in no event: nobody without the
/// wrapping key can make one that is used.
async fn compare_secrets(
    connection: &mut PgConnection,
    tally: &LogTally,
) -> Result<i64, VerifyStop> {
    let mut after = None;
    let mut count = 0;
    loop {
        let rows = secrets::rotations_after(connection, after, ROWS_PER_READ).await?;
        for (firm_id, rotated_at) in &rows {
            let place = FlawLocation::Row { table: SECRETS, key: *firm_id };
            match tally.secrets.get(firm_id) {
                Some(said) if *said == Timestamp::from(*rotated_at) => count += 1,
                Some(_) => return broken_at(place, "it is not as old as the log says"),
                None => return broken_at(place, "it is there, and the log does not know its firm"),
            }
        }
        match rows.last() {
            Some((last, _)) => after = Some(*last),
            None => return Ok(count),
        }
    }
}
