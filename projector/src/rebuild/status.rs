//! How the read models stand.

use chrono::{DateTime, Utc};
use eventstore::proof;
use sqlx::{FromRow, PgPool};

use super::model::ReadModel;

/// How a read model stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelStatus {
    /// Which.
    pub model: ReadModel,
    /// Its tables, each with its rows.
    pub rows: Vec<(&'static str, i64)>,
    /// How far its follower is; none for what is written with the append.
    pub checkpoint: Option<i64>,
    /// How many positions of the log its follower has to go.
    pub lag: Option<i64>,
    /// When it was last made anew.
    pub rebuilt: Option<LastRebuild>,
}

/// When a read model was last made anew.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct LastRebuild {
    /// Then.
    #[sqlx(rename = "rebuilt_at")]
    pub at: DateTime<Utc>,
    /// Up to there it was compared.
    pub position: i64,
    /// What its rows came to.
    pub digest: String,
}

/// How all read models stand.
///
/// # Errors
/// If the database does not answer.
pub async fn status(pool: &PgPool) -> Result<Vec<ModelStatus>, sqlx::Error> {
    let height = proof::height(&mut *pool.acquire().await?).await?;
    let mut all = Vec::new();
    for model in ReadModel::ALL {
        let mut rows = Vec::new();
        for table in model.tables() {
            rows.push((table.name, count(pool, table.name).await?));
        }
        let checkpoint = match model.follower() {
            Some(follower) => Some(checkpoint(pool, follower).await?),
            None => None,
        };
        let lag = checkpoint.map(|at| (height - at).max(0));
        all.push(ModelStatus {
            model,
            rows,
            checkpoint,
            lag,
            rebuilt: rebuilt(pool, model).await?,
        });
    }
    Ok(all)
}

async fn count(pool: &PgPool, table: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(&format!("select count(*) from {table}")).fetch_one(pool).await
}

async fn checkpoint(pool: &PgPool, follower: &str) -> Result<i64, sqlx::Error> {
    let at = sqlx::query_scalar("select position from checkpoints where name = $1")
        .bind(follower)
        .fetch_optional(pool)
        .await?;
    Ok(at.unwrap_or(0))
}

async fn rebuilt(pool: &PgPool, model: ReadModel) -> Result<Option<LastRebuild>, sqlx::Error> {
    sqlx::query_as("select rebuilt_at, position, digest from rebuilds where model = $1")
        .bind(model.name())
        .fetch_optional(pool)
        .await
}
