//! The anatomy of every worker: `step` does one bounded batch and says what comes next; [`run`]
//! waits for a nudge, for that time, or for the end.

use std::error::Error;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The longest a worker waits when nobody nudges it: the net under lost nudges.
const POLL: Duration = Duration::from_secs(1);

/// The wait after a step that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What comes after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There may be more: again at once.
    Busy,
    /// Nothing to do for so long, unless nudged.
    IdleFor(Duration),
}

impl Step {
    /// Nothing to do until nudged.
    pub const IDLE: Self = Self::IdleFor(POLL);
}

/// Something that works in steps.
pub trait Worker: Send {
    /// Its name in the log of the process.
    const NAME: &'static str;

    /// What can go wrong in a step.
    type Error: Error + Send;

    /// Does one bounded batch. A step that fails has done nothing, and is tried again.
    fn step(&mut self) -> impl Future<Output = Result<Step, Self::Error>> + Send;
}

/// Steps until `stop`; a step under way is finished first.
pub async fn run<W: Worker>(
    mut worker: W,
    mut nudge: watch::Receiver<u64>,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        nudge.mark_unchanged();
        let wait = match worker.step().await {
            Ok(Step::Busy) => continue,
            Ok(Step::IdleFor(time)) => time.min(POLL),
            Err(error) => {
                tracing::error!(worker = W::NAME, %error, "a step failed; it will be tried again");
                nudge.mark_unchanged();
                pause(AFTER_FAILURE, &stop).await;
                continue;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
            changed = nudge.changed() => if changed.is_err() { pause(wait, &stop).await },
        }
    }
}

async fn pause(time: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(time) => {}
    }
}
