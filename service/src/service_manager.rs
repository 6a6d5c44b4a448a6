//! Messages to systemd (`Type=notify`). Without a service manager nobody listens, and each message
//! is nothing.

use std::time::Duration;

use sd_notify::{NotifyState, notify, watchdog_enabled};
use tokio_util::sync::CancellationToken;

/// Tells a state for `systemctl status`.
pub(crate) fn tell_status(status: &str) {
    send_states(&[NotifyState::Status(status)]);
}

/// Tells that the process is ready for work.
pub(crate) fn tell_ready(status: &str) {
    send_states(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells that the process ends.
pub(crate) fn tell_stopping(status: &str) {
    send_states(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Reports life until `stop`, twice in each period of the watchdog. A process whose runtime stands
/// still reports none, and systemd starts it again.
pub(crate) async fn keep_watchdog(stop: CancellationToken) {
    let Some(period) = watchdog_enabled().filter(|period| !period.is_zero()) else {
        return stop.cancelled().await;
    };
    let interval = (period / 2).max(Duration::from_millis(1));
    while !stop.is_cancelled() {
        send_states(&[NotifyState::Watchdog]);
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(interval) => {}
        }
    }
}

fn send_states(states: &[NotifyState<'_>]) {
    if let Err(error) = notify(states) {
        tracing::warn!(%error, "the service manager was not told");
    }
}
