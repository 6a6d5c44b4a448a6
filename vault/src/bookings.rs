//! Bookings, as the product reported them (contract, section EventPayload; ruling 14a, payload
//! edges).

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use domain::activity::{Booking as Document, BookingMove};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::error::{VaultError, unless_broken};
use crate::keyring::{DataKeys, KeySubject};
use crate::parts::PartEffects;
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

/// Stores bookings. A second report of a booking changes it only if the document differs and the
/// report is newer. `bookings` holds a booking at most once.
pub async fn put(
    connection: &mut PgConnection,
    keys: &DataKeys,
    bookings: &[StoredBooking],
    entropy: &dyn Entropy,
) -> Result<PartEffects, VaultError> {
    if bookings.is_empty() {
        return Ok(PartEffects::default());
    }
    let mut sealed = Vec::with_capacity(bookings.len());
    for booking in bookings {
        let bytes = serde_json::to_vec(&booking.document)?;
        let document =
            keys.get(&booking.subject).ok_or(BrokenSeal)?.seal_text(PURPOSE, &bytes, entropy)?;
        sealed.push(SealedBooking { booking, document });
    }
    let mut effects =
        PartEffects { changed: insert_new(connection, &sealed).await?, stale: vec![] };
    let inserted: HashSet<_> = effects.changed.iter().copied().collect();
    sealed.retain(|one| !inserted.contains(&one.booking.id()));
    if sealed.is_empty() {
        return Ok(effects);
    }
    let known = known_bookings(connection, keys, &sealed).await?;
    sealed.retain(|one| {
        let known = known.get(&one.booking.id());
        known.is_some_and(|known| known.document.as_ref() != Some(&one.booking.document))
    });
    for one in &sealed {
        let id = one.booking.id();
        if known.get(&id).is_some_and(|known| known.made_at > one.booking.made_at) {
            effects.stale.push(id);
        }
    }
    effects.changed.extend(replace_older(connection, &sealed).await?);
    Ok(effects)
}

/// A booking and its encrypted document.
struct SealedBooking<'a> {
    booking: &'a StoredBooking,
    document: Vec<u8>,
}

/// A booking as it is stored.
struct KnownBooking {
    made_at: DateTime<Utc>,
    /// `None` if the document is damaged.
    document: Option<Document>,
}

/// Stores bookings that have no document yet, and returns their ids.
async fn insert_new(
    connection: &mut PgConnection,
    bookings: &[SealedBooking<'_>],
) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    let statement =
        "insert into bookings as b (firm_id, booking_id, response_id, made_at, document)
         select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::bytea[])
             on conflict (firm_id, booking_id) do update
            set response_id = excluded.response_id, made_at = excluded.made_at,
                document = excluded.document
          where b.made_at is null
         returning firm_id, booking_id";
    write_bookings(connection, statement, bookings).await
}

/// Replaces bookings that are older than these, and returns their ids.
async fn replace_older(
    connection: &mut PgConnection,
    bookings: &[SealedBooking<'_>],
) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    let statement = "update bookings b
            set response_id = t.response_id, made_at = t.made_at, document = t.document
           from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::bytea[])
                as t(firm_id, booking_id, response_id, made_at, document)
          where b.firm_id = t.firm_id and b.booking_id = t.booking_id and b.made_at < t.made_at
         returning b.firm_id, b.booking_id";
    write_bookings(connection, statement, bookings).await
}

async fn write_bookings(
    connection: &mut PgConnection,
    statement: &'static str,
    bookings: &[SealedBooking<'_>],
) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    let of = || bookings.iter().map(|one| one.booking);
    sqlx::query_as(statement)
        .bind(of().map(|b| b.subject.firm_id).collect::<Vec<_>>())
        .bind(of().map(|b| Uuid::from(b.document.id)).collect::<Vec<_>>())
        .bind(of().map(|b| b.subject.subject_id).collect::<Vec<_>>())
        .bind(of().map(|b| b.made_at).collect::<Vec<_>>())
        .bind(bookings.iter().map(|one| one.document.as_slice()).collect::<Vec<_>>())
        .fetch_all(connection)
        .await
}

/// A stored booking and its sealed document.
#[derive(sqlx::FromRow)]
struct KnownBookingRow {
    firm_id: Uuid,
    booking_id: Uuid,
    response_id: Uuid,
    made_at: DateTime<Utc>,
    document: Vec<u8>,
}

/// These bookings as they are stored.
async fn known_bookings(
    connection: &mut PgConnection,
    keys: &DataKeys,
    bookings: &[SealedBooking<'_>],
) -> Result<HashMap<(Uuid, Uuid), KnownBooking>, sqlx::Error> {
    let (firm_ids, booking_ids): (Vec<Uuid>, Vec<Uuid>) =
        bookings.iter().map(|one| one.booking.id()).unzip();
    let rows: Vec<KnownBookingRow> = sqlx::query_as(
        "select firm_id, booking_id, response_id, made_at, document from bookings
          where (firm_id, booking_id) in (select * from unnest($1::uuid[], $2::uuid[]))
            and document is not null",
    )
    .bind(firm_ids)
    .bind(booking_ids)
    .fetch_all(connection)
    .await?;
    let known = rows.into_iter().map(|row| {
        let subject = KeySubject { firm_id: row.firm_id, subject_id: row.response_id };
        let document = reported_document(&row.document, keys, subject).ok();
        ((row.firm_id, row.booking_id), KnownBooking { made_at: row.made_at, document })
    });
    Ok(known.collect())
}

/// The document as the product reported it, without later moves and a cancellation.
fn reported_document(
    sealed: &[u8],
    keys: &DataKeys,
    subject: KeySubject,
) -> Result<Document, VaultError> {
    let bytes = keys.get(&subject).ok_or(BrokenSeal)?.open_text(PURPOSE, sealed)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Stores new times of bookings, each with its firm's id. The last move of a booking wins. A move
/// may arrive before the booking itself.
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
    Ok(rows
        .into_iter()
        .filter_map(|row| unless_broken(open_booking(&row, keys), row.booking_id))
        .collect())
}

fn open_booking(row: &BookingRow, keys: &DataKeys) -> Result<StoredBooking, VaultError> {
    let subject = KeySubject { firm_id: row.firm_id, subject_id: row.response_id };
    let mut document = reported_document(&row.document, keys, subject)?;
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
