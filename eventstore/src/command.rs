//! Commands on one stream: load, decide, append, and once more when another came first.

use std::time::Duration;

use cqrs_es::persist::PersistedEventStore;
use cqrs_es::{Aggregate, AggregateError, CqrsFramework};
use domain::context::EventContext;
use uuid::Uuid;

use crate::error::AppendError;
use crate::repository::StoreRepository;
use crate::store::Store;

/// How often a command is decided before it gives up. With these pauses a dozen racers on a stream
/// all come through, and whoever does not has waited for less than half a second.
const COMMAND_TRIES_MAX: u32 = 6;

/// The longest first pause; each that follows may be twice as long: 496 ms in all.
const FIRST_BACKOFF_MAX: Duration = Duration::from_millis(16);

/// Why a command did not happen.
#[derive(Debug, thiserror::Error)]
pub enum CommandError<R: std::error::Error> {
    /// A rule refused it.
    #[error(transparent)]
    Rejected(R),
    /// The store did not take it.
    #[error(transparent)]
    Append(#[from] AppendError),
}

pub(crate) async fn execute<A>(
    store: &Store,
    aggregate_id: &str,
    command: A::Command,
    context: &EventContext,
) -> Result<(), CommandError<A::Error>>
where
    A: Aggregate<Services = ()> + 'static,
    A::Command: Clone + Send,
{
    let events = PersistedEventStore::<StoreRepository, A>::new_event_store(StoreRepository::new(
        store.clone(),
    ))
    .with_upcasters(store.upcasters().into_list());
    let framework = CqrsFramework::new(events, Vec::new(), ());
    let attempt = async || {
        framework
            .execute_with_metadata(aggregate_id, command.clone(), context.to_map())
            .await
            .map_err(command_error)
    };
    retry_conflicts(context.correlation_id, attempt).await
}

/// Runs an append of several streams again when another came first, a few times. The seed is the
/// call's own, its correlation id for one: callers with the same seed pause alike and meet again.
///
/// # Errors
/// What the last try met.
pub async fn retry_conflicts<T, E, F>(seed: Uuid, mut attempt: impl FnMut() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    E: AsConflict,
{
    let mut tries = 1;
    loop {
        match attempt().await {
            Err(error) if error.is_conflict() && tries < COMMAND_TRIES_MAX => {
                tokio::time::sleep(backoff(tries, seed)).await;
                tries += 1;
            }
            done => return done,
        }
    }
}

/// An error that may be a lost race.
pub trait AsConflict {
    /// Whether deciding again may help.
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

/// Anything up to 16, 32, 64, 128, 256 ms, spread by call and try: a wait that is wide and not just
/// long is what parts racers.
fn backoff(tries: u32, seed: Uuid) -> Duration {
    let longest = FIRST_BACKOFF_MAX * (1 << (tries - 1));
    longest.mul_f64(spread(tries, seed))
}

/// From 0 to 1. Fibonacci hashing: the seed's random half and the try, mixed into the upper bits.
fn spread(tries: u32, seed: Uuid) -> f64 {
    let (_, random) = seed.as_u64_pair();
    let mixed = random.wrapping_add(u64::from(tries)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    f64::from((mixed >> 32) as u32) / f64::from(u32::MAX)
}

fn command_error<R: std::error::Error>(error: AggregateError<R>) -> CommandError<R> {
    match error {
        AggregateError::UserError(rejection) => CommandError::Rejected(rejection),
        AggregateError::AggregateConflict => AppendError::Conflict.into(),
        AggregateError::DatabaseConnectionError(error) => downcast(error).into(),
        AggregateError::DeserializationError(error) => {
            AppendError::Unreadable(error.to_string()).into()
        }
        AggregateError::UnexpectedError(error) => downcast(error).into(),
    }
}

/// What went through cqrs-es as a boxed error comes out as what it was.
fn downcast(error: Box<dyn std::error::Error + Send + Sync>) -> AppendError {
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
        let pauses =
            seeds.map(|seed| (1..COMMAND_TRIES_MAX).map(|tries| backoff(tries, seed)).collect());
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
