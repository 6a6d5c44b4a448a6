//! Claims at once: what was just queued is claimed in the transaction that queues it, where its lane
//! has nothing else to do: it waits for no second commit, and its row is written once.
//!
//! The same locks and limits hold as for [`crate::claim`]: the lane's row, the host's advisory lock,
//! ruling 34. What does not go through at once is claimed later as anything else.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::pressure::{Candidate, choose};
use domain::time::Timestamp;
use domain::trigger::Trigger;
use sqlx::{FromRow, PgConnection};
use tokio::time::Instant;
use uuid::Uuid;
use vault::Subject;

use crate::claim::{Leased, Taken};
use crate::compose::{self, Ingredients, Kept, Wanted};
use crate::dispatch::Turn;
use crate::due::{self, Claims, not_held};
use crate::fan_out::{Row, lane_ids};
use crate::settings::{Courier, DeliveryError};
use crate::withdrawn;

/// What has been due in a lane for longer is not about to be claimed: nothing waits in the log for that.
const ABOUT_TO_BE_CLAIMED: Duration = Duration::from_millis(250);

/// Who claims at once, and in whose turn.
#[derive(Clone, Copy)]
pub(crate) struct AtOnce<'a> {
    pub(crate) courier: &'a Courier,
    pub(crate) turn: &'a Turn<'a>,
    /// Whether to read what deliveries are composed from while they are matched and queued: for nothing, where
    /// they cannot be claimed.
    pub(crate) ahead: bool,
    /// What may wait in the log where there is no room for it.
    pub(crate) may_wait: Waits,
    /// Whether to look what there is room for, however little is queued.
    pub(crate) looks: bool,
}

/// What of the log may wait there for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Nothing: all is queued.
    Nothing,
    /// What comes after the first occurrence.
    ButFirst,
    /// All of it.
    All,
}

/// What is queued now.
pub(crate) struct Fits {
    /// So many of the rows, in their order.
    pub(crate) rows: usize,
    /// What of the rows may be sent at once, where that was looked at: that much is within a claim's memory.
    sent: Option<HashSet<Uuid>>,
}

impl Fits {
    /// All of so many rows, without a look.
    pub(crate) const fn all(rows: usize) -> Self {
        Self { rows, sent: None }
    }

    /// Whether this delivery may be sent at once, as far as is known.
    pub(crate) fn may_send(&self, delivery_id: Uuid) -> bool {
        self.sent.as_ref().is_none_or(|sent| sent.contains(&delivery_id))
    }
}

/// What is read of deliveries before they are composed.
pub(crate) struct Read {
    ingredients: Ingredients,
    erased: HashSet<Subject>,
}

impl AtOnce<'_> {
    /// How many of these rows are queued now, and what of them is sent, as far as is known without a lock.
    pub(crate) async fn fits(
        self,
        connection: &mut PgConnection,
        rows: &[Row],
    ) -> Result<Fits, DeliveryError> {
        let now = self.courier.clock.now();
        let open = open(connection, &lane_ids(rows), now.get()).await?;
        let idle = open.iter().filter(|(_, lane)| lane.is_idle);
        let idle = idle.map(|(lane_id, lane)| (*lane_id, lane.host.clone())).collect();
        let chosen = self.within_limits(connection, (rows, &idle), now).await?;
        let chosen = self.within_memory(connection, chosen).await?;
        let chosen: HashSet<Uuid> = chosen.iter().map(|row| row.delivery_id).collect();
        let waits = |row: &Row| {
            may_be_claimed(&row.leased)
                && open.contains_key(&row.leased.lane_id)
                && !chosen.contains(&row.leased.delivery_id)
        };
        let places: Vec<Place> = rows
            .iter()
            .map(|row| Place {
                position: row.position,
                firm_id: row.leased.firm_id,
                waits: waits(row),
            })
            .collect();
        let fits = match self.may_wait {
            Waits::Nothing => rows.len(),
            Waits::ButFirst => fits(&places, false),
            Waits::All => fits(&places, true),
        };
        Ok(Fits { rows: fits, sent: Some(chosen) })
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
        chosen.retain(|row| fits.may_send(row.delivery_id));
        if fits.sent.is_some() { Ok(chosen) } else { self.within_memory(connection, chosen).await }
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
        let (turn, caps) = (self.turn, self.courier.settings.caps);
        let firm_ids: HashSet<Uuid> = candidates.iter().map(|one| one.firm_id).collect();
        let firm_ids: Vec<Uuid> = firm_ids.into_iter().collect();
        let whose = (Some(turn.out()), firm_ids.as_slice());
        let Claims { mut flight, shared } = due::claims(connection, now.get(), whose, caps).await?;
        flight.ahead = turn.ahead(&candidates, &shared);
        let chosen = choose(candidates, &turn.room(), flight, caps);
        let rows: HashMap<Uuid, &Leased> =
            rows.iter().map(|row| (row.leased.delivery_id, &row.leased)).collect();
        Ok(chosen.iter().filter_map(|id| rows.get(id).copied().cloned()).collect())
    }

    async fn within_memory(
        self,
        connection: &mut PgConnection,
        chosen: Vec<Leased>,
    ) -> Result<Vec<Leased>, DeliveryError> {
        let most = self.courier.settings.claim_bytes;
        Ok(due::within_memory(connection, chosen, most).await?)
    }

    /// Reads what is composed of what may be sent, by two connections of its own.
    pub(crate) async fn read_ahead(self, wanted: &Wanted) -> Result<Read, DeliveryError> {
        let connections = self.courier.store.connections();
        let (mut one, mut other) = tokio::try_join!(connections.take(), connections.take())?;
        let forms_and_erased = async {
            let forms = compose::forms(&mut other, wanted).await?;
            Ok((forms, erased(&mut other, wanted).await?))
        };
        let kept = Kept::read(self.courier, &mut one, wanted);
        let (kept, (forms, erased)) = tokio::try_join!(kept, forms_and_erased)?;
        connections.give_back(one);
        connections.give_back(other);
        Ok(Read { ingredients: Ingredients { kept, forms }, erased })
    }

    async fn read(
        self,
        connection: &mut PgConnection,
        wanted: &Wanted,
    ) -> Result<Read, DeliveryError> {
        let ingredients = Ingredients::read(self.courier, connection, wanted).await?;
        Ok(Read { ingredients, erased: erased(connection, wanted).await? })
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

/// Those of the responses that were erased.
async fn erased(
    connection: &mut PgConnection,
    wanted: &Wanted,
) -> Result<HashSet<Subject>, sqlx::Error> {
    withdrawn::erased_of(connection, wanted.subjects.iter().copied()).await
}

/// A row, by its occurrence and its firm.
struct Place {
    position: i64,
    firm_id: Uuid,
    /// Whether there is no room for it now.
    waits: bool,
}

/// How many of these are queued now, in their order: up to the first occurrence one of whose deliveries
/// waits for room, but for whatever somebody else's comes after: nobody waits for another firm's receivers.
/// The first occurrence may have waited long enough.
fn fits(rows: &[Place], first_waits: bool) -> usize {
    let Some(last) = rows.last() else { return 0 };
    let others = rows.iter().rposition(|row| row.firm_id != last.firm_id).map_or(0, |at| at + 1);
    let first = rows.iter().take_while(|row| !first_waits && row.position == rows[0].position);
    let go = others.max(first.count());
    let rest = rows[go..].chunk_by(|one, next| one.position == next.position);
    let rest = rest.take_while(|occurrence| !occurrence.iter().any(|row| row.waits));
    go + rest.map(<[Place]>::len).sum::<usize>()
}

/// What tells of an unfinished response is not sent if somebody finished it meanwhile: a claim asks.
fn may_be_claimed(row: &Leased) -> bool {
    row.trigger != Trigger::PartialSubmission.key()
}

fn candidate(row: &Leased, idle: &HashMap<Uuid, String>) -> Option<Candidate> {
    let host = idle.get(&row.lane_id).filter(|_| may_be_claimed(row))?;
    Some(row.candidate(host.clone()))
}

/// Those of the lanes `$1` that may be claimed from, with nothing that has been due since `$2`.
macro_rules! open {
    ($lock:literal, $host:literal) => {
        concat!(
            "with looked_at as materialized (
                 select lane_id, firm_id, host, due_at,
                        cancel_cause is null and paused_at is null
                            and (due_at is null or due_at > $2) as open
                   from lanes where lane_id = any($1) ",
            $lock,
            ")
             select lane_id, host, due_at from looked_at
              where case when open and ",
            not_held!(),
            "then ",
            $host,
            " else false end"
        )
    };
}

/// A lane that may be claimed from.
struct Open {
    host: String,
    /// Whether nothing in it is due.
    is_idle: bool,
}

#[derive(FromRow)]
struct OpenRow {
    lane_id: Uuid,
    host: String,
    due_at: Option<DateTime<Utc>>,
}

/// Those of these lanes that may be claimed from, and that have let nothing wait for long.
async fn open(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<HashMap<Uuid, Open>, sqlx::Error> {
    let rows: Vec<OpenRow> = sqlx::query_as(open!("", "true"))
        .bind(lane_ids)
        .bind(now - ABOUT_TO_BE_CLAIMED)
        .fetch_all(connection)
        .await?;
    let open = |row: OpenRow| {
        let is_idle = row.due_at.is_none_or(|due_at| due_at > now);
        (row.lane_id, Open { host: row.host, is_idle })
    };
    Ok(rows.into_iter().map(open).collect())
}

/// The hosts of those of these lanes that may be claimed from and have nothing due, once all of these lanes
/// are locked, in the order of their ids; locks those hosts too, and leaves out whose host another process
/// has.
async fn lock_idle(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<HashMap<Uuid, String>, sqlx::Error> {
    let rows: Vec<OpenRow> = sqlx::query_as(open!(
        "order by lane_id for update",
        "pg_try_advisory_xact_lock(hashtextextended(host, 34))"
    ))
    .bind(lane_ids)
    .bind(now)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.lane_id, row.host)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these are queued now: words are occurrences, letters lanes, `a` to `m` those of one firm,
    /// and a capital waits.
    fn queued(words: &str) -> usize {
        fits(&places(words), true)
    }

    fn places(words: &str) -> Vec<Place> {
        let place = |letter: u8, position| Place {
            position,
            firm_id: Uuid::from_u128((letter.to_ascii_lowercase() > b'm').into()),
            waits: letter.is_ascii_uppercase(),
        };
        words
            .split(' ')
            .zip(1..)
            .flat_map(|(word, position)| word.bytes().map(move |letter| place(letter, position)))
            .collect()
    }

    #[test]
    fn what_there_is_no_room_for_waits_from_its_occurrence_on() {
        assert_eq!(queued(""), 0);
        assert_eq!(queued("ab ab ab"), 6);
        assert_eq!(queued("ab ab Ab ab"), 4);
        assert_eq!(queued("ab b b A b"), 4);
        assert_eq!(queued("Ab ab"), 0);
    }

    #[test]
    fn an_occurrence_that_has_waited_for_long_waits_no_longer() {
        assert_eq!(fits(&places("Ab Ab ab"), false), 2);
        assert_eq!(fits(&places("Ab ab Ab"), false), 4);
        assert_eq!(fits(&[], false), 0);
    }

    #[test]
    fn nobody_waits_for_another_firm() {
        assert_eq!(queued("AB AB z AB ab"), 5);
        assert_eq!(queued("Z ab ab Ab"), 5);
        assert_eq!(queued("AB Z"), 2);
    }
}
