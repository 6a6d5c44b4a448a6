//! Every worker implements [`Worker`]. Its `step` does one bounded batch and returns the
//! [`NextStep`]. [`run_on`] then waits for news, for the time of that answer, or for the stop.

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use telemetry::metrics::WORKER_FAILURES;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::disk::count_refusal;
use crate::nudge::Nudge;
use crate::outage::FailureLog;

pub use crate::nudge::WakeOn;

/// The longest wait of a worker that gets no news. It bounds the cost of news that the pulse does
/// not see.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// The longest wait of a worker without any news. Its steps look at a clock of the process, and ask
/// the database when their time has come.
const TICK_INTERVAL: Duration = Duration::from_secs(1);

/// A worker that waits for more news looks this often for new nudges. Without a new nudge it steps.
const QUIET_FOR: Duration = Duration::from_millis(25);

/// The wait after a failed step.
const FAILURE_BACKOFF: Duration = Duration::from_secs(1);

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// More work may be due, so the next step follows at once.
    Busy,
    /// No work is due for this time, unless a nudge comes.
    IdleFor(Duration),
}

impl NextStep {
    /// No work is due until news comes.
    pub const IDLE: Self = Self::IdleFor(LOOK_INTERVAL);

    /// The work cannot be done now, because another process is at it, or the clock has a fault.
    pub const HELD_UP: Self = Self::IdleFor(Duration::from_secs(1));
}

/// A loop that does its work in bounded steps.
pub trait Worker: Send {
    /// The name of the worker in logs and metrics.
    const NAME: &'static str;

    /// The news that wakes the worker. Without news it still steps twice a minute.
    const WAKES: WakeOn;

    /// The query of the time at which work of this worker is first due, or null. The pulse asks it
    /// each second.
    const FIRST_DUE: Option<&'static str> = None;

    /// The shortest time from the start of one step to the start of a step that a nudge asks for. A
    /// worker that may be late steps less often under load, and does more in each step.
    const STEP_INTERVAL_MIN: Duration = Duration::ZERO;

    /// The longest time from the start of one step to the next while nudges keep coming. The next
    /// step then handles all of them. It must not be less than [`Self::STEP_INTERVAL_MIN`].
    const STEP_INTERVAL_MAX: Duration = Self::STEP_INTERVAL_MIN;

    /// The longest time a step may take. No statement of the service takes half of it, so a longer
    /// step has lost its connection without notice.
    const STEP_TIME_MAX: Duration = Duration::from_secs(60);

    /// The error of a step.
    type Error: Error + Send + 'static;

    /// Does one bounded batch. A failed step has changed nothing and is repeated.
    fn step(&mut self) -> impl Future<Output = Result<NextStep, Self::Error>> + Send;
}

/// Runs a worker until `stop`, with the nudges it declares.
pub fn run_on<W: Worker>(
    worker: W,
    nudge: &Nudge,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<W> {
    run_worker(
        MovableWorker { worker, moves: nudge.server_moves() },
        WorkerNews::subscribe::<W>(nudge),
        stop,
    )
}

/// A worker whose step ends when this process has moved to another server. A step that waits for a
/// server that is cut off would wait until its timeout.
struct MovableWorker<W> {
    worker: W,
    moves: watch::Receiver<u64>,
}

impl<W: Worker> Worker for MovableWorker<W> {
    const NAME: &'static str = W::NAME;
    const WAKES: WakeOn = W::WAKES;
    const FIRST_DUE: Option<&'static str> = W::FIRST_DUE;
    const STEP_INTERVAL_MIN: Duration = W::STEP_INTERVAL_MIN;
    const STEP_INTERVAL_MAX: Duration = W::STEP_INTERVAL_MAX;
    const STEP_TIME_MAX: Duration = W::STEP_TIME_MAX;
    type Error = W::Error;

    async fn step(&mut self) -> Result<NextStep, W::Error> {
        self.moves.mark_unchanged();
        tokio::select! {
            step = self.worker.step() => step,
            Ok(()) = self.moves.changed() => Ok(NextStep::Busy),
        }
    }
}

/// The news that a worker waits for.
struct WorkerNews {
    nudge: watch::Receiver<u64>,
    due: watch::Receiver<u64>,
}

impl WorkerNews {
    fn subscribe<W: Worker>(nudge: &Nudge) -> Self {
        let due = match W::FIRST_DUE {
            Some(sql) => nudge.due_questions().add(sql),
            None => watch::Sender::new(0).subscribe(),
        };
        Self { nudge: nudge.subscribe_on(W::WAKES), due }
    }

    fn mark_unchanged(&mut self) {
        self.nudge.mark_unchanged();
        self.due.mark_unchanged();
    }

    /// Waits for news. Without a sender there is none.
    async fn come(&mut self) {
        let nudged = async {
            if self.nudge.changed().await.is_err() {
                pending::<()>().await;
            }
        };
        let due = async {
            if self.due.changed().await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! { () = nudged => {}, () = due => {} }
    }
}

/// Logs a failed step, at the debug level if the log tells of it already.
fn log_failure(worker: &'static str, error: &(dyn Error + 'static), failures: &mut FailureLog) {
    if failures.is_news(error, Instant::now()) {
        tracing::error!(worker, %error, "a step failed; it will be tried again");
    } else {
        tracing::debug!(worker, %error, "a step failed; it will be tried again");
    }
}

/// Runs steps until `stop`. A running step ends first.
async fn run_worker<W: Worker>(mut worker: W, mut news: WorkerNews, stop: CancellationToken) {
    let longest_wait = match (W::WAKES, W::FIRST_DUE) {
        (WakeOn::Timer, None) => TICK_INTERVAL,
        _ => LOOK_INTERVAL,
    };
    WORKER_FAILURES.add(&[("worker", W::NAME)], 0);
    let mut failures = FailureLog::default();
    while !stop.is_cancelled() {
        // The mark comes before the step. So news during the step end the wait after it.
        news.mark_unchanged();
        let began = Instant::now();
        let step = timeout(W::STEP_TIME_MAX, worker.step()).await;
        if matches!(step, Ok(Ok(_))) && failures.is_recovery() {
            tracing::info!(worker = W::NAME, "its steps succeed again");
        }
        let wait = match step {
            Ok(Ok(NextStep::Busy)) => continue,
            Ok(Ok(NextStep::IdleFor(time))) => time.min(longest_wait),
            Err(_) => {
                tracing::error!(worker = W::NAME, "a step got no answer; it will be tried again");
                WORKER_FAILURES.count(&[("worker", W::NAME)]);
                sleep_unless_stopped(FAILURE_BACKOFF, &stop).await;
                continue;
            }
            Ok(Err(error)) => {
                log_failure(W::NAME, &error, &mut failures);
                count_refusal(&error);
                WORKER_FAILURES.count(&[("worker", W::NAME)]);
                news.mark_unchanged();
                sleep_unless_stopped(FAILURE_BACKOFF, &stop).await;
                continue;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
            () = news.come() => {
                let first = began + W::STEP_INTERVAL_MIN;
                let last = began + W::STEP_INTERVAL_MAX;
                wait_until_quiet(first, last, &mut news.nudge, &stop).await;
            }
        }
    }
}

/// Waits until `first`, and then until no nudge comes for [`QUIET_FOR`], but not past `last`.
async fn wait_until_quiet(
    first: Instant,
    last: Instant,
    nudge: &mut watch::Receiver<u64>,
    stop: &CancellationToken,
) {
    let left = first.saturating_duration_since(Instant::now());
    sleep_unless_stopped(left.saturating_sub(QUIET_FOR), stop).await;
    let mut goes_on = true;
    while goes_on && !stop.is_cancelled() {
        nudge.mark_unchanged();
        let until = last.min(Instant::now() + QUIET_FOR);
        sleep_unless_stopped(until.saturating_duration_since(Instant::now()), stop).await;
        goes_on = until < last && nudge.has_changed().unwrap_or(false);
    }
}

/// Returns at once for a zero wait, because a timer of zero takes up to two milliseconds.
async fn sleep_unless_stopped(time: Duration, stop: &CancellationToken) {
    if time.is_zero() {
        return;
    }
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(time) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Hangs at its first step, says at its second that it did, and is idle then.
    struct Hanging {
        steps: u32,
        stepped: watch::Sender<u32>,
    }

    impl Worker for Hanging {
        const NAME: &'static str = "hanging";
        const WAKES: WakeOn = WakeOn::Timer;
        type Error = Infallible;

        async fn step(&mut self) -> Result<NextStep, Infallible> {
            self.steps += 1;
            self.stepped.send_replace(self.steps);
            if self.steps == 1 { pending().await } else { Ok(NextStep::IDLE) }
        }
    }

    /// Says when it steps, and nudges itself each time.
    struct Nudged<const PACE_MS: u64> {
        nudges: watch::Sender<u64>,
        stepped: watch::Sender<Vec<Instant>>,
    }

    impl<const PACE_MS: u64> Worker for Nudged<PACE_MS> {
        const NAME: &'static str = "nudged";
        const WAKES: WakeOn = WakeOn::AnyEvent;
        const STEP_INTERVAL_MIN: Duration = Duration::from_millis(PACE_MS);
        type Error = Infallible;

        async fn step(&mut self) -> Result<NextStep, Infallible> {
            self.stepped.send_modify(|steps| steps.push(Instant::now()));
            self.nudges.send_modify(|count| *count += 1);
            Ok(NextStep::IDLE)
        }
    }

    fn nudged_by(nudges: &watch::Sender<u64>) -> WorkerNews {
        WorkerNews { nudge: nudges.subscribe(), due: watch::Sender::new(0).subscribe() }
    }

    /// The times between the steps of a worker that nudges itself all the time. The worker begins
    /// between two ticks of the timers.
    async fn waits<const PACE_MS: u64>() -> Vec<Duration> {
        tokio::time::advance(Duration::from_micros(500)).await;
        let (stepped, mut seen) = watch::channel(Vec::new());
        let (nudges, stop) = (watch::Sender::new(0), CancellationToken::new());
        let news = nudged_by(&nudges);
        let worker = Nudged::<PACE_MS> { nudges, stepped };
        let running = tokio::spawn(run_worker(worker, news, stop.clone()));
        let steps = seen.wait_for(|steps| steps.len() >= 3).await.unwrap().clone();
        stop.cancel();
        running.await.unwrap();
        steps.windows(2).map(|two| two[1] - two[0]).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_nudged_worker_keeps_its_pace() {
        let pace = Duration::from_millis(25);
        let kept = pace..pace + Duration::from_millis(2);
        assert!(waits::<25>().await.iter().all(|wait| kept.contains(wait)));
    }

    /// The time that a worker waits that is nudged so many times, so far apart.
    async fn waited((gap, times): (Duration, u32), stop: &CancellationToken) -> Duration {
        let nudges = watch::Sender::new(0);
        let (mut nudge, began) = (nudges.subscribe(), Instant::now());
        let nudging = async {
            for _ in 0..times {
                tokio::time::sleep(gap).await;
                nudges.send_modify(|count| *count += 1);
            }
            nudges.closed().await;
        };
        let waiting = wait_until_quiet(
            began + STEP_INTERVAL_MIN,
            began + STEP_INTERVAL_MAX,
            &mut nudge,
            stop,
        );
        tokio::select! {
            () = nudging => unreachable!("who is nudged is there"),
            () = waiting => began.elapsed(),
        }
    }

    const STEP_INTERVAL_MIN: Duration = Duration::from_millis(100);
    const STEP_INTERVAL_MAX: Duration = Duration::from_millis(300);

    #[tokio::test(start_paused = true)]
    async fn nudges_lengthen_a_wait_to_a_limit() {
        let (stop, moment) = (CancellationToken::new(), Duration::from_millis(3));
        let near = async |one: (Duration, u32), expected: Duration| {
            let waited = waited(one, &stop).await;
            assert!((expected..expected + moment).contains(&waited), "{waited:?} for {expected:?}");
        };
        near((QUIET_FOR / 2, 0), STEP_INTERVAL_MIN).await;
        near((QUIET_FOR * 2 + moment, 9), STEP_INTERVAL_MIN).await;
        near((QUIET_FOR - moment, 6), STEP_INTERVAL_MIN + QUIET_FOR * 3).await;
        near((QUIET_FOR / 2, 99), STEP_INTERVAL_MAX).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_the_wait() {
        let stop = CancellationToken::new();
        let soon = tokio::time::sleep(QUIET_FOR);
        let stopping = async {
            soon.await;
            stop.cancel();
        };
        let (waited, ()) = tokio::join!(waited((QUIET_FOR / 2, 99), &stop), stopping);
        assert!(waited < STEP_INTERVAL_MIN, "{waited:?}");
    }

    /// A nudge makes the worker step at once.
    #[tokio::test(start_paused = true)]
    async fn a_worker_without_pace_steps_at_once() {
        assert!(waits::<0>().await.iter().all(Duration::is_zero), "it waited for a timer");
    }

    /// The step waits for a former server, and the process moves to another one.
    #[tokio::test(start_paused = true)]
    async fn a_move_ends_a_hanging_step() {
        let (stepped, mut seen) = watch::channel(0);
        let (nudge, stop) = (Nudge::default(), CancellationToken::new());
        let began = Instant::now();
        let running = tokio::spawn(run_on(Hanging { steps: 0, stepped }, &nudge, stop.clone()));
        seen.wait_for(|steps| *steps == 1).await.unwrap();
        nudge.server_moved();
        seen.wait_for(|steps| *steps == 2).await.unwrap();
        assert!(began.elapsed() < Hanging::STEP_TIME_MAX);
        stop.cancel();
        running.await.unwrap();
    }

    /// The connection of the step is lost without a word.
    #[tokio::test(start_paused = true)]
    async fn a_step_that_hangs_is_repeated() {
        let (stepped, mut seen) = watch::channel(0);
        let stop = CancellationToken::new();
        let nudges = watch::Sender::new(0);
        let worker = Hanging { steps: 0, stepped };
        let running = tokio::spawn(run_worker(worker, nudged_by(&nudges), stop.clone()));
        seen.wait_for(|steps| *steps == 2).await.unwrap();
        stop.cancel();
        running.await.unwrap();
    }
}
