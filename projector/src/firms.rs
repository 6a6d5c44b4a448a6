//! Firms and their members, as last reported.

use domain::event::Event;
use domain::firm::{Brand, FirmEvent, FirmStatus, Role};
use domain::trigger::Plan;
use eventstore::{AppendError, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// The writer.
pub(crate) struct Firms;

impl WithAppend for Firms {
    fn after<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            for recorded in events {
                if let Event::Firm(event) = &recorded.event {
                    apply(connection, recorded.context.firm_id, event).await?;
                }
            }
            Ok(())
        })
    }
}

async fn apply(
    connection: &mut PgConnection,
    firm_id: Uuid,
    event: &FirmEvent,
) -> Result<(), sqlx::Error> {
    match event {
        FirmEvent::FirmOpened { name, plan, brand, .. } => {
            open(connection, firm_id, name, *plan, brand).await
        }
        FirmEvent::FirmChanged { name, plan, brand, invites_enabled, .. } => {
            let plan = plan.map(|plan| plan.leads_in_full);
            let brand = brand.as_ref().map(Json);
            sqlx::query(
                "update firms set name = coalesce($2, name), brand = coalesce($4, brand),
                        leads_in_full = coalesce($3, leads_in_full),
                        invites_enabled = coalesce($5, invites_enabled) where firm_id = $1",
            )
            .bind(firm_id)
            .bind(name)
            .bind(plan)
            .bind(brand)
            .bind(invites_enabled)
            .execute(connection)
            .await
            .map(drop)
        }
        FirmEvent::FirmSuspended { .. } => enter(connection, firm_id, FirmStatus::Suspended).await,
        FirmEvent::FirmResumed { .. } => enter(connection, firm_id, FirmStatus::Active).await,
        FirmEvent::FirmClosed { .. } => enter(connection, firm_id, FirmStatus::Closed).await,
        FirmEvent::MemberJoined { member_id, role, .. } => {
            put_member(connection, (firm_id, *member_id), Some(*role), Some(true)).await
        }
        FirmEvent::MemberRoleChanged { member_id, role, .. } => {
            put_member(connection, (firm_id, *member_id), Some(*role), None).await
        }
        FirmEvent::MemberDisabled { member_id, .. } => {
            put_member(connection, (firm_id, *member_id), None, Some(false)).await
        }
        FirmEvent::MemberEnabled { member_id, .. } => {
            put_member(connection, (firm_id, *member_id), None, Some(true)).await
        }
        FirmEvent::MemberLeft { member_id, .. } => leave(connection, (firm_id, *member_id)).await,
        FirmEvent::SecretRevealed {} => Ok(()),
    }
}

async fn open(
    connection: &mut PgConnection,
    firm_id: Uuid,
    name: &str,
    plan: Plan,
    brand: &Brand,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into firms (firm_id, name, status, leads_in_full, brand)
         values ($1, $2, $3, $4, $5)",
    )
    .bind(firm_id)
    .bind(name)
    .bind(status_name(FirmStatus::Active))
    .bind(plan.leads_in_full)
    .bind(Json(brand))
    .execute(connection)
    .await?;
    Ok(())
}

async fn enter(
    connection: &mut PgConnection,
    firm_id: Uuid,
    status: FirmStatus,
) -> Result<(), sqlx::Error> {
    sqlx::query("update firms set status = $2 where firm_id = $1")
        .bind(firm_id)
        .bind(status_name(status))
        .execute(connection)
        .await?;
    Ok(())
}

/// What is not given stays; a member never heard of before is active and has no role.
async fn put_member(
    connection: &mut PgConnection,
    (firm_id, member_id): (Uuid, Uuid),
    role: Option<Role>,
    active: Option<bool>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into members as m (firm_id, member_id, role, active)
         values ($1, $2, $3, coalesce($4, true))
             on conflict (firm_id, member_id) do update
            set role = coalesce($3, m.role), active = coalesce($4, m.active)",
    )
    .bind(firm_id)
    .bind(member_id)
    .bind(role.map(role_name))
    .bind(active)
    .execute(connection)
    .await?;
    Ok(())
}

async fn leave(
    connection: &mut PgConnection,
    (firm_id, member_id): (Uuid, Uuid),
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into members (firm_id, member_id, role, active) values ($1, $2, null, false)
             on conflict (firm_id, member_id) do update set role = null, active = false",
    )
    .bind(firm_id)
    .bind(member_id)
    .execute(connection)
    .await?;
    Ok(())
}

/// A firm, for the operators' list.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct FirmRow {
    /// Its id.
    pub firm_id: Uuid,
    /// Its name.
    pub name: String,
    /// `active`, `suspended` or `closed`.
    pub status: String,
}

/// All firms, by name.
///
/// # Errors
/// If the database does not answer.
pub async fn list(pool: &PgPool) -> Result<Vec<FirmRow>, sqlx::Error> {
    sqlx::query_as("select firm_id, name, status from firms order by name, firm_id")
        .fetch_all(pool)
        .await
}

/// Locks a firm whose life is about to change, before its hooks are listed.
///
/// # Errors
/// If the database does not answer.
pub async fn lock(connection: &mut PgConnection, firm_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query("select 1 from firms where firm_id = any($1) order by firm_id for update")
        .bind(firm_ids)
        .execute(connection)
        .await?;
    Ok(())
}

/// Locks members whose rights are about to change, before their keys are listed.
///
/// # Errors
/// If the database does not answer.
pub async fn lock_members(
    connection: &mut PgConnection,
    members: &[(Uuid, Uuid)],
) -> Result<(), sqlx::Error> {
    let (firm_ids, member_ids): (Vec<Uuid>, Vec<Uuid>) = members.iter().copied().unzip();
    sqlx::query(
        "select 1 from members
          where (firm_id, member_id) in (select * from unnest($1::uuid[], $2::uuid[]))
          order by firm_id, member_id for update",
    )
    .bind(firm_ids)
    .bind(member_ids)
    .execute(connection)
    .await?;
    Ok(())
}

/// Those of these firms that are known, closed ones too.
///
/// # Errors
/// If the database does not answer.
pub async fn known(
    connection: &mut PgConnection,
    firm_ids: &[Uuid],
) -> Result<Vec<Uuid>, sqlx::Error> {
    if firm_ids.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_scalar("select firm_id from firms where firm_id = any($1)")
        .bind(firm_ids)
        .fetch_all(connection)
        .await
}

/// What these firms have paid for.
///
/// # Errors
/// If the database does not answer.
pub async fn plans(
    connection: &mut PgConnection,
    firm_ids: &[Uuid],
) -> Result<Vec<(Uuid, Plan)>, sqlx::Error> {
    if firm_ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<(Uuid, bool)> =
        sqlx::query_as("select firm_id, leads_in_full from firms where firm_id = any($1)")
            .bind(firm_ids)
            .fetch_all(connection)
            .await?;
    Ok(rows.into_iter().map(|(id, leads_in_full)| (id, Plan { leads_in_full })).collect())
}

/// Whether this firm is neither suspended nor closed; nothing if it is not known.
///
/// # Errors
/// If the database does not answer.
pub async fn is_active(pool: &PgPool, firm_id: Uuid) -> Result<Option<bool>, sqlx::Error> {
    sqlx::query_scalar("select status = 'active' from firms where firm_id = $1")
        .bind(firm_id)
        .fetch_optional(pool)
        .await
}

/// How a firm sends mail.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct SenderRow {
    /// Its name.
    pub name: String,
    /// How its mails look.
    pub brand: Json<Brand>,
    /// Whether it sends invites.
    pub invites_enabled: bool,
}

/// How this firm sends mail, if it is known.
///
/// # Errors
/// If the database does not answer.
pub async fn sender(pool: &PgPool, firm_id: Uuid) -> Result<Option<SenderRow>, sqlx::Error> {
    sqlx::query_as("select name, brand, invites_enabled from firms where firm_id = $1")
        .bind(firm_id)
        .fetch_optional(pool)
        .await
}

const fn status_name(status: FirmStatus) -> &'static str {
    match status {
        FirmStatus::Active => "active",
        FirmStatus::Suspended => "suspended",
        FirmStatus::Closed => "closed",
    }
}

const fn role_name(role: Role) -> &'static str {
    match role {
        Role::Owner => "owner",
        Role::Admin => "admin",
        Role::Member => "member",
    }
}
