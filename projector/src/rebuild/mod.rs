//! A rebuild makes read models from the log again, beside live traffic. It proves that they follow
//! from the log, and repairs one that does not (invariant I7; cases F10, E9 and G12).
//!
//! 1. *Fill* (`fill`): the usual writers apply the log from position zero, below the fence. Their
//!    connection sees shadow tables instead of the live ones.
//! 2. *Compare* (`compare`): the live tables, as they are at one moment, are compared with the
//!    shadow at the same moment. No caller waits for this.
//! 3. *Swap* (`shadow::replace`): one short transaction locks the live tables, applies the events
//!    since, and replaces the live tables with the shadow's. Prepared statements find the new
//!    tables by name. A writer that waited for the lock writes into the new tables.
//!
//! A rebuild sends nothing and touches no work queue, because the writers of read models do
//! neither. A column that does not follow from the log is copied (`kept`).

mod compare;
mod definition;
mod error;
mod fill;
mod kept;
mod model;
mod order;
mod shadow;
mod status;

use std::time::{Duration, Instant};

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use eventstore::{Fence, Store, crash};
use sqlx::{Connection, Executor, PgConnection, PgPool};

pub use compare::{ModelDigest, RowDifference};
pub use error::RebuildError;
pub use model::{ReadModel, UnknownModel};
pub use order::{
    RebuildAct, RebuildOrder, RebuildOutcome, RebuildProgress, RebuildReport, TRIES_MAX,
    UnfinishedRebuild,
};
pub use status::{ModelStatus, list_statuses};

use compare::ModelComparison;
use fill::{FillLimit, ModelFill};
use shadow::ShadowTables;

/// The wait between two attempts, in which no caller is blocked.
const RETRY_INTERVAL: Duration = Duration::from_millis(400);

/// Rebuilds and compares read models, one after the other. Replaces the live tables if the order
/// says so.
///
/// # Errors
/// [`UnfinishedRebuild`], with the reports of the finished models.
pub async fn rebuild_models(
    pool: &PgPool,
    order: &RebuildOrder,
    progress: &RebuildProgress<'_>,
) -> Result<Vec<RebuildReport>, UnfinishedRebuild> {
    let shadow = ShadowTables::open(pool, &order.models).await?;
    let fence = Fence::new(&Store::new(pool.clone(), Vec::new()));
    let mut rebuild = Rebuild { shadow, fence, order, progress };
    let reports = rebuild.rebuild_all().await;
    let closed = rebuild.shadow.close().await;
    let reports = reports?;
    closed?;
    Ok(reports)
}

struct Rebuild<'a> {
    shadow: ShadowTables,
    fence: Fence,
    order: &'a RebuildOrder,
    progress: &'a RebuildProgress<'a>,
}

impl Rebuild<'_> {
    async fn rebuild_all(&mut self) -> Result<Vec<RebuildReport>, UnfinishedRebuild> {
        let first_day = self.first_day();
        let mut fillings: Vec<ModelFill> =
            self.order.models.iter().map(|model| ModelFill::new(*model, first_day)).collect();
        self.fill_models(&mut fillings).await?;
        let mut done = Vec::new();
        for filling in &mut fillings {
            match self.rebuild_one(filling).await {
                Ok(report) => done.push(report),
                Err(why) => return Err(UnfinishedRebuild { done, why }),
            }
        }
        Ok(done)
    }

    /// Housekeeping may have forgotten the counts of earlier days, and no caller asks for them.
    fn first_day(&self) -> NaiveDate {
        self.order.now.date_naive() - TimeDelta::days(1)
    }

    async fn fill_models(&mut self, fillings: &mut [ModelFill]) -> Result<(), RebuildError> {
        fill::fill_models(&mut self.shadow.connection, &self.fence, fillings, self.progress).await
    }

    async fn rebuild_one(
        &mut self,
        filling: &mut ModelFill,
    ) -> Result<RebuildReport, RebuildError> {
        let began = Instant::now();
        let written = filling.spent;
        self.shadow.check_definitions(filling.model).await?;
        let compared = match self.compare_model(filling).await {
            Ok(compared) => compared,
            Err(why) => {
                // A migration since the check can explain columns that one side lacks.
                self.shadow.check_definitions(filling.model).await?;
                return Err(why);
            }
        };
        let position = filling.applied_position();
        let mut outcome = RebuildOutcome::Compared;
        let mut held = Duration::ZERO;
        if self.order.act == RebuildAct::Replace {
            outcome = RebuildOutcome::Refused;
            if !compared.rewrites_proof {
                let state = ComparedState { position, digest: compared.digest };
                held = self.swap_tables(filling, state).await?;
                outcome = RebuildOutcome::Replaced;
            }
        }
        Ok(RebuildReport {
            model: filling.model,
            digest: compared.digest,
            position,
            events: filling.events,
            difference: compared.difference,
            outcome,
            took: written + began.elapsed(),
            held,
        })
    }

    /// Brings the shadow to one moment and compares it with the live tables of that moment.
    async fn compare_model(
        &mut self,
        filling: &mut ModelFill,
    ) -> Result<ModelComparison, RebuildError> {
        let mut connection = self.shadow.connect_to_live().await?;
        for _ in 0..self.order.tries {
            self.fill_models(std::slice::from_mut(filling)).await?;
            let mut live = connection.begin().await?;
            live.execute("set transaction isolation level repeatable read, read only").await?;
            let Some(rest) = filling.unfilled_events(&mut live, FillLimit::LOOKING).await? else {
                live.rollback().await?;
                tokio::time::sleep(RETRY_INTERVAL).await;
                continue;
            };
            let mut taken = self.shadow.connection.begin().await?;
            filling.apply_unfilled(&mut taken, &rest).await?;
            taken.commit().await?;
            let first_day = self.first_day();
            let shadow = &mut self.shadow.connection;
            let compared =
                compare::compare_tables(&mut live, shadow, filling.model, first_day).await?;
            live.rollback().await?;
            connection.close().await?;
            return Ok(compared);
        }
        Err(RebuildError::Unsettled)
    }

    /// Replaces the live tables with the shadow's. Returns for how long the live tables were
    /// locked.
    async fn swap_tables(
        &mut self,
        filling: &mut ModelFill,
        compared: ComparedState,
    ) -> Result<Duration, RebuildError> {
        let model = filling.model;
        let mut why = RebuildError::InUse(model);
        shadow::analyze_tables(&mut self.shadow.connection, model).await?;
        for number in 1..=self.order.tries {
            self.fill_models(std::slice::from_mut(filling)).await?;
            match self.try_swap(filling, number, compared).await? {
                SwapOutcome::Done(held) => return Ok(held),
                SwapOutcome::NotNow(reason) => why = reason,
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        Err(why)
    }

    /// Swaps all tables of the model or none. It gives up if another transaction uses the tables,
    /// or if too many events have come since.
    async fn try_swap(
        &mut self,
        filling: &mut ModelFill,
        number: u32,
        compared: ComparedState,
    ) -> Result<SwapOutcome, RebuildError> {
        let model = filling.model;
        let mut transaction = self.shadow.connection.begin().await?;
        if !shadow::lock_live(&mut transaction, model, number).await? {
            transaction.rollback().await?;
            return Ok(SwapOutcome::NotNow(RebuildError::InUse(model)));
        }
        let began = Instant::now();
        self.shadow.defined.check_unchanged(&mut transaction, model).await?;
        let Some(rest) = filling.unfilled_events(&mut transaction, FillLimit::HOLDING).await?
        else {
            transaction.rollback().await?;
            return Ok(SwapOutcome::NotNow(RebuildError::TooMuch(model)));
        };
        filling.apply_unfilled(&mut transaction, &rest).await?;
        kept::take_over(&mut transaction, model).await?;
        shadow::replace_live(&mut transaction, model).await?;
        note_rebuild(&mut transaction, model, self.order.now, compared).await?;
        crash::point("swapping");
        transaction.commit().await?;
        Ok(SwapOutcome::Done(began.elapsed()))
    }
}

/// The state of a shadow when it was compared.
#[derive(Debug, Clone, Copy)]
struct ComparedState {
    position: i64,
    digest: ModelDigest,
}

/// The result of one attempt to swap.
enum SwapOutcome {
    /// The swap is done. The live tables were locked for this time.
    Done(Duration),
    /// The next attempt may succeed.
    NotNow(RebuildError),
}

async fn note_rebuild(
    connection: &mut PgConnection,
    model: ReadModel,
    at: DateTime<Utc>,
    compared: ComparedState,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into public.rebuilds (model, rebuilt_at, position, digest) values ($1, $2, $3, $4)
             on conflict (model) do update
            set rebuilt_at = excluded.rebuilt_at, position = excluded.position,
                digest = excluded.digest",
    )
    .bind(model.name())
    .bind(at)
    .bind(compared.position)
    .bind(compared.digest.hex())
    .execute(connection)
    .await?;
    Ok(())
}
