//! Metrics that the database answers, over one connection of the health pool. Each question is
//! bounded and has its own short transaction, so a failed one leaves the others intact.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use deliverer::inspect::backlog::{self, DeliveryCounts, LaneCounts};
use domain::audit::VerificationOutcome;
use domain::delivery::receiver::{FAILING_AFTER, FAILURES_MIN};
use eventstore::checkup::{self, HeldSnapshot};
use eventstore::log_tail;
use eventstore::outage;
use eventstore::presence::{self, ProcessGroup};
use eventstore::progress::{FollowerProgress, follower_progress};
use projector::table_sizes::TableSizeRow;
use projector::{
    backups, invites, notices, pauses, receivers, replays, signatures, table_sizes, verifications,
};
use sqlx::{Connection, Executor, PgConnection, PgPool};
use telemetry::metrics;

use crate::roles::known_table;

/// The longest wait of a scrape for the database.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(2);

/// The followers whose names are labels, and whether an old next event means delay. A seal waits
/// for a whole block, so its next event may be old without delay.
const FOLLOWERS: [(&str, bool); 4] =
    [("deliveries", true), ("audit_log", true), ("erase", true), ("seals", false)];

/// The outcome of all questions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScrapeAnswer {
    /// Whether the database answered at all.
    pub(super) up: bool,
    /// Whether it answered every question.
    pub(super) whole: bool,
}

/// The questions to the database.
#[derive(Debug, Clone, Copy)]
enum ScrapeQuestion {
    Pauses,
    Replays,
    Receivers,
    TableSizes,
    OpenInvites,
    OpenNotices,
    Progress,
    Proof,
    Senders,
    Snapshots,
    Lanes,
    Unspread,
    LostTails,
    Backlog,
}

/// All questions, the slowest last.
const QUESTIONS: [ScrapeQuestion; 14] = [
    ScrapeQuestion::Pauses,
    ScrapeQuestion::Replays,
    ScrapeQuestion::Receivers,
    ScrapeQuestion::TableSizes,
    ScrapeQuestion::OpenInvites,
    ScrapeQuestion::OpenNotices,
    ScrapeQuestion::Progress,
    ScrapeQuestion::Proof,
    ScrapeQuestion::Senders,
    ScrapeQuestion::Snapshots,
    ScrapeQuestion::Lanes,
    ScrapeQuestion::Unspread,
    ScrapeQuestion::LostTails,
    ScrapeQuestion::Backlog,
];

/// Returns whether a database answers within two seconds.
pub(super) async fn has_answer(pool: &PgPool) -> bool {
    let asked = async { pool.acquire().await?.ping().await };
    matches!(tokio::time::timeout(SCRAPE_TIMEOUT, asked).await, Ok(Ok(())))
}

/// Asks all questions within two seconds and sets their metrics. A failed question leaves the
/// others intact.
pub(super) async fn ask_all(pool: &PgPool, at: DateTime<Utc>) -> ScrapeAnswer {
    let mut answer = ScrapeAnswer::default();
    match tokio::time::timeout(SCRAPE_TIMEOUT, ask_each(pool, at, &mut answer)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            if !outage::explains(&error) {
                tracing::warn!(%error, "the database gave no metrics");
            }
            answer = ScrapeAnswer::default();
        }
        Err(late) => {
            tracing::warn!(error = %late, "the database gave only some metrics in time");
            answer.whole = false;
        }
    }
    answer
}

async fn ask_each(
    pool: &PgPool,
    at: DateTime<Utc>,
    answer: &mut ScrapeAnswer,
) -> Result<(), sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let mut whole = true;
    for question in QUESTIONS {
        match question.ask_in_time(&mut connection, at).await {
            Ok(()) => {}
            Err(error @ sqlx::Error::Database(_)) => {
                tracing::warn!(?question, %error, "the database refused the question behind a metric");
                whole = false;
            }
            Err(error) => return Err(error),
        }
        answer.up = true;
    }
    answer.whole = whole;
    Ok(())
}

impl ScrapeQuestion {
    async fn ask_in_time(
        self,
        connection: &mut PgConnection,
        at: DateTime<Utc>,
    ) -> Result<(), sqlx::Error> {
        let mut transaction = connection.begin().await?;
        // The server itself cancels statements that no scrape waits for any more.
        let bounds = "set local statement_timeout = '1500ms'; set local lock_timeout = '200ms'";
        transaction.execute(bounds).await?;
        self.set_metrics(&mut transaction, at).await?;
        transaction.rollback().await
    }

    async fn set_metrics(
        self,
        connection: &mut PgConnection,
        at: DateTime<Utc>,
    ) -> Result<(), sqlx::Error> {
        match self {
            Self::Pauses => metrics::PAUSES.set_count(&[], pauses::count(connection).await?),
            Self::Replays => {
                let (running, paused) = replays::count_open(connection).await?;
                metrics::REPLAYS.set_count(&[("state", "running")], running);
                metrics::REPLAYS.set_count(&[("state", "paused")], paused);
            }
            Self::Receivers => {
                let failing =
                    receivers::count_failing(connection, at - FAILING_AFTER, FAILURES_MIN);
                metrics::FAILING_RECEIVERS.set_count(&[], failing.await?);
            }
            Self::TableSizes => {
                table_sizes::present_sizes(connection).await?.iter().for_each(tell_size);
            }
            Self::OpenInvites => {
                metrics::OPEN_INVITES.set_count(&[], invites::under_way(connection).await?);
            }
            Self::OpenNotices => {
                let open = notices::backlog(connection).await?;
                metrics::OPEN_NOTICES.set_count(&[("channel", "mail")], open.mails);
                metrics::OPEN_NOTICES.set_count(&[("channel", "operator")], open.posts);
            }
            Self::Progress => {
                follower_progress(connection).await?.iter().for_each(|of| tell_progress(of, at));
            }
            Self::Proof => tell_proof(connection, at).await?,
            Self::Senders => {
                metrics::SENDERS.set_count(
                    &[],
                    presence::count_members(connection, ProcessGroup::Sending).await?,
                );
            }
            Self::Snapshots => tell_snapshot(checkup::oldest_snapshot(connection).await?),
            Self::Unspread => {
                metrics::UNSPREAD.set_count(&[], backlog::count_unspread(connection).await?);
            }
            Self::LostTails => {
                let lost = log_tail::unacknowledged_losses(connection).await?;
                metrics::LOST_TAILS.set(&[], lost.len() as f64);
            }
            Self::Lanes => tell_lanes(backlog::count_lanes(connection, at).await?, at),
            Self::Backlog => tell_backlog(backlog::count_deliveries(connection, at).await?),
        }
        Ok(())
    }
}

async fn tell_proof(connection: &mut PgConnection, at: DateTime<Utc>) -> Result<(), sqlx::Error> {
    let signed_at = signatures::last(connection).await?.map(|last| last.at.get());
    metrics::SIGNATURE_AGE.set(&[], seconds_since(signed_at, at));
    let taken_at = backups::last(connection).await?.map(|last| last.taken_at);
    metrics::BACKUP_AGE.set(&[], seconds_since(taken_at, at));
    let ended = verifications::state(connection).await?.ended;
    metrics::VERIFICATION_AGE
        .set(&[], seconds_since(ended.as_ref().map(|ended| ended.at.get()), at));
    metrics::VERIFIED_POSITION.set_count(&[], ended.as_ref().map_or(0, |ended| ended.position));
    let outcome = ended.map(|ended| ended.outcome);
    let is_broken = matches!(outcome, Some(VerificationOutcome::Broken(_)));
    metrics::VERIFICATION_BROKEN.set(&[], f64::from(u8::from(is_broken)));
    Ok(())
}

/// Tells the size of a table that this build knows.
fn tell_size(table: &TableSizeRow) {
    if let Some(name) = known_table(&table.table_name) {
        metrics::TABLE_BYTES.set(&[("table", name)], table.bytes as f64);
    }
}

fn tell_snapshot(oldest: Option<HeldSnapshot>) {
    let age = oldest.as_ref().and_then(|held| held.held_for).unwrap_or_default();
    metrics::SNAPSHOT_AGE.set(&[], age.as_secs_f64());
    metrics::SNAPSHOT_TRANSACTIONS.set_count(&[], oldest.map_or(0, |held| held.transactions));
}

fn tell_backlog(DeliveryCounts { due, waiting, in_flight }: DeliveryCounts) {
    for (state, count) in [("due", due), ("waiting", waiting), ("in_flight", in_flight)] {
        metrics::BACKLOG.set_count(&[("state", state)], count);
    }
}

fn tell_lanes(lanes: LaneCounts, at: DateTime<Utc>) {
    let LaneCounts { due, waiting, paused, closing, oldest_due_at } = lanes;
    let lanes = [("due", due), ("waiting", waiting), ("paused", paused), ("closing", closing)];
    for (state, count) in lanes {
        metrics::LANES.set_count(&[("state", state)], count);
    }
    metrics::BACKLOG_AGE.set(&[], seconds_since(oldest_due_at, at));
}

fn tell_progress(of: &FollowerProgress, at: DateTime<Utc>) {
    let Some((name, timely)) = FOLLOWERS.into_iter().find(|(name, _)| *name == of.name) else {
        return;
    };
    metrics::FOLLOWER_POSITIONS.set_count(&[("follower", name)], of.behind);
    if timely {
        metrics::FOLLOWER_SECONDS.set(&[("follower", name)], seconds_since(of.next_at, at));
    }
}

/// Seconds since an instant. 0 without one.
fn seconds_since(then: Option<DateTime<Utc>>, at: DateTime<Utc>) -> f64 {
    then.map_or(0.0, |then| in_seconds(at - then).max(0.0))
}

pub(super) fn in_seconds(time: TimeDelta) -> f64 {
    time.as_seconds_f64()
}
