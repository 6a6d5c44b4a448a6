//! Callers of the public API, admitted by their key.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use domain::event::{Actor, EventContext};
use domain::subscription::FirmPlan;
use domain::values::Timestamp;
use projector::calls::{self, Admission, CallerRow};
use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use uuid::Uuid;

use super::client::client_behind_proxies;
use super::credentials::{KeyHeader, key_header};
use super::key_rate;
use crate::Service;
use crate::batching::key_batcher::{KeyBatcher, KeyQuery};
use crate::error::Error;

/// The holder of a valid key of an active firm. Only a call can make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The key.
    pub(crate) key_id: Uuid,
    /// The key's label.
    pub(crate) key_name: String,
    /// The key's first characters.
    pub(crate) key_prefix: String,
    /// The key's firm.
    pub(crate) firm_id: Uuid,
    /// The firm's name.
    pub(crate) firm_name: String,
    /// The firm's plan.
    pub(crate) plan: FirmPlan,
}

impl FromRequestParts<Arc<Service>> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Error> {
        let row = look_up_key(parts, service, &service.admission.key_batchers.callers).await?;
        Self::admit_row(row, service.clock.now())
    }
}

/// The head of a request whose key is not looked up yet. It is for a handler whose own statement
/// looks the key up.
pub(super) struct PresentedKey(Parts);

impl FromRequest<Arc<Service>> for PresentedKey {
    type Rejection = Infallible;

    /// Takes the head without a copy. The body of such a request is ignored.
    async fn from_request(request: Request, _: &Arc<Service>) -> Result<Self, Infallible> {
        Ok(Self(request.into_parts().0))
    }
}

impl PresentedKey {
    /// Looks the key up by the statement of this batcher.
    ///
    /// # Errors
    /// `unauthorized` for a key that is missing or unknown; or if the database does not answer.
    pub(super) async fn look_up<Q: KeyQuery>(
        &self,
        service: &Service,
        batcher: &KeyBatcher<Q>,
    ) -> Result<Q::Answer, Error> {
        look_up_key(&self.0, service, batcher).await
    }
}

/// Looks up the key of a request. A positive answer is never kept, so a revoked key is refused at
/// once (Authentication 6).
async fn look_up_key<Q: KeyQuery>(
    parts: &Parts,
    service: &Service,
    batcher: &KeyBatcher<Q>,
) -> Result<Q::Answer, Error> {
    let wrong_keys = &service.admission.wrong_keys;
    let from =
        || (client_behind_proxies(parts, &service.settings.trusted_proxies), service.clock.now());
    let key = match key_header(&parts.headers) {
        KeyHeader::Key(key) => key,
        KeyHeader::Missing => return Err(Error::Unauthorized),
        KeyHeader::Unusable => {
            let (address, now) = from();
            return Err(wrong_keys.count_malformed(address, now));
        }
    };
    if let Some(answer) = batcher.look_up(service, key.hash()).await? {
        key_rate::note(&parts.extensions, Q::admission(&answer).key_rate(service.clock.now()));
        return Ok(answer);
    }
    let (address, now) = from();
    Err(wrong_keys.count_unknown(service.store.pool(), address, now).await?)
}

/// Admits a call or refuses it. The key's own rate comes before the state of its firm (ruling 1).
pub(super) fn check_admission(admission: Admission, now: Timestamp) -> Result<(), Error> {
    if admission.calls_left.is_none() {
        return Err(Error::RateLimited(admission.key_rate(now).seconds));
    }
    if !admission.firm_active {
        return Err(Error::FirmInactive);
    }
    Ok(())
}

/// A caller with a connection that sees the rows of its firm only (case B16). The handler holds the
/// connection to its end, so it must not read a body.
pub(crate) struct ReadingCaller {
    /// The caller.
    pub(crate) caller: Caller,
    /// Connection restricted to the caller's firm.
    pub(crate) connection: PoolConnection<Postgres>,
}

impl FromRequestParts<Arc<Service>> for ReadingCaller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Error> {
        Self::new(Caller::from_request_parts(parts, service).await?, service).await
    }
}

impl ReadingCaller {
    /// Gives the connection back while `other` runs, because all callers share a few. Then takes a
    /// new one for the caller's firm.
    pub(super) async fn without_connection<T>(
        self,
        service: &Service,
        other: impl Future<Output = T>,
    ) -> Result<(Self, T), Error> {
        let Self { caller, connection } = self;
        drop(connection);
        let other = other.await;
        Ok((Self::new(caller, service).await?, other))
    }

    async fn new(caller: Caller, service: &Service) -> Result<Self, Error> {
        let mut connection = service.pools.readers.acquire().await?;
        calls::restrict_to_firm(&mut connection, caller.firm_id).await?;
        Ok(Self { caller, connection })
    }
}

impl Caller {
    /// The context of a command that this caller gives now.
    pub(crate) fn context(&self, service: &Service) -> EventContext {
        service.context(self.firm_id, Actor::Key(self.key_id))
    }

    fn admit_row(row: CallerRow, now: Timestamp) -> Result<Self, Error> {
        check_admission(row.admission, now)?;
        Ok(Self {
            key_id: row.key_id,
            key_name: row.key_name,
            key_prefix: row.key_prefix,
            firm_id: row.firm_id,
            firm_name: row.firm_name,
            plan: FirmPlan { leads_in_full: row.leads_in_full },
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn admitted() -> Admission {
        Admission { firm_active: true, calls_left: Some(119), oldest: now().get() }
    }

    fn row() -> CallerRow {
        CallerRow {
            key_id: Uuid::from_u128(1),
            key_name: "Zapier".into(),
            key_prefix: "ffk_AAAAAAAA".into(),
            firm_id: Uuid::from_u128(2),
            firm_name: "Müller & Co".into(),
            leads_in_full: false,
            admission: admitted(),
        }
    }

    fn now() -> Timestamp {
        "2026-11-01T10:00:00.000Z".parse().unwrap()
    }

    pub(in crate::public) fn caller() -> Caller {
        Caller::admit_row(row(), now()).unwrap()
    }

    #[test]
    fn b5_an_inactive_firms_key_is_refused() {
        let inactive = Admission { firm_active: false, ..admitted() };
        assert_eq!(check_admission(inactive, now()), Err(Error::FirmInactive));
        assert_eq!(check_admission(admitted(), now()), Ok(()));
    }

    #[test]
    fn the_rate_is_asked_before_the_firm() {
        let both = Admission { firm_active: false, calls_left: None, ..admitted() };
        assert_eq!(check_admission(both, now()), Err(Error::RateLimited(60)));
    }

    #[test]
    fn the_plan_is_the_firms() {
        assert!(!caller().plan.leads_in_full);
        let paid = CallerRow { leads_in_full: true, ..row() };
        assert!(Caller::admit_row(paid, now()).unwrap().plan.leads_in_full);
    }
}
