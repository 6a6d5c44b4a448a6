//! Looks up API keys, for many callers in one statement.
//!
//! Lookup tasks run the statements. A task starts with the first call, keeps its connection as long
//! as calls arrive, and ends when none does. A statement has one call of a key. The key's next call
//! waits for the next statement, behind the calls that wait by then. A key that calls without end
//! therefore delays only itself.

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

/// Concurrent statements of one batcher. More statements would have fewer calls each.
const LOOKUP_TASKS_MAX: usize = 2;

/// Most calls in a statement.
const BATCH_KEYS_MAX: usize = 32;

/// Longest time that a task waits for the next call.
const TASK_IDLE_MAX: Duration = Duration::from_millis(100);

/// Longest time that a call waits for its statement, the same as for a connection.
const CALL_WAIT_MAX: Duration = Duration::from_secs(3);

/// Longest duration of a statement, including its wait for locks (5 s). A slower statement has lost
/// the database without notice.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Both key batchers of the public API. Clones share them.
#[derive(Clone, Default)]
pub struct KeyBatchers {
    pub(crate) callers: KeyBatcher<CallerByKey>,
    pub(crate) hooks: KeyBatcher<HooksByKey>,
}

/// Batches the look-ups of one query. Clones share the queue.
pub(crate) struct KeyBatcher<Q: KeyQuery>(Arc<KeyQueue<Q::Answer>>);

struct KeyQueue<A> {
    waiting: Mutex<VecDeque<WaitingCall<A>>>,
    /// Signals a new call in the queue.
    came: Notify,
    seats: Arc<Semaphore>,
}

/// A call in the queue.
struct WaitingCall<A> {
    key: KeyHash,
    since: Instant,
    told: oneshot::Sender<KeyAnswer<A>>,
}

type KeyAnswer<A> = Result<Option<A>, Error>;

type KeyBatch<A> = BTreeMap<KeyHash, WaitingCall<A>>;

impl<Q: KeyQuery> KeyBatcher<Q> {
    /// Looks a key up and counts its call. Answers `None` for an unknown key.
    ///
    /// # Errors
    /// If the database does not answer in time.
    pub(crate) async fn look_up(&self, service: &Service, key: KeyHash) -> KeyAnswer<Q::Answer> {
        let (told, hears) = oneshot::channel();
        self.queue_call(service, WaitingCall { key, since: Instant::now(), told });
        hears.await.unwrap_or_else(|_| Err(Error::Internal("an attendant is gone".to_owned())))
    }

    /// Queues a call, and starts a task if fewer than the most tasks run.
    fn queue_call(&self, service: &Service, caller: WaitingCall<Q::Answer>) {
        let mut waiting = self.0.lock_waiting();
        waiting.push_back(caller);
        match Arc::clone(&self.0.seats).try_acquire_owned() {
            Ok(seat) => {
                let attendant = LookupTask::<Q> {
                    shared: Arc::clone(&self.0),
                    seat: Some(seat),
                    pool: service.pools.readers.clone(),
                    clock: service.clock.clone(),
                    connection: None,
                };
                tokio::spawn(attendant.serve_batches());
            }
            Err(_) => self.0.came.notify_one(),
        }
    }
}

/// Runs statements for the calls in the queue. Only this task waits for a connection.
struct LookupTask<Q: KeyQuery> {
    shared: Arc<KeyQueue<Q::Answer>>,
    /// `None` once the task has left.
    seat: Option<OwnedSemaphorePermit>,
    pool: PgPool,
    clock: Clock,
    /// A connection that has answered. Between statements it is in no transaction and restricted to
    /// no firm.
    connection: Option<PoolConnection<Postgres>>,
}

impl<Q: KeyQuery> LookupTask<Q> {
    async fn serve_batches(mut self) {
        while let Some(batch) = self.next().await {
            let keys: Vec<KeyHash> = batch.keys().copied().collect();
            let answers = self.ask_keys(&keys).await;
            answer_batch(batch, answers);
        }
    }

    /// The next batch, or `None` if no call has come for a while.
    async fn next(&mut self) -> Option<KeyBatch<Q::Answer>> {
        let until = Instant::now() + TASK_IDLE_MAX;
        loop {
            if let Some(batch) = take_batch(&mut self.shared.lock_waiting()) {
                return Some(batch);
            }
            if timeout_at(until, self.shared.came.notified()).await.is_err() {
                let mut waiting = self.shared.lock_waiting();
                let last = take_batch(&mut waiting);
                // A call that is queued after this point finds the seat free.
                self.seat = self.seat.take().filter(|_| last.is_some());
                return last;
            }
        }
    }

    /// A connection that has not answered goes back to the pool, which tests it.
    async fn ask_keys(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<Q::Answer>>, Error> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.pool.acquire().await?,
        };
        let now = self.clock.now().get();
        let answers = timeout(STATEMENT_TIMEOUT, Q::query_keys(&mut connection, keys, now)).await;
        let answers = answers.map_err(|_| Error::Unavailable("no answer in time".to_owned()))??;
        self.connection = Some(connection);
        Ok(answers)
    }
}

/// Takes the first call of each key, up to the most calls. Other calls keep their order. A call
/// that has waited too long gets an error.
fn take_batch<A>(waiting: &mut VecDeque<WaitingCall<A>>) -> Option<KeyBatch<A>> {
    let mut batch = KeyBatch::new();
    let mut later = VecDeque::new();
    while batch.len() < BATCH_KEYS_MAX
        && let Some(caller) = waiting.pop_front()
    {
        if caller.since.elapsed() > CALL_WAIT_MAX {
            caller.send_answer(Err(Error::Unavailable(
                "a call waited too long for its turn".to_owned(),
            )));
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

fn answer_batch<A>(batch: KeyBatch<A>, answers: Result<Vec<Option<A>>, Error>) {
    match answers {
        Ok(answers) => {
            batch
                .into_values()
                .zip(answers)
                .for_each(|(caller, answer)| caller.send_answer(Ok(answer)));
        }
        Err(error) => batch.into_values().for_each(|caller| caller.send_answer(Err(error.clone()))),
    }
}

impl<A> WaitingCall<A> {
    /// A disconnected caller hears nothing.
    fn send_answer(self, told: KeyAnswer<A>) {
        let _ = self.told.send(told);
    }
}

impl<A> KeyQueue<A> {
    fn lock_waiting(&self) -> MutexGuard<'_, VecDeque<WaitingCall<A>>> {
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
