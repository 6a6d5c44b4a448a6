//! Wake-ups: a signal inside the process after each commit, and a coalesced NOTIFY across
//! processes on a connection of its own. Followers also look now and then: a lost nudge costs a
//! moment, never an event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tokio::sync::watch;

const CHANNEL: &str = "firmforms_log";
const NOTIFY: &str = "notify firmforms_log";

/// NOTIFYs are sent at most this often.
const COALESCE: Duration = Duration::from_millis(10);

/// Wait before a lost connection is tried again.
const RECONNECT: Duration = Duration::from_millis(500);

/// What an append was of, as far as it matters who is woken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct News {
    /// There were occurrences in it: fan-out has work.
    pub occurrences: bool,
    /// Something became of deliveries: some may be due, or there may be room for others.
    pub deliveries: bool,
    /// There was something else in it.
    pub else_too: bool,
}

/// Tells everybody who waits that there is something new.
#[derive(Debug, Clone, Default)]
pub struct Nudge {
    /// Appends of this process: what other processes must be told.
    local: watch::Sender<u64>,
    /// All appends: what this process's followers wait for.
    any: watch::Sender<u64>,
    occurrences: watch::Sender<u64>,
    all_but_occurrences: watch::Sender<u64>,
    else_too: watch::Sender<u64>,
    /// The server's process that tells for us: what it says is heard here too. 0 while there is none.
    teller: Arc<AtomicU32>,
}

impl Nudge {
    /// Something was appended here.
    pub fn signal(&self, news: News) {
        count(&self.local);
        self.wake_for(news);
    }

    /// Something may be new, whatever it is.
    pub fn wake(&self) {
        self.wake_for(News { occurrences: true, deliveries: true, else_too: true });
    }

    fn wake_for(&self, news: News) {
        count(&self.any);
        if news.occurrences {
            count(&self.occurrences);
        }
        if news.deliveries || news.else_too {
            count(&self.all_but_occurrences);
        }
        if news.else_too {
            count(&self.else_too);
        }
    }

    /// A receiver; get it before the look, so that nothing between look and wait is missed.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.any.subscribe()
    }

    /// The same for who has work only if there may be occurrences.
    #[must_use]
    pub fn subscribe_to_occurrences(&self) -> watch::Receiver<u64> {
        self.occurrences.subscribe()
    }

    /// The same for who has none if there are only occurrences, or deliveries that need nobody.
    #[must_use]
    pub fn subscribe_to_all_but_occurrences(&self) -> watch::Receiver<u64> {
        self.all_but_occurrences.subscribe()
    }

    /// The same for who has none if there are only occurrences and deliveries: most of what is appended.
    #[must_use]
    pub fn subscribe_to_all_else(&self) -> watch::Receiver<u64> {
        self.else_too.subscribe()
    }
}

fn count(signal: &watch::Sender<u64>) {
    signal.send_modify(|count| *count += 1);
}

/// Carries nudges between processes until dropped: sends ours, hears theirs.
///
/// A lost connection is made again; meanwhile followers look on their own.
pub async fn relay(pool: PgPool, nudge: Nudge) {
    tokio::join!(tell(&pool, &nudge), hear(&pool, &nudge));
}

/// Tells the other processes once; they look by themselves if it fails.
pub async fn announce(pool: &PgPool) {
    if let Err(error) = pool.execute(NOTIFY).await {
        tracing::debug!(%error, "could not tell the other processes");
    }
}

async fn tell(pool: &PgPool, nudge: &Nudge) {
    let mut local = nudge.local.subscribe();
    loop {
        if let Err(error) = tell_on(pool, nudge, &mut local).await {
            tracing::debug!(%error, "could not tell the other processes");
        }
        nudge.teller.store(0, Ordering::Relaxed);
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn tell_on(
    pool: &PgPool,
    nudge: &Nudge,
    local: &mut watch::Receiver<u64>,
) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect_with(&pool.connect_options()).await?;
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut connection).await?;
    nudge.teller.store(pid.cast_unsigned(), Ordering::Relaxed);
    while local.changed().await.is_ok() {
        connection.execute(NOTIFY).await?;
        tokio::time::sleep(COALESCE).await;
    }
    Ok(())
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
        let told_by = listener.recv().await?.process_id();
        if told_by != nudge.teller.load(Ordering::Relaxed) {
            nudge.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_woken_for_what_is_not_theirs() {
        let nudge = Nudge::default();
        let woken = |by: &dyn Fn()| {
            let receivers = [
                nudge.subscribe(),
                nudge.subscribe_to_occurrences(),
                nudge.subscribe_to_all_but_occurrences(),
                nudge.subscribe_to_all_else(),
            ];
            by();
            receivers.map(|receiver| receiver.has_changed().unwrap())
        };
        let occurrences = News { occurrences: true, ..News::default() };
        let deliveries = News { deliveries: true, ..News::default() };
        let rest = News { else_too: true, ..News::default() };
        assert_eq!(woken(&|| nudge.signal(News::default())), [true, false, false, false]);
        assert_eq!(woken(&|| nudge.signal(occurrences)), [true, true, false, false]);
        assert_eq!(woken(&|| nudge.signal(deliveries)), [true, false, true, false]);
        assert_eq!(woken(&|| nudge.signal(rest)), [true, false, true, true]);
        assert_eq!(woken(&|| nudge.wake()), [true; 4]);
    }
}
