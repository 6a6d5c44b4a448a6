//! Record: writes the answers of attempts to the log, in batches. One transaction holds the attempt
//! event, the outbox row (deleted or due again), the count of 410s, the kept answer and the lane's
//! due time.
//!
//! - `batcher` takes answers from the dispatcher as they come, and records them in batches. `stuck`
//!   records the lanes of a refused batch one by one. Both keep to the bounds in `bounded`.
//! - `arrived` records successes in one statement, if nothing else must be decided. `in_time`
//!   records all other attempts that hold their leases. `late` records the rest: an answer counts
//!   once.
//! - `notices` records attempts to reach the operator's URL, apart from all others.
//! - `effects` collects the changes of a batch. `event` makes the attempt event.
//! - `lane` reads and locks lanes, `rows` reads and writes outbox rows.
//! - `beside` finds answers of other processes that a 410 must be judged with.
//! - `after` looks again after the commit, for changes it could not see without a lock.
//!
//! A batch can be recorded twice: the second time finds the first. A record does not decide about
//! retries or removals, [`domain`] does.

mod after;
mod arrived;
mod batcher;
mod beside;
mod bounded;
mod effects;
mod event;
mod in_time;
mod lane;
mod late;
mod notices;
mod rows;
mod stuck;

pub use self::batcher::AnswerInbox;
pub(crate) use self::batcher::recorder_tasks;
pub use self::in_time::record_batch;
