//! Bookings, as the product reported them (contract, section EventPayload; ruling 14a, payload
//! edges).

use chrono::{DateTime, Utc};
use domain::activity::BookingMove;
use domain::document::Booking as Document;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::keyring::{DataKeys, KeySubject};
use crate::responses::{VaultError, unless_broken};
use crate::seal::BrokenSeal;

const PURPOSE: &[u8] = b"booking";

/// The status of a cancelled booking. A cancelled booking stays in payloads (ruling 14a).
const CANCELLED_STATUS: &str = "cancelled";

/// A booking as the product reported it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredBooking {
    /// The response that the booking belongs to. The response's data key encrypts the booking.
    pub subject: KeySubject,
    /// When the booking was made, by the product's clock.
    pub made_at: DateTime<Utc>,
    /// The booking's document.
    pub document: Document,
}

impl StoredBooking {
    /// The firm's id and the booking's id.
    #[must_use]
    pub fn id(&self) -> (Uuid, Uuid) {
        (self.subject.firm_id, self.document.id.into())
    }
}

/// Stores bookings; the newest report of a booking wins. Returns the ids of bookings that changed.
/// `bookings` holds a booking at most once.
///
/// # Errors
/// [`VaultError`].
pub async fn put(
    connection: &mut PgConnection,
    keys: &DataKeys,
    bookings: &[StoredBooking],
    entropy: &dyn Entropy,
) -> Result<Vec<(Uuid, Uuid)>, VaultError> {
    if bookings.is_empty() {
        return Ok(Vec::new());
    }
    let mut sealed = Vec::with_capacity(bookings.len());
    for booking in bookings {
        let bytes = serde_json::to_vec(&booking.document)?;
        sealed.push(keys.get(&booking.subject).ok_or(BrokenSeal)?.seal(PURPOSE, &bytes, entropy)?);
    }
    Ok(sqlx::query_as(
        "insert into bookings as b (firm_id, booking_id, response_id, made_at, document)
         select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::bytea[])
             on conflict (firm_id, booking_id) do update
            set response_id = excluded.response_id, made_at = excluded.made_at,
                document = excluded.document
          where b.made_at is null or excluded.made_at > b.made_at
         returning firm_id, booking_id",
    )
    .bind(bookings.iter().map(|b| b.subject.firm_id).collect::<Vec<_>>())
    .bind(bookings.iter().map(|b| Uuid::from(b.document.id)).collect::<Vec<_>>())
    .bind(bookings.iter().map(|b| b.subject.subject_id).collect::<Vec<_>>())
    .bind(bookings.iter().map(|b| b.made_at).collect::<Vec<_>>())
    .bind(sealed)
    .fetch_all(connection)
    .await?)
}

/// Stores new times of bookings, each with its firm's id. The last move of a booking wins. A move
/// may arrive before the booking itself.
///
/// # Errors
/// If the database does not answer.
pub async fn move_to(
    connection: &mut PgConnection,
    moves: &[(Uuid, BookingMove)],
) -> Result<(), sqlx::Error> {
    if moves.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into bookings as b
                (firm_id, booking_id, moved_at, starts_at, ends_at, duration_min, time_zone)
         select distinct on (firm_id, booking_id) *
           from unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::timestamptz[],
                       $5::timestamptz[], $6::bigint[], $7::text[])
                as t(firm_id, booking_id, moved_at, starts_at, ends_at, duration_min, time_zone)
          order by firm_id, booking_id, moved_at desc
             on conflict (firm_id, booking_id) do update
            set moved_at = excluded.moved_at, starts_at = excluded.starts_at,
                ends_at = excluded.ends_at, duration_min = excluded.duration_min,
                time_zone = excluded.time_zone
          where b.moved_at is null or excluded.moved_at > b.moved_at",
    )
    .bind(moves.iter().map(|(firm, _)| *firm).collect::<Vec<_>>())
    .bind(moves.iter().map(|(_, to)| to.booking_id).collect::<Vec<_>>())
    .bind(moves.iter().map(|(_, to)| to.moved_at.get()).collect::<Vec<_>>())
    .bind(moves.iter().map(|(_, to)| to.starts_at.get()).collect::<Vec<_>>())
    .bind(moves.iter().map(|(_, to)| to.ends_at.get()).collect::<Vec<_>>())
    .bind(moves.iter().map(|(_, to)| i64::from(to.duration_min)).collect::<Vec<_>>())
    .bind(moves.iter().map(|(_, to)| to.time_zone.as_str()).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Marks bookings as cancelled, by firm and booking id. A cancellation may arrive before the
/// booking itself.
///
/// # Errors
/// If the database does not answer.
pub async fn cancel(
    connection: &mut PgConnection,
    cancelled: &[(Uuid, Uuid)],
) -> Result<(), sqlx::Error> {
    if cancelled.is_empty() {
        return Ok(());
    }
    let (firm_ids, booking_ids): (Vec<Uuid>, Vec<Uuid>) = cancelled.iter().copied().unzip();
    sqlx::query(
        "insert into bookings as b (firm_id, booking_id, cancelled)
         select distinct t.*, true from unnest($1::uuid[], $2::uuid[]) t
             on conflict (firm_id, booking_id) do update set cancelled = true",
    )
    .bind(firm_ids)
    .bind(booking_ids)
    .execute(connection)
    .await?;
    Ok(())
}

#[derive(FromRow)]
struct BookingRow {
    firm_id: Uuid,
    booking_id: Uuid,
    response_id: Uuid,
    made_at: DateTime<Utc>,
    document: Vec<u8>,
    starts_at: Option<DateTime<Utc>>,
    ends_at: Option<DateTime<Utc>>,
    duration_min: Option<i64>,
    time_zone: Option<String>,
    cancelled: bool,
}

/// The current bookings of these responses, in the order in which they were made. Leaves out a
/// damaged booking.
///
/// # Errors
/// If the database does not answer.
pub async fn read(
    connection: &mut PgConnection,
    keys: &DataKeys,
    subjects: &[KeySubject],
) -> Result<Vec<StoredBooking>, sqlx::Error> {
    if subjects.is_empty() {
        return Ok(Vec::new());
    }
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) =
        subjects.iter().map(|subject| (subject.firm_id, subject.subject_id)).unzip();
    let rows: Vec<BookingRow> = sqlx::query_as(
        "select firm_id, booking_id, response_id, made_at, document, starts_at, ends_at,
                duration_min, time_zone, cancelled
           from bookings
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))
            and document is not null
          order by made_at, booking_id",
    )
    .bind(firm_ids)
    .bind(response_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().filter_map(|row| unless_broken(open(&row, keys), row.booking_id)).collect())
}

fn open(row: &BookingRow, keys: &DataKeys) -> Result<StoredBooking, VaultError> {
    let subject = KeySubject { firm_id: row.firm_id, subject_id: row.response_id };
    let bytes = keys.get(&subject).ok_or(BrokenSeal)?.open(PURPOSE, &row.document)?;
    let mut document: Document = serde_json::from_slice(&bytes)?;
    if let (Some(starts_at), Some(ends_at)) = (row.starts_at, row.ends_at) {
        document.starts_at = starts_at.into();
        document.ends_at = ends_at.into();
        document.duration_min =
            row.duration_min.and_then(|min| min.try_into().ok()).ok_or(BrokenSeal)?;
        document.time_zone = row.time_zone.clone().ok_or(BrokenSeal)?;
    }
    if row.cancelled {
        CANCELLED_STATUS.clone_into(&mut document.status);
    }
    Ok(StoredBooking { subject, made_at: row.made_at, document })
}
