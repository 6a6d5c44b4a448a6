//! Objects and times as a person names them on the command line. A command takes the text of an
//! object, and asks here for its id once a database is open.

use anyhow::Context;
use api::queries::naming;
pub(crate) use api::queries::naming::NamedKind;
use domain::audit::{AuditPeriod, BackwardPeriod};
use domain::values::{AsOf, Timestamp, When};
use explain::moment::PastMoment;
use sqlx::PgPool;
use uuid::Uuid;

/// The id of the object that the text means.
pub(crate) async fn find_id(pool: &PgPool, kind: NamedKind, text: &str) -> anyhow::Result<Uuid> {
    Ok(naming::find(pool, kind, text).await?)
}

/// The id of the object that the text means, if there is a text.
pub(crate) async fn id_of_any(
    pool: &PgPool,
    kind: NamedKind,
    text: Option<&str>,
) -> anyhow::Result<Option<Uuid>> {
    match text {
        Some(text) => Ok(Some(find_id(pool, kind, text).await?)),
        None => Ok(None),
    }
}

/// The ids of the objects that the texts mean.
pub(crate) async fn find_ids(
    pool: &PgPool,
    kind: NamedKind,
    texts: &[String],
) -> anyhow::Result<Vec<Uuid>> {
    let mut ids = Vec::with_capacity(texts.len());
    for text in texts {
        ids.push(find_id(pool, kind, text).await?);
    }
    Ok(ids)
}

/// The firm that the text means. Without a text it is the firm of the delivery.
pub(crate) async fn firm_of_delivery(
    pool: &PgPool,
    text: Option<&str>,
    delivery_id: Uuid,
) -> anyhow::Result<Uuid> {
    let firm = match text {
        Some(text) => Some(find_id(pool, NamedKind::Firm, text).await?),
        None => naming::firm_of(pool, NamedKind::Delivery, delivery_id).await?,
    };
    firm.context("no list shows this delivery: with --firm, the log is searched")
}

/// The period of the past between two moments.
pub(crate) fn past_period(
    since: Option<When>,
    until: Option<When>,
    now: Timestamp,
) -> Result<AuditPeriod, BackwardPeriod> {
    let before = |when: When| when.instant_before(now);
    AuditPeriod::between(since.map(before), until.map(before))
}

/// The bound of a question about the past, if there is one.
pub(crate) fn as_of(moment: Option<PastMoment>, now: Timestamp) -> Option<AsOf> {
    moment.map(|moment| moment.as_of(now))
}
