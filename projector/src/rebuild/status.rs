//! The status of all read models.

use chrono::{DateTime, Utc};
use eventstore::proof;
use sqlx::{FromRow, PgPool};

use super::model::ReadModel;

/// The status of a read model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelStatus {
    /// The read model.
    pub model: ReadModel,
    /// The tables, each with its number of rows.
    pub rows: Vec<(&'static str, i64)>,
    /// The position of the follower. A model that is written in the append has none.
    pub checkpoint: Option<i64>,
    /// The number of positions that the follower is behind.
    pub lag: Option<i64>,
    /// The last rebuild.
    pub rebuilt: Option<LastRebuild>,
}

/// The last rebuild of a read model.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct LastRebuild {
    /// The time of the swap.
    #[sqlx(rename = "rebuilt_at")]
    pub at: DateTime<Utc>,
    /// The position up to which it was compared.
    pub position: i64,
    /// The digest of its rows.
    pub digest: String,
}

/// Returns the status of all read models.
pub async fn list_statuses(pool: &PgPool) -> Result<Vec<ModelStatus>, sqlx::Error> {
    let height = proof::height(&mut *pool.acquire().await?).await?;
    let mut all = Vec::new();
    for model in ReadModel::ALL {
        let mut rows = Vec::new();
        for table in model.tables() {
            rows.push((table.name, count_rows(pool, table.name).await?));
        }
        let checkpoint = match model.follower() {
            Some(follower) => Some(follower_position(pool, follower).await?),
            None => None,
        };
        let lag = checkpoint.map(|at| (height - at).max(0));
        all.push(ModelStatus {
            model,
            rows,
            checkpoint,
            lag,
            rebuilt: last_rebuild(pool, model).await?,
        });
    }
    Ok(all)
}

async fn count_rows(pool: &PgPool, table: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(&format!("select count(*) from {table}")).fetch_one(pool).await
}

async fn follower_position(pool: &PgPool, follower: &str) -> Result<i64, sqlx::Error> {
    let at = sqlx::query_scalar("select position from checkpoints where name = $1")
        .bind(follower)
        .fetch_optional(pool)
        .await?;
    Ok(at.unwrap_or(0))
}

async fn last_rebuild(pool: &PgPool, model: ReadModel) -> Result<Option<LastRebuild>, sqlx::Error> {
    sqlx::query_as("select rebuilt_at, position, digest from rebuilds where model = $1")
        .bind(model.name())
        .fetch_optional(pool)
        .await
}
