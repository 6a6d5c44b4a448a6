//! Mails of invites, kept from the reservation until the mail server decides (ruling 11, invites).

use sqlx::PgConnection;
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::error::{VaultError, unless_broken};
use crate::keyring::{KeySubject, Keyring};
use crate::seal::{BrokenSeal, DataKey};

const PURPOSE: &[u8] = b"mail";

/// The owner and the data key of a stored mail.
pub struct InviteMailKey<'a> {
    /// The invite.
    pub invite_id: Uuid,
    /// The reservation. Each reservation has a data key of its own.
    pub subject: KeySubject,
    /// The reservation's data key.
    pub key: &'a DataKey,
}

/// Stores the mail of a reserved invite.
pub async fn put(
    connection: &mut PgConnection,
    kept: &InviteMailKey<'_>,
    mail: &[u8],
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    sqlx::query(
        "insert into mails (invite_id, firm_id, reservation_id, mail) values ($1, $2, $3, $4)",
    )
    .bind(kept.invite_id)
    .bind(kept.subject.firm_id)
    .bind(kept.subject.subject_id)
    .bind(kept.key.seal(PURPOSE, mail, entropy)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// The mail of an invite, unless it is gone or cannot be decrypted.
pub async fn read(
    connection: &mut PgConnection,
    keyring: &Keyring,
    invite_id: Uuid,
) -> Result<Option<Vec<u8>>, sqlx::Error> {
    let row: Option<(Uuid, Uuid, Vec<u8>)> =
        sqlx::query_as("select firm_id, reservation_id, mail from mails where invite_id = $1")
            .bind(invite_id)
            .fetch_optional(connection)
            .await?;
    let Some((firm_id, subject_id, sealed)) = row else {
        return Ok(None);
    };
    let subject = KeySubject { firm_id, subject_id };
    let keys = keyring.find_keys(&[subject]).await?;
    let opened = keys.get(&subject).ok_or(BrokenSeal).and_then(|key| key.open(PURPOSE, &sealed));
    Ok(unless_broken(opened.map_err(VaultError::from), invite_id))
}

/// Deletes the mail of a finished invite. Returns the owner of the mail's data key.
pub async fn drop_of(
    connection: &mut PgConnection,
    invite_id: Uuid,
) -> Result<Option<KeySubject>, sqlx::Error> {
    let row: Option<(Uuid, Uuid)> =
        sqlx::query_as("delete from mails where invite_id = $1 returning firm_id, reservation_id")
            .bind(invite_id)
            .fetch_optional(connection)
            .await?;
    Ok(row.map(|(firm_id, subject_id)| KeySubject { firm_id, subject_id }))
}
