//! Access to a firm at a moment: members, keys, tokens and users of the provider from the log, and
//! the operators at terminals from the audit log.

mod then;

use std::collections::HashMap;

use domain::access::sign_in::SESSION_TIME;
use domain::delivery::INSTALLATION_FIRM_ID;
use domain::event::Event;
use domain::values::{AccessMoment, AsOf, Timestamp};
use eventstore::RecordedEvent;
use projector::as_of::had_happened;
use projector::audit::{self, OperatorSeen};
use projector::{firms, keys, tokens};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use self::then::{KeyThen, MemberThen, TokenThen, UserThen};
use super::as_of::unread_error;
use super::inventory::seen_from;
use crate::error::Error;
use crate::service::Service;

/// Streams read at once.
const STREAMS_PER_READ: usize = 200;

/// Access to a firm at a moment.
#[derive(Debug, Serialize)]
pub struct Access {
    firm_id: Uuid,
    /// The firm's name, as it is now.
    firm: String,
    /// The moment.
    at: Timestamp,
    members: Vec<MemberThen>,
    keys: Vec<KeyAccess>,
    tokens: Vec<TokenAccess>,
    users: Vec<UserThen>,
    operators: Vec<TerminalAccess>,
}

/// A key at the moment, with its last use as known now.
#[derive(Debug, Serialize)]
struct KeyAccess {
    #[serde(flatten)]
    then: KeyThen,
    last_used_at: Option<Timestamp>,
}

/// A token that was valid at the moment, with its last use as known now.
#[derive(Debug, Serialize)]
struct TokenAccess {
    #[serde(flatten)]
    then: TokenThen,
    last_used_at: Option<Timestamp>,
}

/// An operator who had given commands at a terminal by that moment.
#[derive(Debug, Serialize)]
struct TerminalAccess {
    name: String,
    first_at: Timestamp,
    last_at: Timestamp,
    entries: i64,
    /// The last terminal: host, login at the database, account.
    terminal: Value,
}

/// Access to a firm at a moment. `reach` are the firms that the caller may reach; `None` for all.
///
/// # Errors
/// `firm_not_found`; `invalid_request` for a moment that has not come.
pub async fn of_firm(
    service: &Service,
    reach: Option<&[Uuid]>,
    firm_id: Uuid,
    moment: Option<AccessMoment>,
) -> Result<Access, Error> {
    let now = service.clock.now();
    if moment.is_some_and(|moment| moment.is_ahead(now)) {
        return Err(Error::invalid("`as_of` lies in the future"));
    }
    let at = moment.map_or(now, |moment| moment.capped_at(now));
    let pool = service.store.pool();
    let firm = firms::named(pool, &[firm_id]).await?.pop().ok_or(Error::FirmNotFound)?;
    let operators = audit::list_operators(pool, firm_id, at.get()).await?;
    Ok(Access {
        firm_id,
        firm: firm.name,
        at,
        members: read_members(service, firm_id, at).await?,
        keys: keys_then(service, firm_id, at).await?,
        tokens: tokens_then(service, reach, firm_id, at).await?,
        users: users_then(service, reach, firm_id, at).await?,
        operators: operators.into_iter().map(TerminalAccess::new).collect(),
    })
}

/// The streams of one kind up to a moment, by id.
async fn read_streams(
    service: &Service,
    kind: &'static str,
    ids: &[Uuid],
    at: Timestamp,
) -> Result<HashMap<String, Vec<RecordedEvent>>, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let mut streams = HashMap::new();
    for ids in ids.chunks(STREAMS_PER_READ) {
        let read = had_happened(&mut connection, kind, ids, AsOf::Instant(at)).await;
        for stream in read.map_err(unread_error)? {
            let Some(first) = stream.first() else { continue };
            streams.insert(first.aggregate_id.clone(), stream);
        }
    }
    Ok(streams)
}

async fn read_members(
    service: &Service,
    firm_id: Uuid,
    at: Timestamp,
) -> Result<Vec<MemberThen>, Error> {
    let firm = read_streams(service, "Firm", &[firm_id], at).await?;
    let events = firm.values().flatten().filter_map(|recorded| match &recorded.event {
        Event::Firm(event) => Some((event, &recorded.context)),
        _ => None,
    });
    Ok(then::members(events))
}

async fn keys_then(
    service: &Service,
    firm_id: Uuid,
    at: Timestamp,
) -> Result<Vec<KeyAccess>, Error> {
    let rows = keys::list(service.store.pool(), firm_id).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.key_id).collect();
    let streams = read_streams(service, "Key", &ids, at).await?;
    let then = |row: &keys::KeyRow| {
        let stream = streams.get(&row.key_id.to_string())?;
        let then = then::key(row.key_id, event_parts(stream))?;
        Some(KeyAccess { then, last_used_at: row.last_used_at.map(Timestamp::from) })
    };
    Ok(rows.iter().filter_map(then).collect())
}

/// Tokens that reached the firm. The caller sees the firms that it may reach itself.
async fn tokens_then(
    service: &Service,
    reach: Option<&[Uuid]>,
    firm_id: Uuid,
    at: Timestamp,
) -> Result<Vec<TokenAccess>, Error> {
    let rows = tokens::list(service.store.pool()).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.token_id).collect();
    let streams = read_streams(service, "AccessToken", &ids, at).await?;
    let then = |row: &tokens::TokenRow| {
        let stream = streams.get(&row.token_id.to_string())?;
        let mut then = then::token(row.token_id, event_parts(stream), at)?;
        if !then.reaches(firm_id) {
            return None;
        }
        if let Some(reach) = reach {
            then.scope.firm_ids = seen_from(then.scope.firm_ids.take(), reach)?;
        }
        Some(TokenAccess { then, last_used_at: row.last_used_at.map(Timestamp::from) })
    };
    Ok(rows.iter().filter_map(then).collect())
}

/// Users of the provider whose session was open and reached the firm, in the order of their
/// sign-ins. The caller sees the firms that it may reach itself.
async fn users_then(
    service: &Service,
    reach: Option<&[Uuid]>,
    firm_id: Uuid,
    at: Timestamp,
) -> Result<Vec<UserThen>, Error> {
    let since = at.get() - SESSION_TIME;
    let ids = audit::sign_ins(service.store.pool(), INSTALLATION_FIRM_ID, since, at.get()).await?;
    let streams = read_streams(service, "SignIn", &ids, at).await?;
    let then = |id: &Uuid| {
        let mut then = then::user(event_parts(streams.get(&id.to_string())?), at)?;
        if !then.reaches(firm_id) {
            return None;
        }
        if let Some(reach) = reach {
            then.firm_ids = seen_from(then.firm_ids.take(), reach)?;
        }
        Some(then)
    };
    Ok(ids.iter().filter_map(then).collect())
}

fn event_parts(
    stream: &[RecordedEvent],
) -> impl Iterator<Item = (&Event, &domain::event::EventContext)> {
    stream.iter().map(|recorded| (&recorded.event, &recorded.context))
}

impl TerminalAccess {
    fn new(seen: OperatorSeen) -> Self {
        Self {
            name: seen.name,
            first_at: seen.first_at.into(),
            last_at: seen.last_at.into(),
            entries: seen.entries,
            terminal: seen.terminal.unwrap_or_default(),
        }
    }
}
