//! The read model of firms, as the product last reported each firm.

mod closed;

use std::collections::BTreeMap;

use domain::event::Event;
use domain::firm::{FirmBrand, FirmEvent, FirmStatus, NoticeChange, NoticeSettings};
use domain::subscription::FirmPlan;
use domain::values::Lang;
use eventstore::{AppendError, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

pub use self::closed::{closed_after, dropped_after, firms_after, is_dropped};

/// The writer of the table `firms`.
pub(crate) struct FirmWriter;

impl WithAppend for FirmWriter {
    fn apply_appended<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let of_firms = events.iter().filter_map(|recorded| match &recorded.event {
                Event::Firm(event) => Some((recorded.context.firm_id, event)),
                _ => None,
            });
            write_changes(connection, &fold_changes(of_firms)).await?;
            Ok(closed::note_dropped(connection, events).await?)
        })
    }
}

/// The changes to one firm's row. `None` leaves the column as it is.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct FirmUpdate<'a> {
    opened: bool,
    name: Option<&'a str>,
    status: Option<FirmStatus>,
    leads_in_full: Option<bool>,
    brand: Option<&'a FirmBrand>,
    invites_enabled: Option<bool>,
    notices: NoticeChange,
}

/// Folds the events, in order, into one change per firm.
fn fold_changes<'a>(
    events: impl Iterator<Item = (Uuid, &'a FirmEvent)>,
) -> BTreeMap<Uuid, FirmUpdate<'a>> {
    let mut changes: BTreeMap<Uuid, FirmUpdate<'_>> = BTreeMap::new();
    for (firm_id, event) in events {
        if let Some(next) = FirmUpdate::new(event) {
            changes.entry(firm_id).or_default().merge_next(&next);
        }
    }
    changes
}

impl<'a> FirmUpdate<'a> {
    /// Returns the change of one event. The events of members change no firm.
    fn new(event: &'a FirmEvent) -> Option<Self> {
        let entered = |status| Self { status: Some(status), ..Self::default() };
        match event {
            FirmEvent::FirmOpened { name, plan, brand, .. } => Some(Self {
                opened: true,
                name: Some(name),
                leads_in_full: Some(plan.leads_in_full),
                brand: Some(brand),
                ..entered(FirmStatus::Active)
            }),
            FirmEvent::FirmChanged { name, plan, brand, invites_enabled, .. } => Some(Self {
                name: name.as_deref(),
                leads_in_full: plan.map(|plan| plan.leads_in_full),
                brand: brand.as_ref(),
                invites_enabled: *invites_enabled,
                ..Self::default()
            }),
            FirmEvent::FirmNoticesChanged { notices, .. } => {
                Some(Self { notices: *notices, ..Self::default() })
            }
            FirmEvent::FirmSuspended { .. } => Some(entered(FirmStatus::Suspended)),
            FirmEvent::FirmResumed { .. } => Some(entered(FirmStatus::Active)),
            FirmEvent::FirmClosed { .. } => Some(entered(FirmStatus::Closed)),
            FirmEvent::MemberJoined { .. }
            | FirmEvent::MemberRoleChanged { .. }
            | FirmEvent::MemberDisabled { .. }
            | FirmEvent::MemberEnabled { .. }
            | FirmEvent::MemberLeft { .. }
            | FirmEvent::SecretRevealed {}
            | FirmEvent::SecretRotated { .. }
            | FirmEvent::FirmDataDropped {} => None,
        }
    }

    fn merge_next(&mut self, next: &Self) {
        self.opened |= next.opened;
        self.name = next.name.or(self.name);
        self.status = next.status.or(self.status);
        self.leads_in_full = next.leads_in_full.or(self.leads_in_full);
        self.brand = next.brand.or(self.brand);
        self.invites_enabled = next.invites_enabled.or(self.invites_enabled);
        self.notices = next.notices.merged_after(self.notices);
    }
}

async fn write_changes(
    connection: &mut PgConnection,
    changes: &BTreeMap<Uuid, FirmUpdate<'_>>,
) -> Result<(), sqlx::Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let of = || changes.values();
    sqlx::query(
        "with t as (
             select * from unnest($1::uuid[], $2::bool[], $3::text[], $4::text[], $5::bool[],
                                  $6::jsonb[], $7::bool[], $8::bool[], $9::text[])
                  as t(firm_id, opened, name, status, leads_in_full, brand, invites_enabled,
                       notices_mailed, notices_lang)
         ), changed as (
             update firms f
                set name = coalesce(t.name, f.name), status = coalesce(t.status, f.status),
                    leads_in_full = coalesce(t.leads_in_full, f.leads_in_full),
                    brand = coalesce(t.brand, f.brand),
                    invites_enabled = coalesce(t.invites_enabled, f.invites_enabled),
                    notices_mailed = coalesce(t.notices_mailed, f.notices_mailed),
                    notices_lang = coalesce(t.notices_lang, f.notices_lang)
               from t where f.firm_id = t.firm_id and not t.opened
         )
         insert into firms (firm_id, name, status, leads_in_full, brand, invites_enabled,
                            notices_mailed, notices_lang)
         select firm_id, name, status, leads_in_full, brand, coalesce(invites_enabled, true),
                coalesce(notices_mailed, true), coalesce(notices_lang, 'en')
           from t where opened",
    )
    .bind(changes.keys().copied().collect::<Vec<_>>())
    .bind(of().map(|change| change.opened).collect::<Vec<_>>())
    .bind(of().map(|change| change.name).collect::<Vec<_>>())
    .bind(of().map(|change| change.status.map(status_name)).collect::<Vec<_>>())
    .bind(of().map(|change| change.leads_in_full).collect::<Vec<_>>())
    .bind(of().map(|change| change.brand.map(Json)).collect::<Vec<_>>())
    .bind(of().map(|change| change.invites_enabled).collect::<Vec<_>>())
    .bind(of().map(|change| change.notices.mail).collect::<Vec<_>>())
    .bind(of().map(|change| change.notices.lang.map(Lang::code)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// A firm in the operators' list.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct FirmRow {
    /// The id of the firm.
    pub firm_id: Uuid,
    /// The name of the firm.
    pub name: String,
    /// The status: `active`, `suspended` or `closed`.
    pub status: String,
}

/// Lists all firms by name.
pub async fn list(pool: &PgPool) -> Result<Vec<FirmRow>, sqlx::Error> {
    sqlx::query_as("select firm_id, name, status from firms order by name, firm_id")
        .fetch_all(pool)
        .await
}

/// Lists some firms by name, after one of them.
pub async fn page(
    pool: &PgPool,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<FirmRow>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, name, status from firms
          where (name, firm_id) > (coalesce((select name from firms where firm_id = $1), ''),
                                   coalesce($1, '00000000-0000-0000-0000-000000000000'))
          order by name, firm_id limit $2",
    )
    .bind(after)
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// Finds these firms, by name.
pub async fn named(pool: &PgPool, firm_ids: &[Uuid]) -> Result<Vec<FirmRow>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, name, status from firms where firm_id = any($1) order by name, firm_id",
    )
    .bind(firm_ids)
    .fetch_all(pool)
    .await
}

/// Returns the firm's name. A firm whose data are dropped has none.
pub async fn name(pool: &PgPool, firm_id: Uuid) -> Result<Option<String>, sqlx::Error> {
    let name: Option<String> = sqlx::query_scalar("select name from firms where firm_id = $1")
        .bind(firm_id)
        .fetch_optional(pool)
        .await?;
    Ok(name.filter(|name| !name.is_empty()))
}

/// Locks firms whose status is about to change, before their subscriptions are listed.
pub async fn lock(connection: &mut PgConnection, firm_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query("select 1 from firms where firm_id = any($1) order by firm_id for update")
        .bind(firm_ids)
        .execute(connection)
        .await?;
    Ok(())
}

/// A known firm, and whether its data are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct KnownFirm {
    /// The firm.
    pub firm_id: Uuid,
    /// Tells whether the firm was closed and its data are dropped.
    pub is_dropped: bool,
}

/// Returns the known firms among these. Closed firms are known.
pub async fn known_firms(
    connection: &mut PgConnection,
    firm_ids: &[Uuid],
) -> Result<Vec<KnownFirm>, sqlx::Error> {
    if firm_ids.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_as(
        "select firm_id, dropped_at is not null as is_dropped from firms where firm_id = any($1)",
    )
    .bind(firm_ids)
    .fetch_all(connection)
    .await
}

/// Returns the plans of these firms.
pub async fn plans(
    connection: &mut PgConnection,
    firm_ids: &[Uuid],
) -> Result<Vec<(Uuid, FirmPlan)>, sqlx::Error> {
    if firm_ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<(Uuid, bool)> =
        sqlx::query_as("select firm_id, leads_in_full from firms where firm_id = any($1)")
            .bind(firm_ids)
            .fetch_all(connection)
            .await?;
    Ok(rows.into_iter().map(|(id, leads_in_full)| (id, FirmPlan { leads_in_full })).collect())
}

/// Returns whether this firm is neither suspended nor closed. Returns `None` for an unknown firm.
pub async fn is_active(pool: &PgPool, firm_id: Uuid) -> Result<Option<bool>, sqlx::Error> {
    sqlx::query_scalar("select status = 'active' from firms where firm_id = $1")
        .bind(firm_id)
        .fetch_optional(pool)
        .await
}

/// Returns whether this firm is suspended.
pub async fn is_suspended(
    connection: &mut PgConnection,
    firm_id: Uuid,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (select 1 from firms where firm_id = $1 and status = 'suspended')",
    )
    .bind(firm_id)
    .fetch_one(connection)
    .await
}

/// Returns whether this firm is closed.
pub async fn is_closed(pool: &PgPool, firm_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (select 1 from firms where firm_id = $1 and status = 'closed')",
    )
    .bind(firm_id)
    .fetch_one(pool)
    .await
}

/// Returns the standing of a known firm. The lock keeps the standing until the transaction ends.
pub async fn hold_open(
    connection: &mut PgConnection,
    firm_id: Uuid,
) -> Result<Option<FirmStanding>, sqlx::Error> {
    let row: Option<(bool, bool)> = sqlx::query_as(
        "select leads_in_full, status = 'closed' from firms where firm_id = $1 for share",
    )
    .bind(firm_id)
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|(leads_in_full, closed)| {
        if closed { FirmStanding::Closed } else { FirmStanding::Open(FirmPlan { leads_in_full }) }
    }))
}

/// Tells whether a firm may still have deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirmStanding {
    /// The firm may have deliveries, with this plan. Deliveries of a suspended firm wait.
    Open(FirmPlan),
    /// The firm can have no deliveries any more.
    Closed,
}

/// The settings with which a firm sends mail.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct MailSenderRow {
    /// The name of the firm.
    pub name: String,
    /// The look of the firm's mails.
    pub brand: Json<FirmBrand>,
    /// Tells whether the firm sends invites.
    pub invites_enabled: bool,
}

/// Returns the mail settings of a known firm.
pub async fn mail_sender(
    executor: impl PgExecutor<'_>,
    firm_id: Uuid,
) -> Result<Option<MailSenderRow>, sqlx::Error> {
    sqlx::query_as("select name, brand, invites_enabled from firms where firm_id = $1")
        .bind(firm_id)
        .fetch_optional(executor)
        .await
}

/// The name of a firm, and the notices that it wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeReader {
    /// The name of the firm.
    pub name: String,
    /// Its settings.
    pub notices: NoticeSettings,
}

/// Returns the notice settings of a known firm.
pub async fn notice_reader(
    connection: &mut PgConnection,
    firm_id: Uuid,
) -> Result<Option<NoticeReader>, sqlx::Error> {
    let row: Option<(String, bool, String)> =
        sqlx::query_as("select name, notices_mailed, notices_lang from firms where firm_id = $1")
            .bind(firm_id)
            .fetch_optional(connection)
            .await?;
    Ok(row.map(|(name, mail, lang)| NoticeReader {
        name,
        notices: NoticeSettings { lang: Lang::read(&lang).unwrap_or_default(), mail },
    }))
}

const fn status_name(status: FirmStatus) -> &'static str {
    match status {
        FirmStatus::Active => "active",
        FirmStatus::Suspended => "suspended",
        FirmStatus::Closed => "closed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::values::Timestamp;

    const FIRM: Uuid = Uuid::from_u128(1);

    fn time() -> Timestamp {
        "2026-11-01T00:00:00.000Z".parse().unwrap()
    }

    fn named(name: &str) -> FirmEvent {
        FirmEvent::FirmChanged {
            name: Some(name.into()),
            plan: None,
            brand: None,
            invites_enabled: Some(false),
            time: time(),
        }
    }

    fn folded(events: &[FirmEvent]) -> BTreeMap<Uuid, FirmUpdate<'_>> {
        fold_changes(events.iter().map(|event| (FIRM, event)))
    }

    #[test]
    fn the_last_word_on_each_setting_counts() {
        let opened = FirmEvent::FirmOpened {
            name: "A".into(),
            plan: FirmPlan { leads_in_full: true },
            brand: FirmBrand::default(),
            time: time(),
        };
        let suspended = FirmEvent::FirmSuspended { time: time() };
        let events = [opened, named("B"), suspended, named("C")];
        let expected = FirmUpdate {
            opened: true,
            name: Some("C"),
            status: Some(FirmStatus::Suspended),
            leads_in_full: Some(true),
            brand: Some(&FirmBrand::default()),
            invites_enabled: Some(false),
            notices: NoticeChange::default(),
        };
        assert_eq!(folded(&events), BTreeMap::from([(FIRM, expected)]));
    }

    #[test]
    fn an_unnamed_setting_stays() {
        let resumed =
            [FirmEvent::FirmSuspended { time: time() }, FirmEvent::FirmResumed { time: time() }];
        let expected = FirmUpdate { status: Some(FirmStatus::Active), ..FirmUpdate::default() };
        assert_eq!(folded(&resumed), BTreeMap::from([(FIRM, expected)]));
        let left = FirmEvent::MemberLeft { member_id: FIRM, time: time() };
        assert_eq!(folded(&[left, FirmEvent::SecretRevealed {}]), BTreeMap::new());
    }
}
