//! The read models must agree with the log (I7).

use projector::rebuild::{ReadModel, RebuildAct, RebuildOrder, TRIES_MAX, rebuild_models};
use sqlx::PgPool;

/// Every read model that differs from the one that a rebuild makes from the log.
pub(super) async fn violations(pool: &PgPool) -> Vec<String> {
    let now = sqlx::query_scalar("select now()").fetch_one(pool).await.unwrap();
    let order = RebuildOrder {
        models: ReadModel::ALL.to_vec(),
        act: RebuildAct::Verify,
        now,
        tries: TRIES_MAX,
    };
    let reports = rebuild_models(pool, &order, &|_, _| {}).await.unwrap();
    let differing =
        reports.into_iter().filter_map(|report| Some((report.model, report.difference?)));
    differing
        .map(|(model, first)| format!("I7: {model} is not what the log says: {first:?}"))
        .collect()
}
