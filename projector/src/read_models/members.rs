//! The read model of members, as the product last reported each member. Managers among the members
//! may make keys.

use std::collections::BTreeMap;

use domain::event::Event;
use domain::firm::{FirmEvent, MemberRole};
use eventstore::{AppendError, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

/// The writer of the table `members`.
pub(crate) struct MemberWriter;

impl WithAppend for MemberWriter {
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
            Ok(write_changes(connection, &fold_changes(of_firms)).await?)
        })
    }
}

/// The changes to one member's row. `None` leaves the column as it is. A member that left loses all
/// earlier values.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct MemberUpdate {
    left: bool,
    role: Option<MemberRole>,
    active: Option<bool>,
}

/// Folds the events, in order, into one change per member of a firm.
fn fold_changes<'a>(
    events: impl Iterator<Item = (Uuid, &'a FirmEvent)>,
) -> BTreeMap<(Uuid, Uuid), MemberUpdate> {
    let mut changes: BTreeMap<(Uuid, Uuid), MemberUpdate> = BTreeMap::new();
    for (firm_id, event) in events {
        if let Some((member_id, next)) = MemberUpdate::new(event) {
            changes.entry((firm_id, member_id)).or_default().merge_next(next);
        }
    }
    changes
}

impl MemberUpdate {
    fn new(event: &FirmEvent) -> Option<(Uuid, Self)> {
        let change = |role, active| Self { left: false, role, active };
        match event {
            FirmEvent::MemberJoined { member_id, role, .. } => {
                Some((*member_id, change(Some(*role), Some(true))))
            }
            FirmEvent::MemberRoleChanged { member_id, role, .. } => {
                Some((*member_id, change(Some(*role), None)))
            }
            FirmEvent::MemberDisabled { member_id, .. } => {
                Some((*member_id, change(None, Some(false))))
            }
            FirmEvent::MemberEnabled { member_id, .. } => {
                Some((*member_id, change(None, Some(true))))
            }
            FirmEvent::MemberLeft { member_id, .. } => {
                Some((*member_id, Self { left: true, ..change(None, Some(false)) }))
            }
            FirmEvent::FirmOpened { .. }
            | FirmEvent::FirmChanged { .. }
            | FirmEvent::FirmSuspended { .. }
            | FirmEvent::FirmResumed { .. }
            | FirmEvent::FirmClosed { .. }
            | FirmEvent::SecretRevealed {}
            | FirmEvent::SecretRotated { .. }
            | FirmEvent::FirmNoticesChanged { .. }
            | FirmEvent::FirmDataDropped {} => None,
        }
    }

    fn merge_next(&mut self, next: Self) {
        if next.left {
            *self = next;
        } else {
            self.role = next.role.or(self.role);
            self.active = next.active.or(self.active);
        }
    }
}

/// Writes the changes. A member that no event has joined is active and has no role.
async fn write_changes(
    connection: &mut PgConnection,
    changes: &BTreeMap<(Uuid, Uuid), MemberUpdate>,
) -> Result<(), sqlx::Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let (firm_ids, member_ids): (Vec<Uuid>, Vec<Uuid>) = changes.keys().copied().unzip();
    sqlx::query(
        "with t as (
             select * from unnest($1::uuid[], $2::uuid[], $3::bool[], $4::text[], $5::bool[])
                  as t(firm_id, member_id, has_left, role, active)
         ), changed as (
             update members m
                set role = case when t.has_left then t.role else coalesce(t.role, m.role) end,
                    active = coalesce(t.active, m.active)
               from t where m.firm_id = t.firm_id and m.member_id = t.member_id
             returning m.firm_id, m.member_id
         )
         insert into members (firm_id, member_id, role, active)
         select firm_id, member_id, role, coalesce(active, true)
           from t where (firm_id, member_id) not in (select firm_id, member_id from changed)",
    )
    .bind(firm_ids)
    .bind(member_ids)
    .bind(changes.values().map(|change| change.left).collect::<Vec<_>>())
    .bind(changes.values().map(|change| change.role.map(role_name)).collect::<Vec<_>>())
    .bind(changes.values().map(|change| change.active).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Locks members whose rights are about to change, before their keys are listed.
pub async fn lock(
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

/// Returns whether any report named this member of the firm.
pub async fn is_known(
    executor: impl PgExecutor<'_>,
    firm_id: Uuid,
    member_id: Uuid,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select exists (select from members where firm_id = $1 and member_id = $2)")
        .bind(firm_id)
        .bind(member_id)
        .fetch_one(executor)
        .await
}

/// Returns whether the member is an active owner or admin of the firm; `None` if no report named
/// the member.
pub async fn manages(
    executor: impl PgExecutor<'_>,
    firm_id: Uuid,
    member_id: Uuid,
) -> Result<Option<bool>, sqlx::Error> {
    sqlx::query_scalar(
        "select active and coalesce(role in ('owner', 'admin'), false) from members
          where firm_id = $1 and member_id = $2",
    )
    .bind(firm_id)
    .bind(member_id)
    .fetch_optional(executor)
    .await
}

/// A member as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct MemberRow {
    /// The id of the member.
    pub member_id: Uuid,
    /// The role: `owner`, `admin` or `member`. A member that left has none.
    pub role: Option<String>,
    /// Whether the member may sign in.
    pub active: bool,
    /// The number of keys that act for the member.
    pub active_keys: i64,
}

/// Lists the members of a firm: first those that may make keys, by role.
pub async fn list(pool: &PgPool, firm_id: Uuid) -> Result<Vec<MemberRow>, sqlx::Error> {
    sqlx::query_as(
        "select m.member_id, m.role, m.active,
                (select count(*) from key_auth k
                  where k.firm_id = m.firm_id and k.member_id = m.member_id
                    and k.revoked_at is null) as active_keys
           from members m where m.firm_id = $1
          order by m.active desc, array_position(array['owner', 'admin', 'member'], m.role),
                   m.member_id",
    )
    .bind(firm_id)
    .fetch_all(pool)
    .await
}

const fn role_name(role: MemberRole) -> &'static str {
    match role {
        MemberRole::Owner => "owner",
        MemberRole::Admin => "admin",
        MemberRole::Member => "member",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::values::Timestamp;

    const FIRM: Uuid = Uuid::from_u128(1);
    const MEMBER: Uuid = Uuid::from_u128(2);

    fn time() -> Timestamp {
        "2026-11-01T00:00:00.000Z".parse().unwrap()
    }

    fn role(role: MemberRole) -> FirmEvent {
        FirmEvent::MemberRoleChanged { member_id: MEMBER, role, time: time() }
    }

    fn left() -> FirmEvent {
        FirmEvent::MemberLeft { member_id: MEMBER, time: time() }
    }

    fn disabled() -> FirmEvent {
        FirmEvent::MemberDisabled { member_id: MEMBER, time: time() }
    }

    fn folded(events: &[FirmEvent]) -> MemberUpdate {
        let changes = fold_changes(events.iter().map(|event| (FIRM, event)));
        assert!(changes.keys().eq([&(FIRM, MEMBER)]));
        changes[&(FIRM, MEMBER)]
    }

    #[test]
    fn role_and_activity_change_apart() {
        let (admin, owner) = (Some(MemberRole::Admin), Some(MemberRole::Owner));
        let change = |role, active| MemberUpdate { left: false, role, active };
        assert_eq!(folded(&[role(MemberRole::Admin)]), change(admin, None));
        assert_eq!(folded(&[disabled()]), change(None, Some(false)));
        assert_eq!(
            folded(&[role(MemberRole::Admin), disabled(), role(MemberRole::Owner)]),
            change(owner, Some(false))
        );
    }

    #[test]
    fn a_member_that_left_keeps_nothing() {
        let gone = MemberUpdate { left: true, role: None, active: Some(false) };
        assert_eq!(folded(&[role(MemberRole::Admin), left()]), gone);
        let again = MemberUpdate { role: Some(MemberRole::Member), ..gone };
        assert_eq!(folded(&[role(MemberRole::Admin), left(), role(MemberRole::Member)]), again);
    }
}
