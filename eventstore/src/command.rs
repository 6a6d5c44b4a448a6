//! Commands on one stream: load, decide, append, and once more when another came first.

use std::time::Duration;

use cqrs_es::persist::PersistedEventStore;
use cqrs_es::{Aggregate, AggregateError, CqrsFramework};
use domain::context::Context;

use crate::error::AppendError;
use crate::repository::Repository;
use crate::store::Store;

/// How often a command is decided again before it gives up.
const TRIES: u32 = 5;

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
    context: &Context,
) -> Result<(), CommandError<A::Error>>
where
    A: Aggregate<Services = ()> + 'static,
    A::Command: Clone + Send,
{
    let events =
        PersistedEventStore::<Repository, A>::new_event_store(Repository::new(store.clone()))
            .with_upcasters(store.upcasters().into_list());
    let framework = CqrsFramework::new(events, Vec::new(), ());
    let mut tries = 1;
    loop {
        let done = framework
            .execute_with_metadata(aggregate_id, command.clone(), context.to_map())
            .await
            .map_err(command_error);
        match done {
            Err(CommandError::Append(AppendError::Conflict)) if tries < TRIES => {
                tokio::time::sleep(pause(tries, aggregate_id)).await;
                tries += 1;
            }
            done => return done,
        }
    }
}

/// Runs an append of several streams again when another came first, a few times.
///
/// # Errors
/// What the last try met.
pub async fn retry_conflicts<T, E, F>(seed: &str, mut attempt: impl FnMut() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    E: AsConflict,
{
    let mut tries = 1;
    loop {
        match attempt().await {
            Err(error) if error.is_conflict() && tries < TRIES => {
                tokio::time::sleep(pause(tries, seed)).await;
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

/// 2, 4, 8, 16 ms and up to as much again, spread by the stream so that racers part.
fn pause(tries: u32, seed: &str) -> Duration {
    let base = 1_u64 << tries.min(6);
    let spread = seed.bytes().fold(u64::from(tries), |sum, byte| {
        sum.wrapping_mul(31) + u64::from(byte)
    });
    Duration::from_millis(base + spread % (base + 1))
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
