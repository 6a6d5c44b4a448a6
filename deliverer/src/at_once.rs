//! Claims at once: what was just queued is claimed in the transaction that queues it, where its lane
//! has nothing else to do: it waits for no second commit, and its row is written once.
//!
//! The same locks and limits hold as for [`crate::claim`]: the lane's row, the host's advisory lock,
//! ruling 34. What does not go through at once is claimed later as anything else.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use domain::pressure::{Candidate, Room, choose};
use domain::time::Timestamp;
use domain::trigger::Trigger;
use sqlx::PgConnection;
use tokio::time::Instant;
use uuid::Uuid;
use vault::Subject;

use crate::claim::{Leased, Taken};
use crate::compose::{Ingredients, Wanted};
use crate::due;
use crate::fan_out::{Row, lane_ids};
use crate::settings::{Courier, DeliveryError};
use crate::withdrawn;

/// Who claims at once, and what there is room for.
#[derive(Clone, Copy)]
pub(crate) struct AtOnce<'a> {
    pub(crate) courier: &'a Courier,
    pub(crate) room: &'a Room,
    /// Whether to read what deliveries are composed from while they are queued: for nothing, where they
    /// cannot be claimed.
    pub(crate) ahead: bool,
    /// Whether what there is no room for may wait for it in the log.
    pub(crate) waits: bool,
    /// Whether all of it may.
    pub(crate) is_patient: bool,
}

/// What is queued now.
pub(crate) struct Fits {
    /// So many of the rows, in their order.
    pub(crate) rows: usize,
    /// What of the rows may be sent at once: that much is within a claim's memory.
    pub(crate) sent: HashSet<Uuid>,
}

/// What is read of deliveries before they are composed.
pub(crate) struct Read {
    ingredients: Ingredients,
    erased: HashSet<Subject>,
}

impl AtOnce<'_> {
    /// How many of these rows are queued now, and what of them is sent, as far as is known without a lock;
    /// none if there is room for nothing of them, and they may wait.
    pub(crate) async fn fits(
        self,
        connection: &mut PgConnection,
        rows: &[Row],
    ) -> Result<Option<Fits>, DeliveryError> {
        let now = self.courier.clock.now();
        let idle = idle(connection, &lane_ids(rows), now.get()).await?;
        let chosen = self.within_limits(connection, (rows, &idle), now).await?;
        let may_go = |row: &Row| may_be_claimed(&row.leased, &idle);
        if chosen.is_empty() && self.is_patient && rows.iter().any(may_go) {
            return Ok(None);
        }
        let chosen: HashSet<Uuid> = chosen.iter().map(|row| row.delivery_id).collect();
        let place = |row: &Row| Place {
            position: row.position,
            firm_id: row.leased.firm_id,
            lane_id: row.leased.lane_id,
            waits: may_go(row) && !chosen.contains(&row.leased.delivery_id),
        };
        let fits = fits(&rows.iter().map(place).collect::<Vec<_>>());
        Ok(Some(Fits { rows: fits, sent: chosen }))
    }

    /// What of these rows can be sent now, and was to be. The lanes are locked here, and nothing is written
    /// down.
    pub(crate) async fn choose(
        self,
        connection: &mut PgConnection,
        (rows, fits): (&[Row], &Fits),
        now: Timestamp,
    ) -> Result<Vec<Leased>, DeliveryError> {
        let idle = lock_idle(connection, &lane_ids(rows), now.get()).await?;
        let mut chosen = self.within_limits(connection, (rows, &idle), now).await?;
        chosen.retain(|row| fits.sent.contains(&row.delivery_id));
        Ok(chosen)
    }

    async fn within_limits(
        self,
        connection: &mut PgConnection,
        (rows, idle): (&[Row], &HashMap<Uuid, String>),
        now: Timestamp,
    ) -> Result<Vec<Leased>, DeliveryError> {
        let candidates: Vec<Candidate> =
            rows.iter().filter_map(|row| candidate(&row.leased, idle)).collect();
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let flight = due::flight(connection, now.get()).await?;
        let settings = &self.courier.settings;
        let chosen = choose(candidates, self.room, flight, settings.caps);
        let rows: HashMap<Uuid, &Leased> =
            rows.iter().map(|row| (row.leased.delivery_id, &row.leased)).collect();
        let chosen = chosen.iter().filter_map(|id| rows.get(id).copied().cloned()).collect();
        Ok(due::within_memory(connection, chosen, settings.claim_bytes).await?)
    }

    /// Reads what is composed of what may be sent, by a connection of its own.
    pub(crate) async fn read_ahead(
        self,
        (rows, fits): (&[Row], &Fits),
    ) -> Result<Read, DeliveryError> {
        let sent = rows.iter().map(|row| &row.leased);
        let wanted = Wanted::by(sent.filter(|row| fits.sent.contains(&row.delivery_id)));
        let connections = self.courier.store.connections();
        let mut connection = connections.take().await?;
        let read = self.read(&mut connection, &wanted).await?;
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
            None => self.read(connection, &Wanted::by(leased.iter())).await?,
        };
        leased.retain(|row| !erased.contains(&row.subject()));
        if leased.is_empty() {
            return Ok(None);
        }
        let composed = ingredients.compose((self.courier, connection), &leased, now).await?;
        Ok(Some(Taken { leased, composed, at: (now, Instant::now()) }))
    }
}

/// A row, by its occurrence, its firm and its lane.
struct Place {
    position: i64,
    firm_id: Uuid,
    lane_id: Uuid,
    /// Whether there is no room for it now.
    waits: bool,
}

/// How many of these are queued now, in their order: up to an occurrence one of whose deliveries waits for
/// room. The first occurrence waits for nothing, and what comes to the same lanes later waits there, or
/// whatever is the same firm's where nothing of that can go out: who is slow holds up nobody else.
fn fits(rows: &[Place]) -> usize {
    let mut occurrences = rows.chunk_by(|one, next| one.position == next.position);
    let first = occurrences.next().unwrap_or_default();
    let stuck = first.first().filter(|_| first.iter().all(|row| row.waits)).map(|row| row.firm_id);
    let held: HashSet<Uuid> = first.iter().filter(|row| row.waits).map(|row| row.lane_id).collect();
    let goes = |row: &Place| {
        !row.waits || held.contains(&row.lane_id) || stuck.is_some_and(|firm| firm == row.firm_id)
    };
    let rest = occurrences.take_while(|occurrence| occurrence.iter().all(goes));
    first.len() + rest.map(<[Place]>::len).sum::<usize>()
}

/// What tells of an unfinished response is not sent if somebody finished it meanwhile: a claim asks.
fn may_be_claimed(row: &Leased, idle: &HashMap<Uuid, String>) -> bool {
    row.trigger != Trigger::PartialSubmission.key() && idle.contains_key(&row.lane_id)
}

fn candidate(row: &Leased, idle: &HashMap<Uuid, String>) -> Option<Candidate> {
    let host = idle.get(&row.lane_id).filter(|_| may_be_claimed(row, idle))?;
    Some(row.candidate(host.clone()))
}

/// `$1` lanes, `$2` now.
macro_rules! idle {
    ($lock:literal, $host:literal) => {
        concat!(
            "with locked as materialized (
                 select lane_id, firm_id, host,
                        cancel_cause is null and paused_at is null
                            and (due_at is null or due_at > $2) as idle
                   from lanes where lane_id = any($1) ",
            $lock,
            ")
             select lane_id, host from locked
              where case when idle
                         and not exists (select from pauses where kind = 'all')
                         and firm_id not in (select firm_id from pauses where kind = 'firm')
                         and lane_id not in (select hook_id from pauses where kind = 'hook')
                         and host not in (select host from pauses where kind = 'host')
                    then ",
            $host,
            " else false end"
        )
    };
}

/// The hosts of those of these lanes that have nothing due and may be claimed from.
async fn idle(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<HashMap<Uuid, String>, sqlx::Error> {
    hosts(connection, idle!("", "true"), (lane_ids, now)).await
}

/// The same, once all of these lanes are locked, in the order of their ids; locks those hosts too, and leaves
/// out whose host another process has.
async fn lock_idle(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<HashMap<Uuid, String>, sqlx::Error> {
    const LOCKED: &str = idle!(
        "order by lane_id for update",
        "pg_try_advisory_xact_lock(hashtextextended(host, 34))"
    );
    hosts(connection, LOCKED, (lane_ids, now)).await
}

async fn hosts(
    connection: &mut PgConnection,
    statement: &'static str,
    (lane_ids, now): (&[Uuid], DateTime<Utc>),
) -> Result<HashMap<Uuid, String>, sqlx::Error> {
    let rows: Vec<(Uuid, String)> =
        sqlx::query_as(statement).bind(lane_ids).bind(now).fetch_all(connection).await?;
    Ok(rows.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these are queued now: words are occurrences, letters lanes, `a` to `m` those of one firm,
    /// and a capital waits.
    fn queued(words: &str) -> usize {
        let place = |letter: u8, position| Place {
            position,
            firm_id: Uuid::from_u128((letter.to_ascii_lowercase() > b'm').into()),
            lane_id: Uuid::from_u128(letter.to_ascii_lowercase().into()),
            waits: letter.is_ascii_uppercase(),
        };
        let places: Vec<Place> = words
            .split(' ')
            .zip(1..)
            .flat_map(|(word, position)| word.bytes().map(move |letter| place(letter, position)))
            .collect();
        fits(&places)
    }

    #[test]
    fn what_there_is_no_room_for_waits_from_its_occurrence_on() {
        assert_eq!(queued(""), 0);
        assert_eq!(queued("ab ab ab"), 6);
        assert_eq!(queued("ab ab Ab ab"), 4);
        assert_eq!(queued("ab b b A b"), 4);
    }

    #[test]
    fn a_lane_without_room_for_the_first_occurrence_waits_by_itself() {
        assert_eq!(queued("Ab Ab Ab"), 6);
        assert_eq!(queued("Ab Ab AB Ab"), 4);
    }

    #[test]
    fn a_firm_without_room_for_the_first_occurrence_waits_by_itself() {
        assert_eq!(queued("AB AB C z D"), 7);
        assert_eq!(queued("AB C z Z D"), 4);
    }
}
