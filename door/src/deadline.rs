//! A deadline that is cheap to move. Most waits end long before their deadline.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The end of a wait.
#[derive(Debug, Default)]
pub(crate) struct Deadline {
    at: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// Sets the deadline, counted from now.
    pub(crate) fn set(&mut self, after: Duration) {
        self.set_at(Instant::now() + after);
    }

    /// Sets the deadline.
    pub(crate) fn set_at(&mut self, at: Instant) {
        self.at = Some(at);
    }

    /// Ready at the deadline. Never ready while no deadline is set.
    ///
    /// The timer is moved only if it would fire too late. A timer that fires early is set again,
    /// since the deadline was moved meanwhile.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() > at {
            timer.as_mut().reset(at);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= at {
                return Poll::Ready(());
            }
            timer.as_mut().reset(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    async fn passed(deadline: &mut Deadline) -> Duration {
        let begun = Instant::now();
        poll_fn(|cx| deadline.poll(cx)).await;
        begun.elapsed()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_deadline_ends_the_wait() {
        let mut deadline = Deadline::default();
        deadline.set(SECOND);
        assert_eq!(passed(&mut deadline).await, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_can_move_both_ways() {
        let mut deadline = Deadline::default();
        for seconds in [5, 9, 2] {
            deadline.set(SECOND * seconds);
            let poll = poll_fn(|cx| Poll::Ready(deadline.poll(cx))).await;
            assert!(poll.is_pending());
        }
        assert_eq!(passed(&mut deadline).await, SECOND * 2);
        deadline.set_at(Instant::now() + SECOND * 3);
        assert_eq!(passed(&mut deadline).await, SECOND * 3);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_deadline_a_wait_never_ends() {
        let mut deadline = Deadline::default();
        let waited = tokio::time::timeout(SECOND * 60, passed(&mut deadline)).await;
        assert!(waited.is_err());
    }
}
