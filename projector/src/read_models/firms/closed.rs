//! Closed firms, whose data are kept for a grace time and then dropped (ruling 45, a closed firm's
//! data).

use domain::event::Event;
use domain::firm::FirmEvent;
use eventstore::RecordedEvent;
use sqlx::PgConnection;
use uuid::Uuid;

/// Notes firms whose data are dropped. The worker's database role may change nothing else of a
/// firm.
pub(super) async fn note_dropped(
    connection: &mut PgConnection,
    events: &[RecordedEvent],
) -> Result<(), sqlx::Error> {
    let is_dropped = |recorded: &&RecordedEvent| {
        matches!(recorded.event, Event::Firm(FirmEvent::FirmDataDropped {}))
    };
    for recorded in events.iter().filter(is_dropped) {
        sqlx::query("update firms set dropped_at = $2 where firm_id = $1")
            .bind(recorded.context.firm_id)
            .bind(recorded.context.recorded_at.get())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Returns whether the data of this firm are dropped.
pub async fn is_dropped(connection: &mut PgConnection, firm_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (select 1 from firms where firm_id = $1 and dropped_at is not null)",
    )
    .bind(firm_id)
    .fetch_one(connection)
    .await
}

/// Returns firms after this one, up to `limit`.
pub async fn firms_after(
    connection: &mut PgConnection,
    firm_id: Uuid,
    limit: i64,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar("select firm_id from firms where firm_id > $1 order by firm_id limit $2")
        .bind(firm_id)
        .bind(limit)
        .fetch_all(connection)
        .await
}

/// Returns closed firms after this one whose data are not dropped yet, up to `limit`.
pub async fn closed_after(
    connection: &mut PgConnection,
    firm_id: Uuid,
    limit: i64,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select firm_id from firms
          where status = 'closed' and dropped_at is null and firm_id > $1
          order by firm_id limit $2",
    )
    .bind(firm_id)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Returns firms after this one whose data are dropped, up to `limit`.
pub async fn dropped_after(
    connection: &mut PgConnection,
    firm_id: Uuid,
    limit: i64,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select firm_id from firms
          where dropped_at is not null and firm_id > $1
          order by firm_id limit $2",
    )
    .bind(firm_id)
    .bind(limit)
    .fetch_all(connection)
    .await
}
