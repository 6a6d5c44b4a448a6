//! `/internal/v1/audit`: the proof outside the database, for verifiers without a login. It is about
//! the installation, and names no firm.

use std::sync::Arc;

use auditor::archive::ArchiveStanding;
use auditor::{KeySource, PublicKey, SignedCheckpoint};
use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use domain::audit::{EndedVerification, LastSignature, RunningVerification};
use domain::values::Timestamp;
use eventstore::ranges::{self, DroppedRange, StoredRange};
use projector::{signatures, verifications};
use serde::Serialize;

use super::ListBody;
use super::caller::Reader;
use super::query::{Choice, QueryFields};
use crate::error::Error;
use crate::queries::listing::{self, LIST_LIMIT_DEFAULT};
use crate::service::Service;

/// Public keys, and their source.
#[derive(Debug, Serialize)]
struct PublicKeysBody {
    items: Vec<PublicKeyBody>,
    /// Trust in a signature is trust in this source.
    source: &'static str,
}

#[derive(Debug, Serialize)]
struct PublicKeyBody {
    id: String,
    public_key: String,
    pem: String,
}

/// The last verification, the one under way, and the last signature.
#[derive(Debug, Serialize)]
pub(super) struct VerificationBody {
    ended: Option<EndedBody>,
    running: Option<RunningBody>,
    last_signature: Option<SignatureBody>,
}

#[derive(Debug, Serialize)]
struct EndedBody {
    at: Timestamp,
    /// Last verified position. Later events are not verified.
    position: i64,
    outcome: &'static str,
    /// The first flaw, or why nothing was decided. Withheld from a token for some firms.
    why: Option<String>,
}

#[derive(Debug, Serialize)]
struct RunningBody {
    began_at: Timestamp,
    position: i64,
}

#[derive(Debug, Serialize)]
struct SignatureBody {
    number: u64,
    at: Timestamp,
    position: i64,
    key_id: String,
}

/// The archive, and the ranges of the log that have left the database.
#[derive(Debug, Serialize)]
pub(super) struct ArchiveBody {
    /// `None` from a process without the archive.
    archived: Option<ArchivedBody>,
    left: Vec<LeftBody>,
}

#[derive(Debug, Serialize)]
struct ArchivedBody {
    /// Last archived position.
    through: i64,
    /// Last position that could be.
    sealed_to: i64,
    /// Whole segments that are not archived yet.
    waiting: i64,
    /// Time of the last event of the first of these.
    waiting_since: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
struct LeftBody {
    /// Number of the range; -1 for the log before there were ranges.
    range: i64,
    first_position: i64,
    last_position: i64,
    /// Position of the event that ordered it to leave.
    ordered_at: i64,
}

const KEY_FORMATS: &[Choice<KeyFormat>] =
    &[("json", KeyFormat::Json), ("text", KeyFormat::Text), ("pem", KeyFormat::Pem)];

#[derive(Debug, Clone, Copy)]
enum KeyFormat {
    Json,
    /// A line per key, as `audit verify --public-keys` reads them.
    Text,
    Pem,
}

/// Shows the public keys that sign checkpoints.
pub(super) async fn keys(
    _: Reader,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Response, Error> {
    let format = query.choice("format", KEY_FORMATS)?.unwrap_or(KeyFormat::Json);
    query.refuse_unknown()?;
    let known = service.audit.known_keys().await?;
    let text = |line: fn(&PublicKey) -> String| {
        let lines: String = known.keys.iter().map(line).collect();
        ([(CONTENT_TYPE, "text/plain; charset=utf-8")], lines).into_response()
    };
    Ok(match format {
        KeyFormat::Text => text(|key| key.hex() + "\n"),
        KeyFormat::Pem => text(PublicKey::pem),
        KeyFormat::Json => {
            let source = match known.source {
                KeySource::SignersFolder => "signers_folder",
                KeySource::BesideCheckpoints => "beside_checkpoints",
            };
            let items = known.keys.iter().map(PublicKeyBody::from).collect();
            Json(PublicKeysBody { items, source }).into_response()
        }
    })
}

/// Lists signed checkpoints as their files hold them, in the order of their numbers. A copy of them
/// elsewhere reveals a deletion here.
pub(super) async fn checkpoints(
    _: Reader,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Json<ListBody<SignedCheckpoint>>, Error> {
    let after = query.parsed("after", "the number of a checkpoint")?.unwrap_or(0);
    let limit = listing::checked_limit(query.limit()?.unwrap_or(LIST_LIMIT_DEFAULT))?;
    query.refuse_unknown()?;
    let limit = usize::try_from(limit).unwrap_or_default();
    let items = service.audit.checkpoints_after(after, limit).await?;
    let last = items.last().filter(|_| items.len() == limit);
    let next = last.map(|signed| signed.checkpoint.number.to_string());
    Ok(Json(ListBody::page(items, next)))
}

/// Shows the last verification that the service made by itself.
pub(super) async fn verification(
    reader: Reader,
    State(service): State<Arc<Service>>,
) -> Result<Json<VerificationBody>, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let state = verifications::state(&mut connection).await?;
    let signature = signatures::last(&mut connection).await?;
    let mut ended = state.ended.map(EndedBody::from);
    if let Some(ended) = ended.as_mut().filter(|_| !reader.holder().reaches_all()) {
        // A flaw names the firm of its entry.
        ended.why = None;
    }
    let running = state.running.map(RunningBody::from);
    Ok(Json(VerificationBody { ended, running, last_signature: signature.map(Into::into) }))
}

/// Shows how far the log is archived, and what has left the database.
pub(super) async fn archive(
    _: Reader,
    State(service): State<Arc<Service>>,
) -> Result<Json<ArchiveBody>, Error> {
    let pool = service.store.pool();
    let left = ranges::dropped_ranges(&mut *pool.acquire().await?).await?;
    let standing = service.audit.archive_standing(pool).await?;
    Ok(Json(ArchiveBody {
        archived: standing.map(Into::into),
        left: left.into_iter().map(Into::into).collect(),
    }))
}

impl From<ArchiveStanding> for ArchivedBody {
    fn from(standing: ArchiveStanding) -> Self {
        let ArchiveStanding { through, sealed_to, waiting, waiting_since } = standing;
        Self { through, sealed_to, waiting, waiting_since: waiting_since.map(Timestamp::new) }
    }
}

impl From<DroppedRange> for LeftBody {
    fn from(DroppedRange { range, ordered_at }: DroppedRange) -> Self {
        let StoredRange { number, first_position, last_position } = range;
        Self { range: number, first_position, last_position, ordered_at }
    }
}

impl From<&PublicKey> for PublicKeyBody {
    fn from(key: &PublicKey) -> Self {
        Self { id: key.id(), public_key: key.hex(), pem: key.pem() }
    }
}

impl From<EndedVerification> for EndedBody {
    fn from(EndedVerification { at, position, outcome }: EndedVerification) -> Self {
        let (word, why) = outcome.word_and_text();
        Self { at, position, outcome: word, why: why.map(str::to_owned) }
    }
}

impl From<RunningVerification> for RunningBody {
    fn from(RunningVerification { began_at, position }: RunningVerification) -> Self {
        Self { began_at, position }
    }
}

impl From<LastSignature> for SignatureBody {
    fn from(LastSignature { number, at, position, key_id, .. }: LastSignature) -> Self {
        Self { number, at, position, key_id }
    }
}
