//! Episodes of subscriptions: from the first failure to the next success or the removal (ruling
//! 49). The follower of deliveries takes each event once, in its transaction. So each notice is
//! raised once. The timer raises the notices that become due by the passing of time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use domain::access::KeyEvent;
use domain::delivery::{Attempt, DeliveryEvent};
use domain::event::Event;
use domain::firm::FirmEvent;
use domain::notice::episode::{EpisodeTurn, HookEpisode, Removal};
use domain::notice::{FIRM_CLOSED, NoticeAnswer, NoticeFacts, NoticeKind};
use domain::subscription::SubscriptionEvent;
use domain::values::Timestamp;
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{Clock, RecordedEvent, Store};
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::notices::{self, NewNotice};

/// Episodes of one step of the timer. It keeps a transaction well under 100 ms.
const EPISODES_PER_STEP: i64 = 500;

/// Takes these events. Their deliveries are in the read model.
pub(crate) async fn take_events(
    connection: &mut PgConnection,
    events: &[RecordedEvent],
) -> Result<(), sqlx::Error> {
    let hook_of = hooks_of(connection, events).await?;
    let turns: Vec<HookTurn<'_>> =
        events.iter().filter_map(|recorded| HookTurn::new(recorded, &hook_of)).collect();
    let mut raised: Vec<NewNotice> = events.iter().filter_map(notice_of).collect();
    let hook_ids: BTreeSet<Uuid> = turns.iter().map(|turn| turn.hook_id).collect();
    let known = lock_episodes(connection, &hook_ids.into_iter().collect::<Vec<_>>()).await?;
    let mut changed: BTreeMap<Uuid, KnownEpisode> = BTreeMap::new();
    for HookTurn { hook_id, firm_id, at, turn } in turns {
        let first = || known.get(&hook_id).cloned().unwrap_or(KnownEpisode::new(firm_id));
        let of = changed.entry(hook_id).or_insert_with(first);
        let facts = of.episode.take_turn(hook_id, turn);
        raised.extend(facts.map(|facts| NewNotice { firm_id, raised_at: at, facts }));
    }
    changed.retain(|hook_id, of| known.get(hook_id) != Some(of));
    changed.retain(|hook_id, of| known.contains_key(hook_id) || !of.episode.is_over());
    write_episodes(connection, &changed).await?;
    notices::raise(connection, &raised).await
}

/// The notice that an event leads to whatever happened before.
fn notice_of(recorded: &RecordedEvent) -> Option<NewNotice> {
    let (kind, reason) = match &recorded.event {
        Event::Key(KeyEvent::KeyRevoked { reason }) => (NoticeKind::KeyRevoked, reason.name()),
        Event::Firm(FirmEvent::FirmClosed { .. }) => (NoticeKind::Removed, FIRM_CLOSED),
        _ => return None,
    };
    let raised_at = recorded.context.recorded_at;
    let facts = NoticeFacts {
        kind,
        subject_id: recorded.aggregate_id.parse().ok()?,
        happened_at: raised_at,
        reason: Some(reason.to_owned()),
        failing_since: None,
        failures: 0,
        answers: Vec::new(),
    };
    Some(NewNotice { firm_id: recorded.context.firm_id, raised_at, facts })
}

/// A fact about a subscription.
struct HookTurn<'a> {
    hook_id: Uuid,
    firm_id: Uuid,
    at: Timestamp,
    turn: EpisodeTurn<'a>,
}

impl<'a> HookTurn<'a> {
    fn new(recorded: &'a RecordedEvent, hook_of: &HashMap<Uuid, Uuid>) -> Option<Self> {
        let id: Uuid = recorded.aggregate_id.parse().ok()?;
        let at = recorded.context.recorded_at;
        let (hook_id, turn) = match &recorded.event {
            Event::Delivery(DeliveryEvent::DeliveryAttempted(attempt)) => {
                let of_attempt = attempt.of.map(|of| of.hook_id);
                let hook_id = of_attempt.or_else(|| hook_of.get(&id).copied())?;
                (hook_id, EpisodeTurn::Attempted(id, attempt))
            }
            Event::Subscription(SubscriptionEvent::TargetGone(answer)) => {
                (id, EpisodeTurn::Gone(answer))
            }
            Event::Subscription(SubscriptionEvent::TargetAnswered { .. }) => {
                (id, EpisodeTurn::Answered(at))
            }
            Event::Subscription(SubscriptionEvent::SubscriptionRemoved { reason, evidence }) => {
                (id, EpisodeTurn::Removed(Removal { reason: *reason, evidence, at }))
            }
            _ => return None,
        };
        Some(Self { hook_id, firm_id: recorded.context.firm_id, at, turn })
    }
}

/// The subscriptions of deliveries whose attempts do not name one. A workflow step has none.
async fn hooks_of(
    connection: &mut PgConnection,
    events: &[RecordedEvent],
) -> Result<HashMap<Uuid, Uuid>, sqlx::Error> {
    let unnamed = |recorded: &RecordedEvent| match &recorded.event {
        Event::Delivery(DeliveryEvent::DeliveryAttempted(Attempt { of: None, .. })) => {
            recorded.aggregate_id.parse().ok()
        }
        _ => None,
    };
    let delivery_ids: BTreeSet<Uuid> = events.iter().filter_map(unnamed).collect();
    if delivery_ids.is_empty() {
        return Ok(HashMap::new());
    }
    // A delivery of a subscription has no run. The condition on its subscription would be answered
    // by a full read of another index, while a month is short.
    let rows: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "select delivery_id, hook_id from deliveries
          where delivery_id = any($1) and run_id is null",
    )
    .bind(delivery_ids.into_iter().collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().collect())
}

/// An episode, with the firm of its subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownEpisode {
    firm_id: Uuid,
    episode: HookEpisode,
}

impl KnownEpisode {
    fn new(firm_id: Uuid) -> Self {
        Self { firm_id, episode: HookEpisode::default() }
    }
}

/// A row of the table.
#[derive(FromRow)]
struct EpisodeRow {
    hook_id: Uuid,
    firm_id: Uuid,
    failing_since: Option<DateTime<Utc>>,
    failures: i64,
    last_answer: Option<Json<NoticeAnswer>>,
    is_warned: bool,
    is_failing: bool,
}

impl EpisodeRow {
    fn into_known(self) -> (Uuid, KnownEpisode) {
        let episode = HookEpisode {
            failing_since: self.failing_since.map(Timestamp::from),
            failures: self.failures,
            last: self.last_answer.map(|Json(answer)| answer),
            is_warned: self.is_warned,
            is_failing: self.is_failing,
        };
        (self.hook_id, KnownEpisode { firm_id: self.firm_id, episode })
    }
}

/// The episodes of these subscriptions, locked in the order of their ids.
async fn lock_episodes(
    connection: &mut PgConnection,
    hook_ids: &[Uuid],
) -> Result<BTreeMap<Uuid, KnownEpisode>, sqlx::Error> {
    if hook_ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<EpisodeRow> = sqlx::query_as(
        "select hook_id, firm_id, failing_since, failures, last_answer, is_warned, is_failing
           from hook_episodes where hook_id = any($1) order by hook_id for update",
    )
    .bind(hook_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(EpisodeRow::into_known).collect())
}

/// Writes these episodes. An episode that is over has no row.
async fn write_episodes(
    connection: &mut PgConnection,
    changed: &BTreeMap<Uuid, KnownEpisode>,
) -> Result<(), sqlx::Error> {
    if changed.is_empty() {
        return Ok(());
    }
    let over: Vec<Uuid> =
        changed.iter().filter(|(_, of)| of.episode.is_over()).map(|(id, _)| *id).collect();
    sqlx::query("delete from hook_episodes where hook_id = any($1)")
        .bind(over)
        .execute(&mut *connection)
        .await?;
    let open: Vec<(&Uuid, &KnownEpisode)> =
        changed.iter().filter(|(_, of)| !of.episode.is_over()).collect();
    let of = || open.iter().map(|(_, of)| &of.episode);
    let time = |at: Option<Timestamp>| at.map(Timestamp::get);
    sqlx::query(
        "insert into hook_episodes (hook_id, firm_id, failing_since, failures, last_answer,
                                    is_warned, is_failing, due_at)
         select * from unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::bigint[],
                              $5::jsonb[], $6::bool[], $7::bool[], $8::timestamptz[])
             on conflict (hook_id) do update
            set failing_since = excluded.failing_since, failures = excluded.failures,
                last_answer = excluded.last_answer, is_warned = excluded.is_warned,
                is_failing = excluded.is_failing, due_at = excluded.due_at",
    )
    .bind(open.iter().map(|(hook_id, _)| **hook_id).collect::<Vec<_>>())
    .bind(open.iter().map(|(_, of)| of.firm_id).collect::<Vec<_>>())
    .bind(of().map(|episode| time(episode.failing_since)).collect::<Vec<_>>())
    .bind(of().map(|episode| episode.failures).collect::<Vec<_>>())
    .bind(of().map(|episode| episode.last.as_ref().map(Json)).collect::<Vec<_>>())
    .bind(of().map(|episode| episode.is_warned).collect::<Vec<_>>())
    .bind(of().map(|episode| episode.is_failing).collect::<Vec<_>>())
    .bind(of().map(|episode| time(episode.due_at())).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// The worker that raises notices of subscriptions that have failed for a day.
pub struct EpisodeTimer {
    store: Store,
    clock: Clock,
}

impl EpisodeTimer {
    /// A timer of these episodes by this clock.
    #[must_use]
    pub const fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock }
    }
}

impl Worker for EpisodeTimer {
    const NAME: &'static str = "episodes";
    const WAKES: WakeOn = WakeOn::Timer;
    const FIRST_DUE: Option<&'static str> = Some("select min(due_at) from hook_episodes");
    type Error = sqlx::Error;

    async fn step(&mut self) -> Result<NextStep, sqlx::Error> {
        if self.clock.fault().is_some() {
            return Ok(NextStep::HELD_UP);
        }
        let now = self.clock.now();
        let mut transaction = self.store.pool().begin().await?;
        let mut due = take_due(&mut transaction, now.get()).await?;
        if due.is_empty() {
            transaction.rollback().await?;
            return Ok(NextStep::IDLE);
        }
        let mut raised = Vec::new();
        for (hook_id, of) in &mut due {
            let facts = of.episode.pass_time(*hook_id, now);
            let firm_id = of.firm_id;
            raised.extend(facts.map(|facts| NewNotice { firm_id, raised_at: now, facts }));
        }
        write_episodes(&mut transaction, &due).await?;
        notices::raise(&mut transaction, &raised).await?;
        transaction.commit().await?;
        Ok(NextStep::Busy)
    }
}

async fn take_due(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
) -> Result<BTreeMap<Uuid, KnownEpisode>, sqlx::Error> {
    let rows: Vec<EpisodeRow> = sqlx::query_as(
        "select hook_id, firm_id, failing_since, failures, last_answer, is_warned, is_failing
           from hook_episodes where due_at <= $1
          order by due_at limit $2 for update skip locked",
    )
    .bind(now)
    .bind(EPISODES_PER_STEP)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(EpisodeRow::into_known).collect())
}
