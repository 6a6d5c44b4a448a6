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
        let mut connection = pool.acquire().await?;
        // Settled or not: an erasure is true once it is in the log.
        let batch = ErasureBatch::read_after(deliverer, &mut connection, after, i64::MAX).await?;
        drop(connection);
        let Some(batch) = batch else {
            return Ok(again);
        };
        after = batch.last.position;
        // The worker has not come to later ones. Their keys must not be read until then, but many
        // responses may have expired, and nobody waits for them.
        let is_later = after > carried_out;
        let batch = if is_later { batch.without_expired() } else { batch };
        let marking = if is_later { ErasureMarking::None } else { ErasureMarking::InKeyring };
        again += batch.len();
        let mut appending = deliverer.store.begin().await?;
        batch.carry_out(deliverer, &mut appending, marking).await?;
        appending.commit().await?;
    }
}
