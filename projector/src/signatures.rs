//! The last signature: the number, hash and key of the last signed checkpoint. It contradicts an
//! emptied folder of keys or checkpoints. The signer writes it; it has no events.

use chrono::{DateTime, Utc};
use domain::audit::LastSignature;
use domain::audit::merkle::Hash;
use domain::values::Timestamp;
use sqlx::{FromRow, PgConnection};

/// The statement that reads the last signature. `$lock` is its row lock, or empty.
macro_rules! select_last {
    ($lock:literal) => {
        concat!(
            "select series, number, hash, key_id, position, signed_at from last_signature",
            $lock
        )
    };
}

#[derive(FromRow)]
struct SignatureRow {
    series: i32,
    number: i64,
    hash: Hash,
    key_id: String,
    position: i64,
    signed_at: DateTime<Utc>,
}

impl From<SignatureRow> for LastSignature {
    fn from(row: SignatureRow) -> Self {
        Self {
            series: row.series,
            number: row.number.cast_unsigned(),
            hash: row.hash,
            key_id: row.key_id,
            position: row.position,
            at: Timestamp::new(row.signed_at),
        }
    }
}

/// Returns the last signature. `None` if nothing was ever signed.
pub async fn last(connection: &mut PgConnection) -> Result<Option<LastSignature>, sqlx::Error> {
    let row: Option<SignatureRow> =
        sqlx::query_as(select_last!("")).fetch_optional(connection).await?;
    Ok(row.map(Into::into))
}

/// Returns the last signature to a session that is about to sign.
///
/// # Errors
/// If the database does not answer, or refuses this login. A login without the right to note a
/// signature is refused here, before it has signed anything.
pub async fn last_for_signer(
    connection: &mut PgConnection,
) -> Result<Option<LastSignature>, sqlx::Error> {
    let row: Option<SignatureRow> =
        sqlx::query_as(select_last!(" for no key update")).fetch_optional(connection).await?;
    Ok(row.map(Into::into))
}

/// Notes a signature.
pub async fn note(
    connection: &mut PgConnection,
    signature: &LastSignature,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into last_signature (series, number, hash, key_id, position, signed_at)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (single) do update set
             series = excluded.series, number = excluded.number, hash = excluded.hash,
             key_id = excluded.key_id, position = excluded.position,
             signed_at = excluded.signed_at",
    )
    .bind(signature.series)
    .bind(signature.number.cast_signed())
    .bind(signature.hash)
    .bind(&signature.key_id)
    .bind(signature.position)
    .bind(signature.at.get())
    .execute(connection)
    .await?;
    Ok(())
}
