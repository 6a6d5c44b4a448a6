//! The guard of the actor checks, in each append, that the actor may still act.
//!
//! The firm must be active, the member a manager, and the key not revoked. The rows stay locked
//! until the commit, so a revocation commits either before or after the append. A key acts for its
//! member, so the member of a new key must be a manager too.

use domain::access::KeyEvent;
use domain::event::{Actor, Event, EventContext};
use eventstore::{AppendError, NewEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::PgConnection;
use uuid::Uuid;

pub(crate) struct ActorGuard;

impl WithAppend for ActorGuard {
    fn prepare_append<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a mut [NewEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let mut actors: Vec<(Uuid, Actor)> = Vec::new();
            for event in events {
                let EventContext { firm_id, actor, .. } = event.context;
                let of_key = match event.event {
                    Event::Key(KeyEvent::KeyCreated { member_id, .. }) => {
                        Some(Actor::Member(member_id))
                    }
                    _ => None,
                };
                for actor in [Some(actor), of_key].into_iter().flatten() {
                    if !actors.contains(&(firm_id, actor)) {
                        actors.push((firm_id, actor));
                    }
                }
            }
            for (firm_id, actor) in actors {
                if !may_act(connection, firm_id, actor).await? {
                    return Err(AppendError::ActorInactive);
                }
            }
            Ok(())
        })
    }
}

async fn may_act(
    connection: &mut PgConnection,
    firm_id: Uuid,
    actor: Actor,
) -> Result<bool, sqlx::Error> {
    match actor {
        Actor::Key(key_id) => Ok(lock_active_firm(connection, firm_id).await?
            && lock_active_key(connection, firm_id, key_id).await?),
        Actor::Member(member_id) => Ok(lock_active_firm(connection, firm_id).await?
            && lock_manager(connection, firm_id, member_id).await?),
        Actor::Operator(_)
        | Actor::NamedOperator(_)
        | Actor::Auditor(_)
        | Actor::Product(_)
        | Actor::Receiver(_)
        | Actor::Person(_)
        | Actor::System => Ok(true),
    }
}

async fn lock_active_firm(
    connection: &mut PgConnection,
    firm_id: Uuid,
) -> Result<bool, sqlx::Error> {
    let status: Option<String> =
        sqlx::query_scalar("select status from firms where firm_id = $1 for share")
            .bind(firm_id)
            .fetch_optional(connection)
            .await?;
    Ok(status.as_deref() == Some("active"))
}

async fn lock_active_key(
    connection: &mut PgConnection,
    firm_id: Uuid,
    key_id: Uuid,
) -> Result<bool, sqlx::Error> {
    let active: Option<bool> = sqlx::query_scalar(
        "select revoked_at is null from key_auth where key_id = $1 and firm_id = $2 for share",
    )
    .bind(key_id)
    .bind(firm_id)
    .fetch_optional(connection)
    .await?;
    Ok(active == Some(true))
}

async fn lock_manager(
    connection: &mut PgConnection,
    firm_id: Uuid,
    member_id: Uuid,
) -> Result<bool, sqlx::Error> {
    let manages: Option<bool> = sqlx::query_scalar(
        "select active and coalesce(role in ('owner', 'admin'), false) from members
          where firm_id = $1 and member_id = $2 for share",
    )
    .bind(firm_id)
    .bind(member_id)
    .fetch_optional(connection)
    .await?;
    Ok(manages == Some(true))
}
