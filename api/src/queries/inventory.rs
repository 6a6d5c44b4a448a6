//! Lists of firms with their members and forms, of replays and of tokens. A caller whose token is
//! limited to some firms sees the rows of these firms only.

use projector::firms::{self, FirmRow};
use projector::forms::{self, FormRow, LISTED_FORMS_MAX};
use projector::members::{self, MemberRow};
use projector::replays::{self, ReplayRow};
use projector::tokens::{self, TokenRow};
use uuid::Uuid;

use super::listing::{LIST_LIMIT_DEFAULT, ListPage, checked_limit};
use crate::error::Error;
use crate::service::Service;

/// A page of a list: its size, and the row that it comes after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// Only rows after this one.
    pub after: Option<Uuid>,
    /// Rows in the page; 50 by default.
    pub limit: Option<i64>,
}

impl PageRequest {
    fn limit(self) -> Result<i64, Error> {
        checked_limit(self.limit.unwrap_or(LIST_LIMIT_DEFAULT))
    }
}

/// A page of firms, by name. `reach` are the firms that the caller may reach; `None` for all.
///
/// # Errors
/// `invalid_request`.
pub async fn firms(
    service: &Service,
    reach: Option<&[Uuid]>,
    page: PageRequest,
) -> Result<ListPage<FirmRow>, Error> {
    let pool = service.store.pool();
    let limit = page.limit()?;
    let rows = match reach {
        None => firms::page(pool, page.after, limit).await?,
        Some(reach) => rest_after(firms::named(pool, reach).await?, page.after),
    };
    Ok(ListPage::new(rows, limit, |row| row.firm_id))
}

/// The rest of a list of firms, after this one.
fn rest_after(mut rows: Vec<FirmRow>, last: Option<Uuid>) -> Vec<FirmRow> {
    if let Some(place) = rows.iter().position(|row| Some(row.firm_id) == last) {
        rows.drain(..=place);
    }
    rows
}

/// Members of a firm, former ones too.
///
/// # Errors
/// `firm_not_found`.
pub async fn members(service: &Service, firm_id: Uuid) -> Result<Vec<MemberRow>, Error> {
    let pool = service.store.pool();
    firms::is_active(pool, firm_id).await?.ok_or(Error::FirmNotFound)?;
    Ok(members::list(pool, firm_id).await?)
}

/// Forms of a firm, newest first, at most 500.
///
/// # Errors
/// `firm_not_found`.
pub async fn forms(service: &Service, firm_id: Uuid) -> Result<Vec<FormRow>, Error> {
    let pool = service.store.pool();
    firms::is_active(pool, firm_id).await?.ok_or(Error::FirmNotFound)?;
    Ok(forms::list(pool, firm_id, LISTED_FORMS_MAX).await?)
}

/// A page of replays, newest first, of a firm or of all.
///
/// # Errors
/// `invalid_request`: the page begins after an unknown replay, or a caller with a limited token
/// names no firm. `firm_not_found`.
pub async fn replays(
    service: &Service,
    reach: Option<&[Uuid]>,
    firm_id: Option<Uuid>,
    page: PageRequest,
) -> Result<ListPage<ReplayRow>, Error> {
    let pool = service.store.pool();
    let limit = page.limit()?;
    let last = match page.after {
        Some(id) => Some(replays::find(pool, id).await?.ok_or_else(no_replay)?),
        None => None,
    };
    let rows = match (firm_id, reach) {
        (Some(firm_id), Some(reach)) if !reach.contains(&firm_id) => {
            return Err(Error::FirmNotFound);
        }
        (Some(firm_id), _) => replays::list_of_firm(pool, firm_id, last.as_ref(), limit).await?,
        (None, None) => replays::list(pool, last.as_ref(), limit).await?,
        (None, Some(_)) => {
            return Err(Error::invalid("a token for some firms only needs `firm_id` here"));
        }
    };
    Ok(ListPage::new(rows, limit, |row| row.replay_id))
}

fn no_replay() -> Error {
    Error::invalid("`after` is no replay")
}

/// Tokens, revoked ones too, newest first: those that reach a firm of the caller's. Other firms are
/// left out of their lists.
pub async fn tokens(service: &Service, reach: Option<&[Uuid]>) -> Result<Vec<TokenRow>, Error> {
    let rows = tokens::list(service.store.pool()).await?;
    let Some(reach) = reach else { return Ok(rows) };
    let seen = |row: TokenRow| {
        let firm_ids = seen_from(row.firm_ids.clone(), reach)?;
        Some(TokenRow { firm_ids, ..row })
    };
    Ok(rows.into_iter().filter_map(seen).collect())
}

/// The firms of a token, as the holder of a limited token sees them. `None` if it reaches none of
/// the holder's firms.
#[expect(clippy::option_option, reason = "no list of firms is not an empty one")]
pub(super) fn seen_from(firm_ids: Option<Vec<Uuid>>, reach: &[Uuid]) -> Option<Option<Vec<Uuid>>> {
    let Some(firm_ids) = firm_ids else { return Some(None) };
    let shared: Vec<Uuid> = firm_ids.into_iter().filter(|id| reach.contains(id)).collect();
    (!shared.is_empty()).then_some(Some(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Uuid = Uuid::from_u128(1);
    const OTHER: Uuid = Uuid::from_u128(2);

    /// Such a holder sees the tokens that reach its firms.
    #[test]
    fn a_limited_holder_sees_only_its_firms() {
        let seen = |firm_ids| seen_from(firm_ids, &[OWN]);
        assert_eq!(seen(None), Some(None));
        assert_eq!(seen(Some(vec![OTHER, OWN])), Some(Some(vec![OWN])));
        assert_eq!(seen(Some(vec![OTHER])), None);
    }

    #[test]
    fn a_page_begins_after_the_last_row() {
        let row = |firm_id| FirmRow { firm_id, name: "A".into(), status: "active".into() };
        let rows = || vec![row(OWN), row(OTHER)];
        assert_eq!(rest_after(rows(), Some(OWN)), [row(OTHER)]);
        assert_eq!(rest_after(rows(), None), rows());
    }
}
