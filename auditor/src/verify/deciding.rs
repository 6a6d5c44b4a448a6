//! Tables that decide and are in no chain. They change in the append of their event, so in one
//! snapshot each row must be what its stream says. A row without a stream lets somebody in whom the
//! log does not know.

use std::collections::HashMap;

use domain::time::Timestamp;
use eventstore::tail::TailError;
use eventstore::{RecordedEvent, StreamName, Upcasters, load_many};
use projector::StoredRow;
use projector::hooks::StoredHook;
use projector::keys::StoredKey;
use sqlx::PgConnection;
use vault::secrets;

use super::events::LogTally;
use super::{FlawLocation, VerifyStop, broken};

/// Rows in one read.
const ROWS_PER_READ: i64 = 500;

/// The counts of the compared rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComparedRows {
    /// Keys that are as the log says.
    pub keys: i64,
    /// Subscriptions that are as the log says.
    pub hooks: i64,
    /// Signing secrets that are as old as the log says.
    pub secrets: i64,
    /// Tables that this login may not read, so they are not compared.
    pub unreadable: Vec<&'static str>,
}

/// Compares keys, subscriptions and the ages of signing secrets with the log. `tally` is `None` if
/// the log has events that this build cannot read: they may make rows too.
pub(super) async fn compare(
    connection: &mut PgConnection,
    tally: Option<&LogTally>,
) -> Result<ComparedRows, VerifyStop> {
    let mut compared = ComparedRows::default();
    if may_read(connection, StoredKey::TABLE, StoredKey::COLUMN).await? {
        let known = tally.map(|tally| tally.keys);
        compared.keys = compare_table::<StoredKey>(connection, known).await?;
    } else {
        compared.unreadable.push(StoredKey::TABLE);
    }
    if may_read(connection, StoredHook::TABLE, StoredHook::COLUMN).await? {
        let known = tally.map(|tally| tally.hooks);
        compared.hooks = compare_table::<StoredHook>(connection, known).await?;
    } else {
        compared.unreadable.push(StoredHook::TABLE);
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

/// Compares each row with its stream, and the number of rows with that of the streams.
async fn compare_table<R: StoredRow>(
    connection: &mut PgConnection,
    known: Option<i64>,
) -> Result<i64, VerifyStop> {
    let mut after = None;
    let mut count = 0;
    loop {
        let rows = R::after(connection, after, ROWS_PER_READ).await?;
        let Some(last) = rows.last() else {
            break;
        };
        after = Some(last.key());
        count += i64::try_from(rows.len()).unwrap_or(i64::MAX);
        compare_rows(connection, &rows).await?;
    }
    if let Some(known) = known.filter(|known| *known != count) {
        let why = format!("it has {count} rows, and the log leads to {known}");
        return broken(FlawLocation::Table { name: R::TABLE }, why);
    }
    Ok(count)
}

async fn compare_rows<R: StoredRow>(
    connection: &mut PgConnection,
    rows: &[R],
) -> Result<(), VerifyStop> {
    let ids: Vec<String> = rows.iter().map(|row| row.key().to_string()).collect();
    let events = match streams(connection, R::AGGREGATE, &ids).await {
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
        let place = FlawLocation::Row { table: R::TABLE, key: row.key() };
        match streams.get(id.as_str()).and_then(|stream| R::of(stream)) {
            None => return broken(place, "it is there, and the log does not know it"),
            Some(expected) => {
                if let Some(column) = row.difference(&expected) {
                    return broken(place, format!("its {column} is not what the log says"));
                }
            }
        }
    }
    Ok(())
}

async fn streams(
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
                Some(_) => return broken(place, "it is not as old as the log says"),
                None => return broken(place, "it is there, and the log does not know its firm"),
            }
        }
        match rows.last() {
            Some((last, _)) => after = Some(*last),
            None => return Ok(count),
        }
    }
}
