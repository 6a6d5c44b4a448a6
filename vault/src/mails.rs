//! Mails of invites, from the reservation until the mail server has decided (ruling 11).

use sqlx::PgConnection;
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::keyring::Subject;
use crate::responses::VaultError;
use crate::seal::DataKey;

const PURPOSE: &[u8] = b"mail";

/// Puts the mail of an invite away, in the place of an earlier one.
///
/// # Errors
/// [`VaultError`].
pub async fn put(
    connection: &mut PgConnection,
    (subject, key): (Subject, &DataKey),
    mail: &[u8],
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    sqlx::query(
        "insert into mails (invite_id, firm_id, mail) values ($1, $2, $3)
             on conflict (invite_id) do update set mail = excluded.mail",
    )
    .bind(subject.subject_id)
    .bind(subject.firm_id)
    .bind(key.seal(PURPOSE, mail, entropy)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// The mail of an invite, if it is there.
///
/// # Errors
/// [`VaultError`].
pub async fn read(
    connection: &mut PgConnection,
    (subject, key): (Subject, &DataKey),
) -> Result<Option<Vec<u8>>, VaultError> {
    let sealed: Option<Vec<u8>> =
        sqlx::query_scalar("select mail from mails where invite_id = $1 and firm_id = $2")
            .bind(subject.subject_id)
            .bind(subject.firm_id)
            .fetch_optional(connection)
            .await?;
    Ok(sealed.map(|sealed| key.open(PURPOSE, &sealed)).transpose()?)
}

/// Drops the mail of an invite that is finished.
///
/// # Errors
/// If the database does not answer.
pub async fn drop_of(connection: &mut PgConnection, invite_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query("delete from mails where invite_id = $1")
        .bind(invite_id)
        .execute(connection)
        .await?;
    Ok(())
}
