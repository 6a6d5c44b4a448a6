//! The verification of the log that runs now, and the result of the last one that ended. The
//! verifier writes them; they have no events.

use chrono::{DateTime, Utc};
use domain::audit::{
    EndedVerification, RunningVerification, VerificationOutcome, VerificationState,
};
use domain::values::Timestamp;
use sqlx::{FromRow, PgConnection};

#[derive(FromRow)]
struct VerificationRow {
    began_at: Option<DateTime<Utc>>,
    walked_to: Option<i64>,
    ended_at: Option<DateTime<Utc>>,
    verified_to: Option<i64>,
    outcome: Option<String>,
    reason: Option<String>,
}

impl From<VerificationRow> for VerificationState {
    fn from(row: VerificationRow) -> Self {
        let running = row.began_at.zip(row.walked_to).map(|(began_at, position)| {
            RunningVerification { began_at: Timestamp::new(began_at), position }
        });
        let outcome = row.outcome.map(|word| VerificationOutcome::of_parts(&word, row.reason));
        let ended = row.ended_at.zip(row.verified_to).zip(outcome);
        let ended = ended.map(|((at, position), outcome)| EndedVerification {
            at: Timestamp::new(at),
            position,
            outcome,
        });
        Self { running, ended }
    }
}

/// Returns the verification under way, and the last one that ended.
pub async fn state(connection: &mut PgConnection) -> Result<VerificationState, sqlx::Error> {
    let row: Option<VerificationRow> = sqlx::query_as(
        "select began_at, walked_to, ended_at, verified_to, outcome, reason from last_verification",
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map_or(VerificationState { running: None, ended: None }, Into::into))
}

/// Notes the position of the verification under way.
pub async fn note_progress(
    connection: &mut PgConnection,
    running: RunningVerification,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into last_verification (began_at, walked_to) values ($1, $2)
         on conflict (single) do update set
             began_at = excluded.began_at, walked_to = excluded.walked_to",
    )
    .bind(running.began_at.get())
    .bind(running.position)
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes the end of the verification under way.
pub async fn note_end(
    connection: &mut PgConnection,
    ended: &EndedVerification,
) -> Result<(), sqlx::Error> {
    let (word, text) = ended.outcome.word_and_text();
    sqlx::query(
        "insert into last_verification (ended_at, verified_to, outcome, reason)
         values ($1, $2, $3, $4)
         on conflict (single) do update set
             began_at = null, walked_to = null, ended_at = excluded.ended_at,
             verified_to = excluded.verified_to, outcome = excluded.outcome,
             reason = excluded.reason",
    )
    .bind(ended.at.get())
    .bind(ended.position)
    .bind(word)
    .bind(text)
    .execute(connection)
    .await?;
    Ok(())
}
