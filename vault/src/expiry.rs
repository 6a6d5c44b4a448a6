//! Responses that may expire: their contents are old (ruling 59). The times are the product's, so
//! a response that is old here may have been reported today.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

/// A response of a firm whose last saving or submission is old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct OldResponse {
    /// The response.
    pub response_id: Uuid,
    /// When it was submitted; `None` if it is unfinished.
    pub submitted_at: Option<DateTime<Utc>>,
}

/// The place of a walk over a firm's old responses: first the submitted ones, the oldest first,
/// then the unfinished ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldResponsePlace {
    /// After this submission.
    Submitted(DateTime<Utc>, Uuid),
    /// After this unfinished response.
    Unfinished(Uuid),
}

impl OldResponsePlace {
    /// The beginning of the walk.
    pub const START: Self = Self::Submitted(LONG_AGO, Uuid::nil());

    /// The place after these responses, which were read here with this limit. `None` at the end of
    /// the walk.
    #[must_use]
    pub fn after(self, read: &[OldResponse], limit: usize) -> Option<Self> {
        let last = read.last().filter(|_| read.len() == limit);
        match (self, last) {
            (Self::Submitted(..), Some(OldResponse { response_id, submitted_at: Some(at) })) => {
                Some(Self::Submitted(*at, *response_id))
            }
            (Self::Submitted(..), _) => Some(Self::Unfinished(Uuid::nil())),
            (Self::Unfinished(_), last) => Some(Self::Unfinished(last?.response_id)),
        }
    }
}

/// Before every response: year 1 at the earliest.
const LONG_AGO: DateTime<Utc> = match DateTime::from_timestamp(-62_135_596_800, 0) {
    Some(long_ago) => long_ago,
    None => DateTime::UNIX_EPOCH,
};

/// The firms among these with a response that was last saved or submitted before this time.
pub async fn firms_with_old(
    connection: &mut PgConnection,
    firm_ids: &[Uuid],
    before: DateTime<Utc>,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select f.firm_id from unnest($1::uuid[]) as f(firm_id)
          cross join lateral (
                (select 1 from responses r
                  where r.firm_id = f.firm_id and r.submitted_at < $2 limit 1)
                 union all
                (select 1 from responses r
                  where r.firm_id = f.firm_id and r.submitted_at is null and r.saved_at < $2
                  limit 1)
                limit 1) old
          order by 1",
    )
    .bind(firm_ids)
    .bind(before)
    .fetch_all(connection)
    .await
}

/// The next responses of a firm that were last saved or submitted before this time.
pub async fn old_responses(
    connection: &mut PgConnection,
    firm_id: Uuid,
    place: OldResponsePlace,
    before: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<OldResponse>, sqlx::Error> {
    match place {
        OldResponsePlace::Submitted(at, response_id) => {
            sqlx::query_as(
                "select response_id, submitted_at from responses
                  where firm_id = $1 and submitted_at < $2
                    and (submitted_at, response_id) > ($4, $5)
                  order by submitted_at, response_id limit $3",
            )
            .bind(firm_id)
            .bind(before)
            .bind(limit)
            .bind(at)
            .bind(response_id)
            .fetch_all(connection)
            .await
        }
        OldResponsePlace::Unfinished(response_id) => {
            sqlx::query_as(
                "select response_id, submitted_at from responses
                  where firm_id = $1 and submitted_at is null and saved_at < $2
                    and response_id > $4
                  order by response_id limit $3",
            )
            .bind(firm_id)
            .bind(before)
            .bind(limit)
            .bind(response_id)
            .fetch_all(connection)
            .await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_ends_behind_the_unfinished() {
        let at = DateTime::UNIX_EPOCH;
        let submitted = OldResponse { response_id: Uuid::from_u128(7), submitted_at: Some(at) };
        let unfinished = OldResponse { response_id: Uuid::from_u128(8), submitted_at: None };
        let first = OldResponsePlace::START;
        let second = OldResponsePlace::Unfinished(Uuid::nil());
        let next = OldResponsePlace::Submitted(at, submitted.response_id);
        assert_eq!(first.after(&[submitted], 1), Some(next));
        assert_eq!(next.after(&[submitted], 2), Some(second));
        assert_eq!(first.after(&[], 2), Some(second));
        let next = OldResponsePlace::Unfinished(unfinished.response_id);
        assert_eq!(second.after(&[unfinished], 1), Some(next));
        assert_eq!(second.after(&[unfinished], 2), None);
    }
}
