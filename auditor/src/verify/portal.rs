//! Compares the open sessions of the portal with the log, which has the beginning of each.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use domain::access::portal::{SESSION_TIME, reading_id};
use domain::event::{Actor, Event};
use domain::operations::{ReadingEvent, ReadingSubject};
use eventstore::tail::TailError;
use eventstore::{RecordedEvent, Upcasters, load_first};
use projector::portal_sessions::{self, StoredPortalSession};
use sqlx::PgConnection;

use super::visited::{ROWS_PER_READ, VisitedRows};
use super::{FlawLocation, VerifyStop, broken_at};

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PortalComparison {
    /// Sessions that are as the log says.
    pub(super) sessions: i64,
    /// Why nothing can be said of a session.
    pub(super) undecided: Option<String>,
}

/// Compares each session with its beginning: the member, the firm and the end.
pub(super) async fn compare_sessions(
    connection: &mut PgConnection,
) -> Result<PortalComparison, VerifyStop> {
    let mut compared = PortalComparison::default();
    let condition = "cookie_sha256 is not null";
    let mut visited = VisitedRows { table: portal_sessions::TABLE, condition, count: 0 };
    let mut after = None;
    let now: DateTime<Utc> = sqlx::query_scalar("select now()").fetch_one(&mut *connection).await?;
    loop {
        let rows = portal_sessions::begun_after(connection, after, ROWS_PER_READ).await?;
        let Some(last) = rows.last() else {
            break;
        };
        after = Some(last.cookie_sha256);
        visited.count += i64::try_from(rows.len()).unwrap_or(i64::MAX);
        compare_rows(connection, &rows, now, &mut compared).await?;
    }
    visited.require_all(connection).await?;
    Ok(compared)
}

async fn compare_rows(
    connection: &mut PgConnection,
    rows: &[StoredPortalSession],
    now: DateTime<Utc>,
    compared: &mut PortalComparison,
) -> Result<(), VerifyStop> {
    let streams: Vec<String> =
        rows.iter().map(|row| reading_id(&row.cookie_sha256).to_string()).collect();
    let ids: Vec<&str> = streams.iter().map(String::as_str).collect();
    let events = match load_first(connection, &Upcasters::current(), "Reading", &ids).await {
        Ok(events) => events,
        Err(unreadable @ TailError::Unreadable { .. }) => {
            compared.undecided = Some(unreadable.to_string());
            return Ok(());
        }
        Err(TailError::Database(error)) => return Err(error.into()),
    };
    let events: HashMap<&str, &RecordedEvent> =
        events.iter().map(|event| (event.aggregate_id.as_str(), event)).collect();
    for (row, stream) in rows.iter().zip(ids) {
        let place = || FlawLocation::Row {
            table: portal_sessions::TABLE,
            key: reading_id(&row.cookie_sha256),
        };
        let Some(event) = events.get(stream) else {
            if row.ends_at > now + SESSION_TIME {
                return broken_at(place(), "it ends later than any session that was begun by now");
            }
            let StoredPortalSession { firm_id, member_id, ends_at, .. } = row;
            compared.undecided = Some(format!(
                "the log has no beginning of a portal session of member {member_id} of firm \
                 {firm_id}, until {ends_at}: a build before 0.3.0 began it, or somebody by hand; \
                 verify again when it has ended"
            ));
            continue;
        };
        if let Some(why) = describe_difference(row, event) {
            return broken_at(place(), why);
        }
        compared.sessions += 1;
    }
    Ok(())
}

fn describe_difference(row: &StoredPortalSession, event: &RecordedEvent) -> Option<&'static str> {
    let is_beginning = matches!(
        &event.event,
        Event::Reading(ReadingEvent::AuditRead(look)) if look.what == ReadingSubject::Portal
    );
    if !is_beginning || event.context.actor != Actor::Member(row.member_id) {
        Some("its member_id is not what the log says")
    } else if event.context.firm_id != row.firm_id {
        Some("its firm_id is not what the log says")
    } else if row.ends_at > event.context.recorded_at.get() + SESSION_TIME {
        Some("its ends_at is not what the log says")
    } else {
        None
    }
}
