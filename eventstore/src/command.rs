//! This module runs a command on one stream: load, decide, append. A command that loses a race to
//! another append is decided again.

use std::time::Duration;

use cqrs_es::persist::PersistedEventStore;
use cqrs_es::{Aggregate, AggregateError, CqrsFramework};
use domain::event::EventContext;
use uuid::Uuid;

use crate::error::AppendError;
use crate::repository::StoreRepository;
use crate::store::Store;

/// The number of attempts before a command gives up. With these pauses a dozen racers on one stream
/// all succeed. A command that gives up has waited for less than half a second.
const COMMAND_TRIES_MAX: u32 = 6;

/// The upper bound of the first pause. Each later bound is twice as long, so all pauses together
/// are at most 496 ms.
const FIRST_BACKOFF_MAX: Duration = Duration::from_millis(16);

/// The reason why a command did not happen.
#[derive(Debug, thiserror::Error)]
pub enum CommandError<R: std::error::Error> {
    /// A rule refused the command.
    #[error(transparent)]
    Rejected(R),
    /// The store did not append the events.
    #[error(transparent)]
    Append(#[from] AppendError),
}

impl Store {
    /// Runs a command on a stream: load, decide, append. A command that loses a race is decided
    /// again.
    ///
    /// # Errors
    /// [`CommandError`]: the rule's refusal, or the error of the store.
    pub async fn execute<A>(
        &self,
        aggregate_id: &str,
        command: A::Command,
        context: &EventContext,
    ) -> Result<(), CommandError<A::Error>>
    where
        A: Aggregate<Services = ()> + 'static,
        A::Command: Clone + Send,
    {
        let repository = StoreRepository::new(self.clone());
        let events = PersistedEventStore::<StoreRepository, A>::new_event_store(repository)
            .with_upcasters(self.upcasters().into_list());
        let framework = CqrsFramework::new(events, Vec::new(), ());
        let attempt = async || {
            framework
                .execute_with_metadata(aggregate_id, command.clone(), context.to_map())
                .await
                .map_err(command_error)
        };
        retry_conflicts(context.correlation_id, attempt).await
    }
}

/// Repeats an append of several streams that lost a race, up to six attempts in all. The seed must
/// be the call's own, for example its correlation id. Callers with one seed would pause alike and
/// collide again.
///
/// # Errors
/// The error of the last attempt.
pub async fn retry_conflicts<T, E, F>(seed: Uuid, mut attempt: impl FnMut() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    E: AsConflict,
{
    let mut tries = 1;
    loop {
        match attempt().await {
            Err(error) if error.is_conflict() && tries < COMMAND_TRIES_MAX => {
                tokio::time::sleep(backoff_pause(tries, seed)).await;
                tries += 1;
            }
            done => return done,
        }
    }
}

/// An error that a lost race can cause.
pub trait AsConflict {
    /// Returns whether a new decision may succeed.
    fn is_conflict(&self) -> bool;
}

impl AsConflict for AppendError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict)
    }
}

impl<R: std::error::Error> AsConflict for CommandError<R> {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Append(error) if error.is_conflict())
    }
}

/// Returns a pause of up to 16, 32, 64, 128 or 256 ms that depends on the call and the attempt. A
/// wide spread of pauses separates racers better than long pauses do.
fn backoff_pause(tries: u32, seed: Uuid) -> Duration {
    let longest = FIRST_BACKOFF_MAX * (1 << (tries - 1));
    longest.mul_f64(jitter_factor(tries, seed))
}

/// Returns a number from 0 to 1. Fibonacci hashing mixes the seed's random half and the attempt
/// into the upper bits.
fn jitter_factor(tries: u32, seed: Uuid) -> f64 {
    let (_, random) = seed.as_u64_pair();
    let mixed = random.wrapping_add(u64::from(tries)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    f64::from((mixed >> 32) as u32) / f64::from(u32::MAX)
}

fn command_error<R: std::error::Error>(error: AggregateError<R>) -> CommandError<R> {
    match error {
        AggregateError::UserError(rejection) => CommandError::Rejected(rejection),
        AggregateError::AggregateConflict => AppendError::Conflict.into(),
        AggregateError::DatabaseConnectionError(error) => original_error(error).into(),
        AggregateError::DeserializationError(error) => {
            AppendError::Unreadable(error.to_string()).into()
        }
        AggregateError::UnexpectedError(error) => original_error(error).into(),
    }
}

/// Restores the original error from the boxed error of cqrs-es.
fn original_error(error: Box<dyn std::error::Error + Send + Sync>) -> AppendError {
    match error.downcast::<AppendError>() {
        Ok(error) => *error,
        Err(error) => match error.downcast::<sqlx::Error>() {
            Ok(error) => AppendError::from(*error),
            Err(error) => AppendError::Unreadable(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn racers_part_and_none_waits_long() {
        let seeds = (0..100_u128).map(|n| Uuid::from_u128(0xffff_ffff_u128 << 96 | n));
        let pauses = seeds
            .map(|seed| (1..COMMAND_TRIES_MAX).map(|tries| backoff_pause(tries, seed)).collect());
        let pauses: Vec<Vec<Duration>> = pauses.collect();
        assert!(pauses.iter().all(|racer| racer.iter().sum::<Duration>().as_millis() < 500));
        for (place, tries) in (1..COMMAND_TRIES_MAX).enumerate() {
            let quarter = FIRST_BACKOFF_MAX * (1 << (tries - 1)) / 4;
            for part in 0..4 {
                let window = quarter * part..quarter * (part + 1);
                let here = pauses.iter().filter(|racer| window.contains(&racer[place])).count();
                assert!((15..=35).contains(&here), "try {tries}: {here} of 100 in {window:?}");
            }
        }
    }
}
