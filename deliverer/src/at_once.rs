//! Claims at once: what was just queued is claimed in the transaction that queues it, where its lane
//! has nothing else to do. An event that comes alone waits for no second commit; where many come, a
//! claim takes more at a time.
//!
//! The same locks and limits hold as for [`crate::claim`]: the lane's row, the host's advisory lock,
//! ruling 34. What does not go through at once is claimed later as anything else.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use domain::pressure::{Candidate, Room, always_within, choose};
use domain::time::Timestamp;
use domain::trigger::Trigger;
use sqlx::PgConnection;
use tokio::time::Instant;
use uuid::Uuid;
use vault::Subject;

use crate::claim::{Leased, Taken};
use crate::compose::{Ingredients, Wanted};
use crate::due;
use crate::settings::{Courier, DeliveryError};
use crate::withdrawn;

/// A lane with as many in flight is busy.
const BUSY: i32 = 8;

/// Who claims at once, and what there is room for.
#[derive(Clone, Copy)]
pub(crate) struct AtOnce<'a> {
    pub(crate) courier: &'a Courier,
    pub(crate) room: &'a Room,
    /// Whether to read what deliveries are composed from while they are queued: for nothing, where they
    /// cannot be claimed.
    pub(crate) ahead: bool,
}

/// What is read of deliveries before they are composed.
pub(crate) struct Read {
    ingredients: Ingredients,
    erased: HashSet<Subject>,
}

impl AtOnce<'_> {
    /// So many may be claimed at once: they fit a claim's memory, whatever their size is.
    const fn most(self) -> usize {
        always_within(self.courier.settings.claim_bytes)
    }

    /// What can be sent now of what is queued, in its order. The lanes are locked here, and nothing is
    /// written down.
    pub(crate) async fn choose(
        self,
        connection: &mut PgConnection,
        queued: Vec<Leased>,
        now: Timestamp,
    ) -> Result<Vec<Leased>, DeliveryError> {
        let lane_ids: Vec<Uuid> = queued.iter().map(|row| row.lane_id).collect();
        let hosts = lock_idle(connection, &lane_ids, now.get()).await?;
        let candidates: Vec<Candidate> =
            queued.iter().filter_map(|row| candidate(row, &hosts)).collect();
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let flight = due::flight(connection, now.get()).await?;
        let mut chosen = choose(candidates, self.room, flight, self.courier.settings.caps);
        chosen.truncate(self.most());
        let chosen: HashSet<Uuid> = chosen.into_iter().collect();
        let mut leased = queued;
        leased.retain(|row| chosen.contains(&row.delivery_id));
        Ok(leased)
    }

    /// Reads ahead, by a connection of its own.
    pub(crate) async fn read_ahead(self, wanted: &Wanted) -> Result<Read, DeliveryError> {
        let connections = self.courier.store.connections();
        let mut connection = connections.take().await?;
        let read = self.read(&mut connection, wanted).await?;
        connections.give_back(connection);
        Ok(read)
    }

    async fn read(
        self,
        connection: &mut PgConnection,
        wanted: &Wanted,
    ) -> Result<Read, DeliveryError> {
        let ingredients = Ingredients::read(self.courier, connection, wanted).await?;
        let subjects = wanted.subjects.iter().copied();
        let erased = withdrawn::erased_of(connection, subjects).await?;
        Ok(Read { ingredients, erased })
    }

    /// Composes what was chosen, from what was read before, if it was.
    pub(crate) async fn take(
        self,
        connection: &mut PgConnection,
        (mut leased, read): (Vec<Leased>, Option<Read>),
        now: Timestamp,
    ) -> Result<Option<Taken>, DeliveryError> {
        if leased.is_empty() {
            return Ok(None);
        }
        let Read { ingredients, erased } = match read {
            Some(read) => read,
            None => self.read(connection, &Wanted::by(&leased)).await?,
        };
        leased.retain(|row| !erased.contains(&row.subject()));
        if leased.is_empty() {
            return Ok(None);
        }
        let composed = ingredients.compose((self.courier, connection), &leased, now).await?;
        Ok(Some(Taken { leased, composed, at: (now, Instant::now()) }))
    }
}

/// What tells of an unfinished response is not sent if somebody finished it meanwhile: a claim asks.
fn candidate(row: &Leased, hosts: &HashMap<Uuid, String>) -> Option<Candidate> {
    if row.trigger == Trigger::PartialSubmission.key() {
        return None;
    }
    Some(Candidate {
        delivery_id: row.delivery_id,
        lane_id: row.lane_id,
        firm_id: row.firm_id,
        host: hosts.get(&row.lane_id)?.clone(),
    })
}

/// Locks all of these lanes, in the order of their ids; answers the hosts of those that have nothing due
/// and little in flight, and may be claimed from, and locks those hosts too.
async fn lock_idle(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<HashMap<Uuid, String>, sqlx::Error> {
    let rows: Vec<(Uuid, String)> = sqlx::query_as(
        "with locked as materialized (
             select lane_id, firm_id, host,
                    cancel_cause is null and paused_at is null
                        and (due_at is null or due_at > $2) and running < $3 as idle
               from lanes where lane_id = any($1) order by lane_id for update)
         select lane_id, host from locked
          where case when idle
                     and not exists (select from pauses where kind = 'all')
                     and firm_id not in (select firm_id from pauses where kind = 'firm')
                     and lane_id not in (select hook_id from pauses where kind = 'hook')
                     and host not in (select host from pauses where kind = 'host')
                then pg_try_advisory_xact_lock(hashtextextended(host, 34)) else false end",
    )
    .bind(lane_ids)
    .bind(now)
    .bind(BUSY)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().collect())
}
