//! Lanes that new rows may be leased from.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use chrono::{DateTime, Utc};
use eventstore::{JoinedWrites, LifeNumber, RememberedRows};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::outbox::lanes::not_held;

/// A lane that rows may be leased from.
#[derive(Debug, Clone, FromRow)]
pub(super) struct OpenLane {
    lane_id: Uuid,
    pub(super) host: String,
    pub(super) target_url: String,
    /// The signing secret of the firm, as ciphertext.
    pub(super) secret: Option<Vec<u8>>,
}

/// Whether new rows of a firm come after its unspread occurrences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterUnspread {
    /// A lane whose firm has unspread occurrences is not open.
    Yes,
    /// The rows are of unspread occurrences themselves.
    No,
}

/// SQL: the open lanes among `$1` that have no due row at `$2`, locked. With `$3`, also none whose
/// firm has unspread occurrences, which come first for an append.
macro_rules! open_lanes_sql {
    ($lock:literal) => {
        concat!(
            "open as materialized (
                 select lane_id, firm_id, host from lanes
                  where lane_id = any($1) and cancel_cause is null and paused_at is null
                    and (due_at is null or due_at > $2) and parked_in is null
                    and ",
            not_held!(),
            "       and not ($3 and exists (select from unspread u
                                             where u.firm_id = lanes.firm_id)) ",
            $lock,
            ")"
        )
    };
}

/// SQL: the targets of the open lanes.
macro_rules! open_targets_sql {
    ($lock:literal) => {
        concat!(
            "with ",
            open_lanes_sql!($lock),
            " select open.lane_id, open.host, h.target_url, s.secret
                from open
                join hooks h on h.hook_id = open.lane_id
                left join webhook_secrets s on s.firm_id = open.firm_id"
        )
    };
}

/// Locks the open ones of these lanes, and returns them. Leaves lanes out that another transaction
/// has locked against this lock.
pub(super) async fn lock_open(
    connection: &mut PgConnection,
    lanes: BTreeSet<Uuid>,
    now: DateTime<Utc>,
    after: AfterUnspread,
) -> Result<HashMap<Uuid, OpenLane>, sqlx::Error> {
    let statement = open_targets_sql!("for key share skip locked");
    fetch_open(connection, statement, lanes, now, after).await
}

async fn fetch_open(
    connection: &mut PgConnection,
    statement: &'static str,
    lanes: BTreeSet<Uuid>,
    now: DateTime<Utc>,
    after: AfterUnspread,
) -> Result<HashMap<Uuid, OpenLane>, sqlx::Error> {
    if lanes.is_empty() {
        return Ok(HashMap::new());
    }
    let open: Vec<OpenLane> = sqlx::query_as(statement)
        .bind(lanes.into_iter().collect::<Vec<_>>())
        .bind(now)
        .bind(after == AfterUnspread::Yes)
        .fetch_all(connection)
        .await?;
    Ok(open.into_iter().map(|lane| (lane.lane_id, lane)).collect())
}

/// Lanes that this process has seen open. An append in one statement checks each of them.
#[derive(Debug, Default)]
pub struct KnownLanes(RememberedRows<Uuid, OpenLane>);

impl KnownLanes {
    /// Finds the open ones of these lanes. Trusts its memory if it knows all of them.
    pub(super) async fn find_open(
        &self,
        connection: &mut PgConnection,
        life: LifeNumber,
        lanes: BTreeSet<Uuid>,
        now: DateTime<Utc>,
    ) -> Result<HashMap<Uuid, OpenLane>, sqlx::Error> {
        let begun = Instant::now();
        if let Some(known) = self.0.get_all(life, begun, lanes.iter()) {
            return Ok(known);
        }
        let statement = open_targets_sql!("");
        let open = fetch_open(connection, statement, lanes, now, AfterUnspread::Yes).await?;
        self.0.remember(life, begun, open.iter().map(|(id, lane)| (*id, lane.clone())));
        Ok(open)
    }

    /// Forgets lanes that were not as this process remembered them.
    pub(crate) fn forget<'a>(&self, lanes: impl IntoIterator<Item = &'a Uuid>) {
        self.0.forget(lanes);
    }
}

/// Adds the lock of these lanes, and the condition that all are still open and sign with the same
/// secrets.
pub(super) fn require_open(writes: &mut JoinedWrites, lanes: &[&OpenLane], now: DateTime<Utc>) {
    if lanes.is_empty() {
        return;
    }
    writes
        .add(open_lanes_sql!("for key share skip locked"))
        .bind(lanes.iter().map(|lane| lane.lane_id).collect::<Vec<_>>())
        .bind(now)
        .bind(true);
    // No two firms have the same ciphertext.
    let secrets: BTreeSet<&[u8]> =
        lanes.iter().map(|lane| lane.secret.as_deref().unwrap_or_default()).collect();
    writes
        .require(
            "(select count(*) from open left join webhook_secrets s using (firm_id)
               where coalesce(s.secret, '') = any($2)) = $1",
        )
        .bind(i64::try_from(lanes.len()).unwrap_or(i64::MAX))
        .bind(secrets.into_iter().collect::<Vec<_>>());
}
