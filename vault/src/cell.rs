//! The cell that keys of this installation name (ruling 47). The main database keeps it, so a
//! command at a terminal makes keys as the service does.

use domain::access::{Cell, NoCell};
use sqlx::PgPool;

/// Why the cell cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// The installation is another cell.
    #[error("this installation is cell {kept}, and not {asked}: a cell keeps its number")]
    Another {
        /// The number that the database keeps.
        kept: Cell,
        /// The number that was asked for.
        asked: Cell,
    },
    /// The database has a number that names no cell.
    #[error("the cell of the installation: {0}")]
    Unknown(#[from] NoCell),
    /// The database did not answer.
    #[error("the cell of the installation: {0}")]
    Database(#[from] sqlx::Error),
}

/// Keeps the cell that was asked for, if the installation has none. Returns the one it has.
///
/// # Errors
/// [`CellError`].
pub async fn note(main: &PgPool, asked: Option<Cell>) -> Result<Option<Cell>, CellError> {
    if let Some(asked) = asked {
        sqlx::query("insert into cell (cell) values ($1) on conflict do nothing")
            .bind(i16::from(asked.number()))
            .execute(main)
            .await?;
    }
    let kept: Option<i16> =
        sqlx::query_scalar("select cell from cell").fetch_optional(main).await?;
    let kept = kept.map(|number| Cell::try_from(i64::from(number))).transpose()?;
    match (kept, asked) {
        (Some(kept), Some(asked)) if kept != asked => Err(CellError::Another { kept, asked }),
        _ => Ok(kept),
    }
}
