//! The verification of the log that runs now, and the result of the last one that ended. The
//! verifier writes them; they have no events.

use chrono::{DateTime, Utc};
use domain::audit::{
    EndedVerification, IntactVerification, RunningVerification, VerificationOutcome,
    VerificationState,
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
    intact_at: Option<DateTime<Utc>>,
    intact_to: Option<i64>,
    reread_to: Option<i64>,
    needs_archive: bool,
}

/// The end of a verification.
#[derive(Debug)]
pub struct VerificationEnd {
    /// Its outcome.
    pub ended: EndedVerification,
    /// The state of an intact one, for the next verification. `None` keeps the state before.
    pub intact: Option<IntactVerification>,
    /// Whether its flaw may lie in the archive.
    pub needs_archive: bool,
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
        let intact = row.intact_at.zip(row.intact_to).zip(row.reread_to);
        let intact = intact.map(|((at, position), reread_to)| IntactVerification {
            at: Timestamp::new(at),
            position,
            reread_to,
        });
        Self { running, ended, intact, needs_archive: row.needs_archive }
    }
}

/// Returns the verification under way, the last one that ended, and the last intact one.
pub async fn state(connection: &mut PgConnection) -> Result<VerificationState, sqlx::Error> {
    let row: Option<VerificationRow> = sqlx::query_as(
        "select began_at, walked_to, ended_at, verified_to, outcome, reason, intact_at, intact_to,
                reread_to, needs_archive
           from last_verification",
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map_or_else(VerificationState::default, Into::into))
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
    end: &VerificationEnd,
) -> Result<(), sqlx::Error> {
    let VerificationEnd { ended, intact, needs_archive } = end;
    let (word, text) = ended.outcome.word_and_text();
    sqlx::query(
        "insert into last_verification (ended_at, verified_to, outcome, reason, intact_at,
                                        intact_to, reread_to, needs_archive)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (single) do update set
             began_at = null, walked_to = null, ended_at = excluded.ended_at,
             verified_to = excluded.verified_to, outcome = excluded.outcome,
             reason = excluded.reason,
             intact_at = coalesce(excluded.intact_at, last_verification.intact_at),
             intact_to = coalesce(excluded.intact_to, last_verification.intact_to),
             reread_to = coalesce(excluded.reread_to, last_verification.reread_to),
             needs_archive = excluded.needs_archive",
    )
    .bind(ended.at.get())
    .bind(ended.position)
    .bind(word)
    .bind(text)
    .bind(intact.map(|intact| intact.at.get()))
    .bind(intact.map(|intact| intact.position))
    .bind(intact.map(|intact| intact.reread_to))
    .bind(needs_archive)
    .execute(connection)
    .await?;
    Ok(())
}
