//! A rebuild copies `replays.fed_until` from the live table, because the log does not have it. It
//! is the time up to which a replay's rate is used up.

use sqlx::{Executor, PgConnection};

use super::model::ReadModel;

/// Copies the column while the live tables are locked.
pub(super) async fn take_over(
    connection: &mut PgConnection,
    model: ReadModel,
) -> Result<(), sqlx::Error> {
    if model == ReadModel::Replays {
        let fed = "update shadow.replays s set fed_until = l.fed_until
                     from public.replays l where l.replay_id = s.replay_id";
        connection.execute(fed).await?;
    }
    Ok(())
}
