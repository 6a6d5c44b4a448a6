//! Readiness is not an alarm (ruling 54).
//!
//! A process is ready while it can serve: the main database and the keyring answer with a schema
//! that it can use, and a full disk does not refuse every report. An alarm is a fault that an
//! operator must end while callers are served.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use domain::audit::{VerificationOutcome, is_signature_late};
use eventstore::disk::{self, DiskSpace};
use eventstore::{checkup, log_tail};
use projector::{signatures, verifications};
use serde::Serialize;
use sqlx::PgConnection;
use telemetry::metrics::DISK_FULL_REFUSALS;
use tokio::time::{Instant, timeout};

use crate::error::Error;
use crate::service::Service;

/// Longest wait for a database.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Longest wait for the alarms. The answer must come long before a proxy gives its check up.
const ALARMS_WITHIN: Duration = Duration::from_millis(500);

/// Longest look at the alarms. A server that is cut off would never answer it.
const ALARM_LOOK_MAX: Duration = Duration::from_secs(10);

/// A fault that takes no caller away. The texts are for everybody at the internal door, so they
/// name no firm, no host and no cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Alarm {
    /// The name of the check of `firmforms doctor` that has the details.
    name: &'static str,
    says: &'static str,
}

const LOG_TAIL: Alarm = Alarm {
    name: "log_tail",
    says: "the database lost the end of its log, and no operator has acknowledged it",
};

const VERIFICATION: Alarm =
    Alarm { name: "verification", says: "the last verification of the log found a flaw" };

const CHECKPOINTS: Alarm =
    Alarm { name: "checkpoints", says: "no checkpoint was signed for two hours" };

const CLOCK: Alarm = Alarm { name: "clock", says: "the time cannot be trusted: nothing is sent" };

const DISK: Alarm =
    Alarm { name: "disk", says: "a full disk refused a report within the last minute" };

const ALARMS: Alarm = Alarm { name: "alarms", says: "the alarms could not be read in time" };

const OTHER_PRIMARY: Alarm = Alarm {
    name: "primary",
    says: "two hosts accept writes: the writes on one of them will be lost",
};

/// Returns the alarms of a process that can serve.
///
/// # Errors
/// Why the process cannot serve.
pub(crate) async fn check_readiness(service: &Service) -> Result<Vec<Alarm>, Error> {
    let main = in_time("the main database", checkup::main_schema(&service.pools.health));
    let keyring = in_time("the keyring", async {
        vault::ask_keyring(&mut *service.pools.keyring_health.acquire().await?).await
    });
    let (main, keyring, alarms) = tokio::join!(main, keyring, alarms_in_time(service));
    let missing = main.map_err(Error::Unavailable)?.missing;
    if missing > 0 {
        return Err(Error::Unavailable(format!("the main database lacks {missing} migrations")));
    }
    keyring.map_err(Error::NoKeyring)?;
    if service.admission.refused_reports.are_last() {
        let space = in_time("a full disk", try_disks(service)).await;
        match space.map_err(Error::Unavailable)? {
            DiskSpace::Free => service.admission.refused_reports.note_room(),
            DiskSpace::Full => {
                DISK_FULL_REFUSALS.count(&[]);
                service.admission.refused_reports.note_refusal(Instant::now());
                return Err(Error::DiskFull);
            }
        }
    }
    Ok(alarms)
}

/// Returns the answer of a database, or why there is none in time.
async fn in_time<T>(
    database: &str,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, String> {
    match timeout(ANSWER_WITHIN, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{database}: {error}")),
        Err(late) => Err(format!("{database}: {late}")),
    }
}

/// Tries to write to both databases, as a report does.
async fn try_disks(service: &Service) -> Result<DiskSpace, sqlx::Error> {
    match disk::try_log_write(&mut *service.pools.health.acquire().await?).await? {
        DiskSpace::Free => {
            vault::try_keyring_write(&mut *service.pools.keyring_health.acquire().await?).await
        }
        DiskSpace::Full => Ok(DiskSpace::Full),
    }
}

/// Returns the alarms that are on, or that they could not be read in time. A late look goes on by
/// itself and the next one waits for it, so slow looks hold one connection together. A look that is
/// dropped would keep its connection from the pool, and the next would take another one.
async fn alarms_in_time(service: &Service) -> Vec<Alarm> {
    let service = service.clone();
    let look = async move {
        let turn = Arc::clone(&service.admission.alarm_turn).lock_owned().await;
        tokio::spawn(async move {
            let _turn = turn;
            timeout(ALARM_LOOK_MAX, raised_alarms(&service)).await.ok()?.ok()
        })
        .await
    };
    let read = timeout(ALARMS_WITHIN, look).await.ok().and_then(Result::ok).flatten();
    read.unwrap_or_else(|| vec![ALARMS])
}

/// Returns the alarms that are on.
async fn raised_alarms(service: &Service) -> Result<Vec<Alarm>, sqlx::Error> {
    let now = service.clock.now().get();
    let main = &mut *service.pools.health.acquire().await?;
    let states = [
        (LOG_TAIL, !log_tail::unacknowledged_losses(main).await?.is_empty()),
        (VERIFICATION, is_verification_broken(main).await?),
        (CHECKPOINTS, is_unsigned(main, now).await?),
        (CLOCK, service.clock.fault().is_some()),
        (OTHER_PRIMARY, has_other_primaries(service)),
        (DISK, service.admission.refused_reports.are_recent(Instant::now())),
    ];
    Ok(states.into_iter().filter_map(|(alarm, is_on)| is_on.then_some(alarm)).collect())
}

/// Returns whether another host of either database is a primary, too (ruling 55).
fn has_other_primaries(service: &Service) -> bool {
    let lives = [service.store.life(), service.keyring.life()];
    lives.into_iter().any(|life| !life.other_primaries().is_empty())
}

async fn is_verification_broken(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let ended = verifications::state(connection).await?.ended;
    Ok(ended.is_some_and(|ended| matches!(ended.outcome, VerificationOutcome::Broken(_))))
}

/// Returns whether a log has gone without a signature for too long. An empty log needs none.
async fn is_unsigned(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
) -> Result<bool, sqlx::Error> {
    let age = |at: DateTime<Utc>| (now - at).max(TimeDelta::zero()).to_std().unwrap_or_default();
    let signed_at = signatures::last(connection).await?.map(|last| last.at.get());
    let since = match signed_at {
        Some(at) => Some(at),
        None => checkup::log_began_at(connection).await?,
    };
    Ok(since.is_some_and(|at| is_signature_late(age(at))))
}
