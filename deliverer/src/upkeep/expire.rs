//! The expire worker: records which responses expire (ruling 59, retention of answers). The eraser
//! then deletes their keys and rows.
//!
//! A response expires once nobody reported about it for so many days, and once nothing of it waits
//! to be sent or is kept for a replay. One event of a firm lists all responses of a step.

use chrono::{DateTime, NaiveDate, Utc};
use domain::activity::{ResponseEvent, kept_since, midnight};
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{AppendTransaction, LifeNumber, NewEvent, SweepTimer, checkpoint};
use projector::subjects::ExpiredAs;
use projector::{expiry, firms};
use sqlx::PgConnection;
use uuid::Uuid;
use vault::expiry::{OldResponse, OldResponsePlace, firms_with_old, old_responses};

use super::EraseWorker;
use crate::attempt::system_context;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// Responses of one step, so that its transaction stays well under 100 ms.
const RESPONSES_PER_STEP: usize = 1_000;

/// Firms that one step asks for old responses.
const FIRMS_PER_STEP: i64 = 100;

/// The worker. Several may sweep at once: each skips the responses that another has locked.
pub struct ExpireWorker {
    deliverer: DelivererContext,
    timer: SweepTimer,
    /// The day whose sweep has ended. Days decide, so one sweep a day is enough.
    swept_on: Option<NaiveDate>,
    place: ExpiryPlace,
    /// The last expiry, in this life of the server. The next one waits for the eraser, so that an
    /// erasure does not wait behind many expiries.
    last_expiry: Option<(LifeNumber, i64)>,
}

/// The place of a sweep.
#[derive(Debug, Default)]
struct ExpiryPlace {
    /// The last firm that was asked for old responses.
    after: Uuid,
    /// Firms that have old responses.
    firm_ids: Vec<Uuid>,
    /// The place in the responses of the last of them.
    responses: Option<OldResponsePlace>,
}

impl ExpireWorker {
    /// An expire worker of this vault. Its first step begins a sweep.
    #[must_use]
    pub fn new(deliverer: DelivererContext) -> Self {
        let place = ExpiryPlace::default();
        Self { deliverer, timer: SweepTimer::new(), swept_on: None, place, last_expiry: None }
    }
}

impl Worker for ExpireWorker {
    const NAME: &'static str = "expire";
    const WAKES: WakeOn = WakeOn::Timer;
    type Error = DeliveryError;

    async fn step(&mut self) -> Result<NextStep, DeliveryError> {
        let Some(days) = self.deliverer.settings.retention.responses_days else {
            return Ok(NextStep::IDLE);
        };
        let Some(now) = self.timer.now_if_due(&self.deliverer.clock) else {
            return Ok(NextStep::IDLE);
        };
        // An older build cannot read the event.
        let may_write = self.deliverer.keyring.new_formats().are_allowed();
        if !may_write || self.swept_on == Some(now.date_naive()) {
            return Ok(NextStep::IDLE);
        }
        let kept_since = kept_since(now, days);
        let Some(firm_id) = self.place.firm_ids.last().copied() else {
            return self.find_firms(kept_since, now).await;
        };
        if !self.is_erased_so_far().await? {
            return Ok(NextStep::HELD_UP);
        }
        let place = self.place.responses.unwrap_or(OldResponsePlace::START);
        self.place.responses = self.expire_next(firm_id, place, kept_since).await?;
        if self.place.responses.is_none() {
            self.place.firm_ids.pop();
        }
        Ok(NextStep::Busy)
    }
}

impl ExpireWorker {
    /// Finds the next firms with old responses, or ends the sweep.
    async fn find_firms(
        &mut self,
        kept_since: NaiveDate,
        now: DateTime<Utc>,
    ) -> Result<NextStep, DeliveryError> {
        let mut connection = self.deliverer.store.pool().acquire().await?;
        let asked = firms::firms_after(&mut connection, self.place.after, FIRMS_PER_STEP).await?;
        let Some(after) = asked.last().copied() else {
            self.place = ExpiryPlace::default();
            self.swept_on = Some(now.date_naive());
            self.timer.end_sweep(now);
            return Ok(NextStep::IDLE);
        };
        let firm_ids = firms_with_old(&mut connection, &asked, midnight(kept_since)).await?;
        self.place = ExpiryPlace { after, firm_ids, responses: None };
        Ok(NextStep::Busy)
    }

    async fn is_erased_so_far(&self) -> Result<bool, DeliveryError> {
        let mut connection = self.deliverer.store.pool().acquire().await?;
        let erased_to = checkpoint::position(&mut connection, EraseWorker::NAME).await?;
        let life = self.deliverer.store.life().life_number();
        // Another life of the server may have lost the expiry.
        let waits = |(of, position)| of == life && erased_to.unwrap_or_default() < position;
        Ok(!self.last_expiry.is_some_and(waits))
    }

    /// Lets the next old responses of a firm expire, and returns the place after them.
    async fn expire_next(
        &mut self,
        firm_id: Uuid,
        place: OldResponsePlace,
        kept_since: NaiveDate,
    ) -> Result<Option<OldResponsePlace>, DeliveryError> {
        let life = self.deliverer.store.life().life_number();
        let mut appending = self.deliverer.store.begin().await?;
        let limit = i64::try_from(RESPONSES_PER_STEP).unwrap_or(i64::MAX);
        let connection = appending.connection();
        let old = old_responses(connection, firm_id, place, midnight(kept_since), limit).await?;
        let ids: Vec<Uuid> = old.iter().map(|response| response.response_id).collect();
        let locked = expiry::lock_unreported(connection, firm_id, &ids, kept_since).await?;
        let unneeded = not_needed(connection, firm_id, &locked).await?;
        let expired: Vec<(Uuid, ExpiredAs)> = old
            .iter()
            .filter(|response| unneeded.contains(&response.response_id))
            .map(|response| (response.response_id, stood_as(response)))
            .collect();
        if !expired.is_empty() {
            let position =
                self.record_expired(&mut appending, firm_id, &expired, kept_since).await?;
            appending.commit().await?;
            self.last_expiry = Some((life, position));
        }
        Ok(place.after(&old, RESPONSES_PER_STEP))
    }

    async fn record_expired(
        &self,
        appending: &mut AppendTransaction<'_>,
        firm_id: Uuid,
        expired: &[(Uuid, ExpiredAs)],
        kept_since: NaiveDate,
    ) -> Result<i64, DeliveryError> {
        expiry::mark_expired(appending.connection(), firm_id, expired).await?;
        let response_ids = expired.iter().map(|(response_id, _)| *response_id).collect();
        let entropy = &self.deliverer.entropy;
        let context = system_context(firm_id, entropy.new_id(), self.deliverer.clock.now());
        let event = ResponseEvent::expired(kept_since, response_ids);
        let stream = entropy.new_id().to_string();
        let event = NewEvent::number_after(0, &stream, &context, [event]);
        let recorded = appending.append(event).await?;
        Ok(recorded.first().map_or(0, |recorded| recorded.position))
    }
}

/// The responses of a firm among these of which nothing is queued or due, and no body is kept.
/// There are none while occurrences of the firm wait for their deliveries.
async fn not_needed(
    connection: &mut PgConnection,
    firm_id: Uuid,
    response_ids: &[Uuid],
) -> Result<Vec<Uuid>, sqlx::Error> {
    if response_ids.is_empty() {
        return Ok(Vec::new());
    }
    // `offset 0` makes the planner look up each row.
    sqlx::query_scalar(
        "select response_id from unnest($2::uuid[]) as t(response_id)
          where response_id <> all(array(select response_id from outbox
                                          where firm_id = $1 and leased_at is not null))
            and not exists (select 1 from outbox o
                             where o.firm_id = $1 and o.response_id = t.response_id
                               and o.leased_at is null offset 0)
            and not exists (select 1 from unspread u where u.firm_id = $1)
            and not exists (select 1 from partials p
                             where p.firm_id = $1 and p.response_id = t.response_id offset 0)
            and not exists (select 1 from bodies b
                             where b.firm_id = $1 and b.response_id = t.response_id offset 0)",
    )
    .bind(firm_id)
    .bind(response_ids)
    .fetch_all(connection)
    .await
}

const fn stood_as(response: &OldResponse) -> ExpiredAs {
    match response.submitted_at {
        Some(_) => ExpiredAs::Submitted,
        None => ExpiredAs::Saved,
    }
}
