//! Where callers show their keys. Those who come while others are asked about go through together: what a
//! statement costs is mostly its coming and going (docs/performance.md, Reads).
//!
//! Attendants, who are tasks, ask. One comes with the first caller, keeps a connection as long as callers
//! keep coming, and leaves when none does. A statement has one call of a key: the key's next call goes in
//! the next, behind the others who wait by then, so that a key which calls without end holds up itself.

mod query;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use eventstore::Clock;
use projector::calls::KeyHash;
use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

pub(crate) use query::{CallerByKey, HooksByKey, KeyQuery};

use crate::Service;
use crate::error::Error;

/// Statements of a turnstile under way at once: with more there would be fewer callers in each.
const LOOKUP_TASKS_MAX: usize = 2;

/// The most callers in a statement.
const BATCH_KEYS_MAX: usize = 32;

/// How long an attendant waits for the next caller.
const TASK_IDLE_MAX: Duration = Duration::from_millis(100);

/// How long a caller waits for its turn before it is told to come back, as for a connection.
const CALL_WAIT_MAX: Duration = Duration::from_secs(3);

/// How long a statement may take, waiting for locks (5 s) included: one that takes longer has lost the
/// database without a word.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The turnstiles of a door. Clones share them.
#[derive(Clone, Default)]
pub struct KeyBatchers {
    pub(crate) callers: KeyBatcher<CallerByKey>,
    pub(crate) hooks: KeyBatcher<HooksByKey>,
}

/// A turnstile; clones share it.
pub(crate) struct KeyBatcher<Q: KeyQuery>(Arc<KeyQueue<Q::Answer>>);

struct KeyQueue<A> {
    waiting: Mutex<VecDeque<WaitingCall<A>>>,
    /// Somebody has come to wait.
    came: Notify,
    seats: Arc<Semaphore>,
}

/// A caller who waits.
struct WaitingCall<A> {
    key: KeyHash,
    since: Instant,
    told: oneshot::Sender<KeyAnswer<A>>,
}

type KeyAnswer<A> = Result<Option<A>, Error>;

type KeyBatch<A> = BTreeMap<KeyHash, WaitingCall<A>>;

impl<Q: KeyQuery> KeyBatcher<Q> {
    /// What is said of this key, whose call is counted; nothing if nobody has it.
    ///
    /// # Errors
    /// If the database does not answer in time.
    pub(crate) async fn look_up(&self, service: &Service, key: KeyHash) -> KeyAnswer<Q::Answer> {
        let (told, hears) = oneshot::channel();
        self.wait(service, WaitingCall { key, since: Instant::now(), told });
        hears.await.unwrap_or_else(|_| Err(Error::Internal("an attendant is gone".to_owned())))
    }

    /// Waits, and has an attendant come if there is a seat for one more.
    fn wait(&self, service: &Service, caller: WaitingCall<Q::Answer>) {
        let mut waiting = self.0.waiting();
        waiting.push_back(caller);
        match Arc::clone(&self.0.seats).try_acquire_owned() {
            Ok(seat) => {
                let attendant = LookupTask::<Q> {
                    shared: Arc::clone(&self.0),
                    seat: Some(seat),
                    pool: service.readers.clone(),
                    clock: service.clock.clone(),
                    connection: None,
                };
                tokio::spawn(attendant.attend());
            }
            Err(_) => self.0.came.notify_one(),
        }
    }
}

/// Who asks for those who wait. They wait for it in turn, so nobody else has to.
struct LookupTask<Q: KeyQuery> {
    shared: Arc<KeyQueue<Q::Answer>>,
    /// None once it has left.
    seat: Option<OwnedSemaphorePermit>,
    pool: PgPool,
    clock: Clock,
    /// One that has answered. Between statements it is outside a transaction and for nobody.
    connection: Option<PoolConnection<Postgres>>,
}

impl<Q: KeyQuery> LookupTask<Q> {
    async fn attend(mut self) {
        while let Some(batch) = self.next().await {
            let keys: Vec<KeyHash> = batch.keys().copied().collect();
            let answers = self.ask(&keys).await;
            tell(batch, answers);
        }
    }

    /// Those who go together; nobody, if nobody has come for a while.
    async fn next(&mut self) -> Option<KeyBatch<Q::Answer>> {
        let until = Instant::now() + TASK_IDLE_MAX;
        loop {
            if let Some(batch) = take(&mut self.shared.waiting()) {
                return Some(batch);
            }
            if timeout_at(until, self.shared.came.notified()).await.is_err() {
                let mut waiting = self.shared.waiting();
                let last = take(&mut waiting);
                // Whoever comes to wait after that finds the seat free.
                self.seat = self.seat.take().filter(|_| last.is_some());
                return last;
            }
        }
    }

    /// A connection that has not answered goes back to the pool, which looks at it.
    async fn ask(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<Q::Answer>>, Error> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.pool.acquire().await?,
        };
        let now = self.clock.now().get();
        let answers = timeout(STATEMENT_TIMEOUT, Q::ask(&mut connection, keys, now)).await;
        let answers = answers.map_err(|_| Error::Unavailable("no answer in time".to_owned()))??;
        self.connection = Some(connection);
        Ok(answers)
    }
}

/// The first call of each key that waits, up to so many; the others stay in their order. Who has waited
/// too long is told so.
fn take<A>(waiting: &mut VecDeque<WaitingCall<A>>) -> Option<KeyBatch<A>> {
    let (mut batch, mut later) = (KeyBatch::new(), VecDeque::new());
    while batch.len() < BATCH_KEYS_MAX
        && let Some(caller) = waiting.pop_front()
    {
        if caller.since.elapsed() > CALL_WAIT_MAX {
            caller.tell(Err(Error::Unavailable("a call waited too long for its turn".to_owned())));
        } else {
            match batch.entry(caller.key) {
                Entry::Vacant(place) => _ = place.insert(caller),
                Entry::Occupied(_) => later.push_back(caller),
            }
        }
    }
    later.append(waiting);
    *waiting = later;
    (!batch.is_empty()).then_some(batch)
}

fn tell<A>(batch: KeyBatch<A>, answers: Result<Vec<Option<A>>, Error>) {
    match answers {
        Ok(answers) => {
            batch.into_values().zip(answers).for_each(|(caller, answer)| caller.tell(Ok(answer)));
        }
        Err(error) => batch.into_values().for_each(|caller| caller.tell(Err(error.clone()))),
    }
}

impl<A> WaitingCall<A> {
    /// One who has hung up hears nothing.
    fn tell(self, told: KeyAnswer<A>) {
        let _ = self.told.send(told);
    }
}

impl<A> KeyQueue<A> {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<WaitingCall<A>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q: KeyQuery> Clone for KeyBatcher<Q> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Q: KeyQuery> Default for KeyBatcher<Q> {
    fn default() -> Self {
        Self(Arc::new(KeyQueue {
            waiting: Mutex::default(),
            came: Notify::new(),
            seats: Arc::new(Semaphore::new(LOOKUP_TASKS_MAX)),
        }))
    }
}

#[cfg(test)]
mod tests;
