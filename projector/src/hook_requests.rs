//! Requests for a subscription that had an `Idempotency-Key` (ruling 40). A repeated request finds
//! the subscription that the first one made. The table has requests and no events, so it is no read
//! model. Housekeeping forgets old requests, and a revocation those of its key.

use chrono::{DateTime, TimeDelta, Utc};
use domain::access::KeyEvent;
use domain::event::Event;
use domain::firm::FirmEvent;
use eventstore::{AppendError, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::hooks::HookRow;

/// The time for which a request is remembered (ruling 40).
pub const REMEMBER_FOR: TimeDelta = TimeDelta::hours(24);

/// A request: whose, which, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookRequest {
    /// The firm of the key.
    pub firm_id: Uuid,
    /// The API key.
    pub key_id: Uuid,
    /// SHA-256 of the `Idempotency-Key`.
    pub idempotency_sha256: [u8; 32],
    /// SHA-256 of the requested subscription.
    pub body_sha256: [u8; 32],
}

/// The memory of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RememberedRequest {
    /// No such request, or none that still counts. The request makes a subscription, in place of
    /// this one if there was one.
    Free {
        /// The removed or forgotten subscription that the row still names.
        replaces: Option<Uuid>,
    },
    /// The request made this subscription, which lives.
    Made(HookRow),
    /// The key was sent with another request.
    Other,
}

#[derive(FromRow)]
struct FoundRequest {
    body_sha256: Vec<u8>,
    made: Uuid,
    counts: bool,
    #[sqlx(flatten)]
    hook: FoundHook,
}

/// The subscription, if it lives.
#[derive(FromRow)]
struct FoundHook {
    hook_id: Option<Uuid>,
    trigger: Option<String>,
    target_url: Option<String>,
    form_id: Option<Uuid>,
    created_at: Option<DateTime<Utc>>,
}

/// Returns the memory of this request.
pub async fn find(
    pool: &PgPool,
    request: &HookRequest,
    now: DateTime<Utc>,
) -> Result<RememberedRequest, sqlx::Error> {
    let found: Option<FoundRequest> = sqlx::query_as(
        "select r.body_sha256, r.hook_id as made, r.made_at >= $4 as counts,
                h.hook_id, h.trigger, h.target_url, h.form_id, h.created_at
           from hook_requests r
           left join hooks h on h.hook_id = r.hook_id and h.removed_at is null
          where r.firm_id = $1 and r.key_id = $2 and r.idempotency_sha256 = $3",
    )
    .bind(request.firm_id)
    .bind(request.key_id)
    .bind(request.idempotency_sha256)
    .bind(now - REMEMBER_FOR)
    .fetch_optional(pool)
    .await?;
    let Some(found) = found else {
        return Ok(RememberedRequest::Free { replaces: None });
    };
    let free = RememberedRequest::Free { replaces: Some(found.made) };
    if !found.counts {
        return Ok(free);
    }
    if found.body_sha256 != request.body_sha256 {
        return Ok(RememberedRequest::Other);
    }
    Ok(found.hook.into_live().map_or(free, RememberedRequest::Made))
}

impl FoundHook {
    fn into_live(self) -> Option<HookRow> {
        Some(HookRow {
            hook_id: self.hook_id?,
            trigger: self.trigger?,
            target_url: self.target_url?,
            form_id: self.form_id,
            created_at: self.created_at?,
        })
    }
}

/// Remembers that this request makes this subscription. Waits for another transaction with the same
/// request. Returns whether the request was free: if not, the transaction must end.
pub async fn remember(
    connection: &mut PgConnection,
    request: &HookRequest,
    hook_id: Uuid,
    replaces: Option<Uuid>,
    now: DateTime<Utc>,
) -> Result<bool, sqlx::Error> {
    let remembered = sqlx::query(
        "insert into hook_requests as r
                (firm_id, key_id, idempotency_sha256, body_sha256, hook_id, made_at)
         values ($1, $2, $3, $4, $5, $6)
             on conflict (firm_id, key_id, idempotency_sha256) do update
            set body_sha256 = excluded.body_sha256, hook_id = excluded.hook_id,
                made_at = excluded.made_at
          where r.hook_id = $7",
    )
    .bind(request.firm_id)
    .bind(request.key_id)
    .bind(request.idempotency_sha256)
    .bind(request.body_sha256)
    .bind(hook_id)
    .bind(now)
    .bind(replaces)
    .execute(connection)
    .await?;
    Ok(remembered.rows_affected() == 1)
}

/// Forgets up to `limit` requests older than [`REMEMBER_FOR`]. Returns the number of forgotten
/// requests.
pub async fn forget(pool: &PgPool, now: DateTime<Utc>, limit: i64) -> Result<u64, sqlx::Error> {
    let forgotten = sqlx::query(
        "delete from hook_requests
          where (firm_id, key_id, idempotency_sha256) in (
                select firm_id, key_id, idempotency_sha256 from hook_requests where made_at < $1
                 order by made_at limit $2 for update skip locked)",
    )
    .bind(now - REMEMBER_FOR)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(forgotten.rows_affected())
}

/// Forgets the requests of revoked keys and of closed firms, in the append.
pub(crate) struct HookRequestWriter;

impl WithAppend for HookRequestWriter {
    fn apply_appended<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let ended: Vec<EndedCaller> = events.iter().filter_map(EndedCaller::new).collect();
            if ended.is_empty() { Ok(()) } else { Ok(forget_of(connection, &ended).await?) }
        })
    }
}

/// A key that calls no more; all keys of the firm if none is named.
struct EndedCaller {
    firm_id: Uuid,
    key_id: Option<Uuid>,
}

impl EndedCaller {
    fn new(recorded: &RecordedEvent) -> Option<Self> {
        let key_id = match &recorded.event {
            Event::Key(KeyEvent::KeyRevoked { .. }) => Some(recorded.aggregate_id.parse().ok()?),
            Event::Firm(FirmEvent::FirmClosed { .. }) => None,
            _ => return None,
        };
        Some(Self { firm_id: recorded.context.firm_id, key_id })
    }
}

async fn forget_of(
    connection: &mut PgConnection,
    ended: &[EndedCaller],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "delete from hook_requests r using unnest($1::uuid[], $2::uuid[]) as e(firm_id, key_id)
          where r.firm_id = e.firm_id and (e.key_id is null or r.key_id = e.key_id)",
    )
    .bind(ended.iter().map(|one| one.firm_id).collect::<Vec<_>>())
    .bind(ended.iter().map(|one| one.key_id).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}
