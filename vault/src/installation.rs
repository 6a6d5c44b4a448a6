//! The id of the installation, which the main database and its keyring share.

use domain::operations::{InstallationIds, StrangeKeyring};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::keyring::Keyring;

/// Why two databases are no pair.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The databases belong to two installations.
    #[error(transparent)]
    Strange(#[from] StrangeKeyring),
    /// A database did not answer.
    #[error("the id of the installation: {0}")]
    Database(#[from] sqlx::Error),
}

/// Reads the ids of both databases.
pub async fn read_ids(main: &PgPool, keyring: &Keyring) -> Result<InstallationIds, sqlx::Error> {
    Ok(InstallationIds { main: id_in(main).await?, keyring: id_in(keyring.pool()).await? })
}

/// Requires that the databases are a pair. Writes nothing: another keyring must not become this
/// one's before its keys are checked.
///
/// # Errors
/// [`PairError`].
pub async fn require_pair(main: &PgPool, keyring: &Keyring) -> Result<(), PairError> {
    read_ids(main, keyring).await?.shared_id(Uuid::nil())?;
    Ok(())
}

/// Notes the pair: a database without an id gets the other's, or a new one.
///
/// # Errors
/// [`PairError`].
pub async fn note_pair(main: &PgPool, keyring: &Keyring, new: Uuid) -> Result<(), PairError> {
    let ids = read_ids(main, keyring).await?;
    let id = ids.shared_id(new)?;
    if !ids.are_whole() {
        // Of two processes that start at once the first decides, in the keyring.
        store_id(keyring.pool(), id).await?;
        store_id(main, id_in(keyring.pool()).await?.unwrap_or(id)).await?;
    }
    require_pair(main, keyring).await
}

/// Reads the id of one database. `None` if it has none yet.
pub async fn id_in(pool: &PgPool) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar("select installation_id from installation").fetch_optional(pool).await
}

/// Reads the id of the main database on this connection. `None` if it has none yet, or if this
/// login may not read it.
pub async fn id_seen_by(connection: &mut PgConnection) -> Result<Option<Uuid>, sqlx::Error> {
    let may_read = "select has_table_privilege('installation', 'select')";
    if !sqlx::query_scalar::<_, bool>(may_read).fetch_one(&mut *connection).await? {
        return Ok(None);
    }
    sqlx::query_scalar("select installation_id from installation").fetch_optional(connection).await
}

async fn store_id(pool: &PgPool, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query("insert into installation (installation_id) values ($1) on conflict do nothing")
        .bind(id)
        .execute(pool)
        .await?;
    Ok(())
}
