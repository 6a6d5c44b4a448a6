//! Wake-ups: a signal inside the process after each commit, and a coalesced NOTIFY across
//! processes on a connection of its own. Followers also look now and then: a lost nudge costs a
//! moment, never an event.

use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{Executor, PgPool};
use tokio::sync::watch;

const CHANNEL: &str = "firmforms_log";

/// NOTIFYs are sent at most this often.
const COALESCE: Duration = Duration::from_millis(10);

/// Wait before a lost connection is tried again.
const RECONNECT: Duration = Duration::from_millis(500);

/// Tells everybody who waits that there is something new.
#[derive(Clone)]
pub struct Nudge {
    /// Appends of this process: what other processes must be told.
    local: watch::Sender<u64>,
    /// All appends: what this process's followers wait for.
    any: watch::Sender<u64>,
}

impl Default for Nudge {
    fn default() -> Self {
        Self { local: watch::Sender::new(0), any: watch::Sender::new(0) }
    }
}

impl Nudge {
    /// Something was appended here.
    pub fn signal(&self) {
        self.local.send_modify(|count| *count += 1);
        self.wake();
    }

    /// Something may be new.
    pub fn wake(&self) {
        self.any.send_modify(|count| *count += 1);
    }

    /// A receiver; get it before the look, so that nothing between look and wait is missed.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.any.subscribe()
    }
}

/// Carries nudges between processes until dropped: sends ours, hears theirs.
///
/// A lost connection is made again; meanwhile followers look on their own.
pub async fn relay(pool: PgPool, nudge: Nudge) {
    tokio::join!(tell(&pool, &nudge), hear(&pool, &nudge));
}

/// Tells the other processes once; they look by themselves if it fails.
pub async fn announce(pool: &PgPool) {
    if let Err(error) = pool.execute("notify firmforms_log").await {
        tracing::debug!(%error, "could not tell the other processes");
    }
}

async fn tell(pool: &PgPool, nudge: &Nudge) {
    let mut local = nudge.local.subscribe();
    while local.changed().await.is_ok() {
        announce(pool).await;
        tokio::time::sleep(COALESCE).await;
    }
}

async fn hear(pool: &PgPool, nudge: &Nudge) {
    loop {
        if let Err(error) = listen(pool, nudge).await {
            tracing::debug!(%error, "could not hear the other processes");
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn listen(pool: &PgPool, nudge: &Nudge) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    loop {
        listener.recv().await?;
        nudge.wake();
    }
}
