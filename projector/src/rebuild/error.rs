//! The errors of a rebuild.

use eventstore::AppendError;
use eventstore::tail::TailError;

use super::model::ReadModel;

/// The reason why a rebuild stopped.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// Another rebuild is running.
    #[error("another rebuild or verification is running")]
    Another,
    /// The log did not answer, or has an event that cannot be read.
    #[error("the log: {0}")]
    Log(#[from] TailError),
    /// The database could not carry out a statement.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// The writer of a read model could not apply an event.
    #[error("{model}: {error}")]
    Writer {
        /// The read model.
        model: ReadModel,
        /// The error of the writer.
        error: AppendError,
    },
    /// Events have left that the read model is made of.
    #[error(
        "{model} is made of events up to position {through} that are in the archive: \
         `firmforms archive attach` brings them back"
    )]
    Archived {
        /// The read model.
        model: ReadModel,
        /// The last position that has left.
        through: i64,
    },
    /// In every attempt a transaction was still appending.
    #[error("the end of the log did not settle: a long transaction is appending to it")]
    Unsettled,
    /// In every attempt a transaction was using the live tables.
    #[error("{0} is in use by a long transaction; nothing was changed")]
    InUse(ReadModel),
    /// In every attempt so many events had come that the live tables would have been locked for too
    /// long.
    #[error("too much was appended meanwhile to take {0}'s place; nothing was changed")]
    TooMuch(ReadModel),
    /// A migration or new grants have changed the live tables, and the shadow lacks the change.
    #[error("the definition of {0} changed meanwhile; nothing was changed: run it again")]
    Redefined(ReadModel),
}
