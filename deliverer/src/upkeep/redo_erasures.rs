//! Erasures that a start carries out again, because a database is from a backup (case H3).

use domain::operations::ErasureMark;
use eventstore::worker::Worker;
use eventstore::{checkpoint, tail};
use sqlx::PgPool;
use vault::{ErasedUpTo, Keyring};

use super::erase::{EraseWorker, ErasureBatch, ErasureMarking};
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// How far each database has carried out erasures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasureProgress {
    /// The mark of the keyring.
    pub mark: ErasureMark,
    /// The position up to which the rows of the main database are gone.
    pub carried_out: i64,
}

/// Reads how far each database has carried out erasures.
pub async fn erasure_progress(
    main: &PgPool,
    keyring: &Keyring,
) -> Result<ErasureProgress, sqlx::Error> {
    let mark = keyring.erased_up_to().await?;
    let mut connection = main.acquire().await?;
    let carried_out = checkpoint::position(&mut connection, EraseWorker::NAME).await?;
    let mark = match mark {
        None => ErasureMark::Missing,
        Some(ErasedUpTo { position, digest }) => {
            let is_same = tail::digest_at(&mut connection, position).await? == Some(digest);
            if is_same { ErasureMark::Found { position } } else { ErasureMark::Strange }
        }
    };
    Ok(ErasureProgress { mark, carried_out: carried_out.unwrap_or_default() })
}

/// Carries out erasures that a restored database undid. It runs before anything is read or sent:
/// rows, keys and queued deliveries may be back. Without a restore there are none. Returns their
/// number.
pub async fn redo_erasures(deliverer: &DelivererContext) -> Result<usize, DeliveryError> {
    let pool = deliverer.store.pool();
    let ErasureProgress { mark, carried_out } = erasure_progress(pool, &deliverer.keyring).await?;
    let mut after = mark.redo_after(carried_out);
    let mut again = 0;
    loop {
        // A batch is either of erasures that the worker has carried out, or of later ones.
        let up_to = if after < carried_out { carried_out } else { i64::MAX };
        let mut connection = pool.acquire().await?;
        // Settled or not: an erasure is true once it is in the log.
        let batch = ErasureBatch::read_after(deliverer, &mut connection, after, up_to).await?;
        drop(connection);
        let Some(batch) = batch else {
            if up_to == i64::MAX {
                return Ok(again);
            }
            after = carried_out;
            continue;
        };
        after = batch.last.position;
        // The worker comes to later ones by itself, and marks them. Erasures do not wait for it,
        // because nobody may read their data. Expiries may be many, and wait.
        let (batch, marking) = match up_to {
            i64::MAX => (batch.without_expired(), ErasureMarking::None),
            _ => (batch, ErasureMarking::InKeyring),
        };
        again += batch.len();
        let mut appending = deliverer.store.begin().await?;
        batch.carry_out(deliverer, &mut appending, marking).await?;
        appending.commit().await?;
    }
}
