//! The anatomy of every worker: `step` does one bounded batch and says what comes next; [`run`]
//! waits for a nudge, for that time, or for the end.

use std::error::Error;
use std::time::Duration;

use telemetry::metrics::WORKER_FAILURES;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// The longest a worker waits when nobody nudges it: the net under lost nudges.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The longest a step may take: no statement takes half of it. One that takes longer has lost its
/// connection without a word.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a worker that waits for more looks whether it was nudged meanwhile; if it was not, it waits no more.
const QUIET_FOR: Duration = Duration::from_millis(25);

/// The wait after a step that failed.
const FAILURE_BACKOFF: Duration = Duration::from_secs(1);

/// What comes after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// There may be more: again at once.
    Busy,
    /// Nothing to do for so long, unless nudged.
    IdleFor(Duration),
}

impl NextStep {
    /// Nothing to do until nudged.
    pub const IDLE: Self = Self::IdleFor(POLL_INTERVAL);
}

/// Something that works in steps.
pub trait Worker: Send {
    /// Its name in the log of the process.
    const NAME: &'static str;

    /// From the start of a step to the next one that a nudge asks for, at least. Who need not be there
    /// at once looks less often while much happens, and takes more at a time.
    const STEP_INTERVAL_MIN: Duration = Duration::ZERO;

    /// From the start of a step, too: the longest it waits for more while nudges keep coming. Then it takes in all of
    /// them at once. It is no less than the pace.
    const STEP_INTERVAL_MAX: Duration = Self::STEP_INTERVAL_MIN;

    /// What can go wrong in a step.
    type Error: Error + Send;

    /// Does one bounded batch. A step that fails has done nothing, and is tried again.
    fn step(&mut self) -> impl Future<Output = Result<NextStep, Self::Error>> + Send;
}

/// Steps until `stop`; a step under way is finished first.
pub async fn run<W: Worker>(
    mut worker: W,
    mut nudge: watch::Receiver<u64>,
    stop: CancellationToken,
) {
    WORKER_FAILURES.add(&[("worker", W::NAME)], 0);
    while !stop.is_cancelled() {
        nudge.mark_unchanged();
        let began = Instant::now();
        let wait = match timeout(STEP_TIMEOUT, worker.step()).await {
            Ok(Ok(NextStep::Busy)) => continue,
            Ok(Ok(NextStep::IdleFor(time))) => time.min(POLL_INTERVAL),
            Err(_) => {
                tracing::error!(worker = W::NAME, "a step got no answer; it will be tried again");
                WORKER_FAILURES.count(&[("worker", W::NAME)]);
                continue;
            }
            Ok(Err(error)) => {
                tracing::error!(worker = W::NAME, %error, "a step failed; it will be tried again");
                WORKER_FAILURES.count(&[("worker", W::NAME)]);
                nudge.mark_unchanged();
                sleep_unless_stopped(FAILURE_BACKOFF, &stop).await;
                continue;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
            changed = nudge.changed() => match changed {
                Ok(()) => wait_until_quiet((began + W::STEP_INTERVAL_MIN, began + W::STEP_INTERVAL_MAX), &mut nudge, &stop).await,
                Err(_) => sleep_unless_stopped(wait, &stop).await,
            }
        }
    }
}

/// Waits until the first of two moments; and on until a lull, or the last of them.
async fn wait_until_quiet(
    (first, last): (Instant, Instant),
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

/// A timer that is asked for no time at all takes up to two milliseconds: it is not asked.
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
    use std::future::pending;

    /// Hangs at its first step, says at its second that it did, and is idle then.
    struct Hanging {
        steps: u32,
        stepped: watch::Sender<u32>,
    }

    impl Worker for Hanging {
        const NAME: &'static str = "hanging";
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
        const STEP_INTERVAL_MIN: Duration = Duration::from_millis(PACE_MS);
        type Error = Infallible;

        async fn step(&mut self) -> Result<NextStep, Infallible> {
            self.stepped.send_modify(|steps| steps.push(Instant::now()));
            self.nudges.send_modify(|count| *count += 1);
            Ok(NextStep::IDLE)
        }
    }

    /// From step to step of one that nudges itself all the time; it begins between two ticks of the timers.
    async fn waits<const PACE_MS: u64>() -> Vec<Duration> {
        tokio::time::advance(Duration::from_micros(500)).await;
        let (stepped, mut seen) = watch::channel(Vec::new());
        let (nudges, stop) = (watch::Sender::new(0), CancellationToken::new());
        let nudge = nudges.subscribe();
        let worker = Nudged::<PACE_MS> { nudges, stepped };
        let running = tokio::spawn(run(worker, nudge, stop.clone()));
        let steps = seen.wait_for(|steps| steps.len() >= 3).await.unwrap().clone();
        stop.cancel();
        running.await.unwrap();
        steps.windows(2).map(|two| two[1] - two[0]).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_is_nudged_all_the_time_keeps_its_pace() {
        let pace = Duration::from_millis(25);
        let kept = pace..pace + Duration::from_millis(2);
        assert!(waits::<25>().await.iter().all(|wait| kept.contains(wait)));
    }

    /// How long somebody waits who is nudged so many times, so far apart, and what for.
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
            (began + STEP_INTERVAL_MIN, began + STEP_INTERVAL_MAX),
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
    async fn who_is_nudged_on_and_on_waits_longer_than_a_pace_but_not_for_ever() {
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
    async fn who_is_to_stop_waits_no_longer() {
        let stop = CancellationToken::new();
        let soon = tokio::time::sleep(QUIET_FOR);
        let stopping = async {
            soon.await;
            stop.cancel();
        };
        let (waited, ()) = tokio::join!(waited((QUIET_FOR / 2, 99), &stop), stopping);
        assert!(waited < STEP_INTERVAL_MIN, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_without_a_pace_steps_at_once_when_it_is_nudged() {
        assert!(waits::<0>().await.iter().all(Duration::is_zero), "it waited for a timer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_whose_connection_is_lost_without_a_word_is_tried_again() {
        let (stepped, mut seen) = watch::channel(0);
        let stop = CancellationToken::new();
        let nudges = watch::Sender::new(0);
        let worker = Hanging { steps: 0, stepped };
        let running = tokio::spawn(run(worker, nudges.subscribe(), stop.clone()));
        seen.wait_for(|steps| *steps == 2).await.unwrap();
        stop.cancel();
        running.await.unwrap();
    }
}
