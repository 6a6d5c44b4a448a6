//! Kept answers: the first KiB of each receiver's answer. An answer is foreign text and may echo
//! the delivery, so the vault encrypts it like the body. Only operators read answers.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use chrono::{DateTime, Utc};
use eventstore::JoinedWrites;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::error::{VaultError, unless_broken};
use crate::keyring::{DataKeys, KeySubject};
use crate::seal::{BrokenSeal, DataKey};

const PURPOSE: &[u8] = b"answer";

/// A receiver's answer to one attempt.
pub struct ReceiverAnswer<'a> {
    /// The delivery.
    pub delivery_id: Uuid,
    /// The attempt's number.
    pub number: i32,
    /// The response whose data key encrypts the answer.
    pub subject: KeySubject,
    /// The subject's data key.
    pub key: &'a DataKey,
    /// The text, cleaned.
    pub text: String,
}

/// Adds a write that stores answers. An attempt that already has an answer keeps it.
pub fn write(
    writes: &mut JoinedWrites,
    answers: &[ReceiverAnswer<'_>],
    at: DateTime<Utc>,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    if answers.is_empty() {
        return Ok(());
    }
    let sealed = answers
        .iter()
        .map(|answer| answer.key.seal(PURPOSE, answer.text.as_bytes(), entropy))
        .collect::<Result<Vec<_>, _>>()?;
    writes
        .add_rows(
            answers.len(),
            "answered as (
                 insert into answers (delivery_id, number, firm_id, response_id, answer, received_at)
                 select t.*, $6::timestamptz
                   from rows($1::uuid, $2::int, $3::uuid, $4::uuid, $5::bytea) as t
                     on conflict do nothing)",
        )
        .bind_column(answers.iter().map(|answer| answer.delivery_id).collect())
        .bind_column(answers.iter().map(|answer| answer.number).collect())
        .bind_column(answers.iter().map(|answer| answer.subject.firm_id).collect())
        .bind_column(answers.iter().map(|answer| answer.subject.subject_id).collect())
        .bind_column(sealed)
        .bind(at);
    Ok(())
}

/// Answers that were deleted.
#[derive(Debug, Clone, Copy, FromRow)]
pub struct ForgottenAnswers {
    /// Their number.
    pub count: i64,
    /// The latest time at which one of them was received.
    pub latest: Option<DateTime<Utc>>,
}

/// Deletes answers that were received in this time, the oldest first, at most `limit`.
pub async fn forget(
    connection: &mut PgConnection,
    time: Range<DateTime<Utc>>,
    limit: i64,
) -> Result<ForgottenAnswers, sqlx::Error> {
    sqlx::query_as(
        "with gone as (
             delete from answers where ctid = any(array(
                 select ctid from answers
                  where received_at >= $1 and received_at < $2
                  order by received_at limit $3 for update skip locked))
             returning received_at)
         select count(*) as count, max(received_at) as latest from gone",
    )
    .bind(time.start)
    .bind(time.end)
    .bind(limit)
    .fetch_one(connection)
    .await
}

/// The numbers of a delivery's attempts whose answers are kept.
pub async fn kept(
    connection: &mut PgConnection,
    delivery_id: Uuid,
) -> Result<HashSet<i32>, sqlx::Error> {
    let numbers: Vec<i32> = sqlx::query_scalar("select number from answers where delivery_id = $1")
        .bind(delivery_id)
        .fetch_all(connection)
        .await?;
    Ok(numbers.into_iter().collect())
}

#[derive(FromRow)]
struct AnswerRow {
    number: i32,
    firm_id: Uuid,
    response_id: Uuid,
    answer: Vec<u8>,
}

/// The answers to the attempts of a delivery, by attempt number. Leaves out answers that cannot be
/// decrypted.
pub async fn read(
    connection: &mut PgConnection,
    keys: &DataKeys,
    delivery_id: Uuid,
) -> Result<HashMap<i32, String>, VaultError> {
    let rows: Vec<AnswerRow> = sqlx::query_as(
        "select number, firm_id, response_id, answer from answers where delivery_id = $1",
    )
    .bind(delivery_id)
    .fetch_all(connection)
    .await?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            let subject = KeySubject { firm_id: row.firm_id, subject_id: row.response_id };
            let text = open_answer(keys.get(&subject)?, &row.answer);
            Some((row.number, unless_broken(text, delivery_id)?))
        })
        .collect())
}

fn open_answer(key: &DataKey, sealed: &[u8]) -> Result<String, VaultError> {
    let bytes = key.open(PURPOSE, sealed)?;
    Ok(String::from_utf8(bytes).map_err(|_| BrokenSeal)?)
}
