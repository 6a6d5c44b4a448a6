//! Causes the drawn faults, one after the other. After each one the service must take a report in
//! again before the next one comes.

use std::time::{Duration, Instant};

use anyhow::Context;
use tests::{DrawnFault, Fault, FaultKind, Templates, TestDatabase};
use tokio::time::{sleep, timeout};

use super::load::Load;
use super::service::Services;

/// The service takes reports in again within this time after the end of a fault.
const TAKEN_WITHIN: Duration = Duration::from_secs(120);

/// The longest time by which an answer of the database is late.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// A fault that was caused.
pub(super) struct CausedFault {
    pub(super) kind: FaultKind,
    /// From the end of the fault to the next report that was taken in.
    pub(super) until_taken: Duration,
    /// The answers to COMMITs that it swallowed.
    pub(super) lost_commits: usize,
}

/// Where faults are caused.
pub(super) struct FaultScene<'a> {
    pub(super) cluster: &'a mut Templates,
    pub(super) database: &'a TestDatabase,
    pub(super) services: &'a Services,
    pub(super) load: &'a Load,
}

impl FaultScene<'_> {
    /// Causes these faults. Returns the result of each.
    pub(super) async fn cause_all(
        &mut self,
        faults: &[DrawnFault],
    ) -> anyhow::Result<Vec<CausedFault>> {
        let mut caused = Vec::new();
        for (index, fault) in faults.iter().enumerate() {
            sleep(fault.work).await;
            let name = fault.kind.name();
            let lost_commits =
                self.cause(fault).await.with_context(|| format!("fault {index}, {name}"))?;
            let ended = Instant::now();
            let taken = timeout(TAKEN_WITHIN, self.load.until_next_report()).await;
            taken.with_context(|| format!("nothing is taken in after fault {index}, {name}"))?;
            let until_taken = ended.elapsed();
            caused.push(CausedFault { kind: fault.kind, until_taken, lost_commits });
        }
        Ok(caused)
    }

    /// Causes a fault and waits for its end. Returns the number of answers to COMMITs that were
    /// lost.
    async fn cause(&mut self, fault: &DrawnFault) -> anyhow::Result<usize> {
        let DrawnFault { kind, choice, lasts, .. } = *fault;
        let disturbance = match kind {
            FaultKind::Delayed => Fault::Latency(lasts.min(DELAY_MAX)),
            FaultKind::Swallowed => Fault::BlackHole,
            FaultKind::CommitAnswersLost => Fault::ResetAfterCommit,
            FaultKind::Cut => return self.services.cut(choice).await.map(|()| 0),
            FaultKind::MachineLost => return self.services.lose_machine(choice).await.map(|()| 0),
            FaultKind::ServiceKilled => {
                return self.services.kill_and_start_again(choice).await.map(|()| 0);
            }
            FaultKind::ServerKilled(process) => {
                process.kill_in(&self.database.main).await;
                return Ok(0);
            }
            FaultKind::PostmasterKilled => {
                self.cluster.kill_postmaster().await;
                return Ok(0);
            }
        };
        self.services.disturb(choice, disturbance, lasts).await
    }
}
