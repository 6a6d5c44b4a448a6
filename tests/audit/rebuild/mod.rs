//! Read models made anew from the log (invariant I7; cases E9, F10 and G12).

mod equal;
mod live;
mod ranges;
pub(crate) mod tampered;

use projector::rebuild::{
    ReadModel, RebuildAct, RebuildOrder, RebuildReport, UnfinishedRebuild, rebuild_models,
};
use tests::World;

/// Makes these read models anew, and returns a report of each.
pub(crate) async fn make(
    world: &World,
    models: &[ReadModel],
    act: RebuildAct,
) -> Result<Vec<RebuildReport>, UnfinishedRebuild> {
    let now = world.clock.now().get();
    let order = RebuildOrder { models: models.to_vec(), act, now, tries: 2 };
    rebuild_models(world.pool(), &order, &|_, _| {}).await
}

/// Compares all read models with the log.
async fn verify(world: &World) -> Vec<RebuildReport> {
    make(world, &ReadModel::ALL, RebuildAct::Verify).await.unwrap()
}

/// Replaces all read models.
async fn rebuild(world: &World) -> Vec<RebuildReport> {
    make(world, &ReadModel::ALL, RebuildAct::Replace).await.unwrap()
}

/// The count and the digest of each model's rows.
fn digests(reports: &[RebuildReport]) -> Vec<(ReadModel, i64, String)> {
    reports.iter().map(|one| (one.model, one.digest.rows, one.digest.hex())).collect()
}

/// Fails unless each read model agrees with the log.
fn assert_equal(reports: &[RebuildReport]) {
    for report in reports {
        assert_eq!(report.difference, None, "{}", report.model);
    }
}

/// Changes something behind the service's back, as a superuser can.
async fn tamper(world: &World, statement: &str) {
    let forge = format!("begin; set local session_replication_role = replica; {statement}; commit");
    world.change_database(&forge).await;
}
