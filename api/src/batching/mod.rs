//! Batching runs one statement or one transaction for many concurrent callers. Most of a short
//! statement's cost is its round trip (docs/explanation/performance.md).
//!
//! [`batcher`] serves intake and token look-ups. A call that finds a free turn starts at once, in
//! its own task. Otherwise the call waits and joins the next batch. A batch has at most `max`
//! calls, and at most `parallel` batches run at a time. A batch that outlasts `turn_max` keeps
//! running but gives its turn away. A caller that joined a batch and disconnects loses the answer,
//! not the effect.
//!
//! [`key_batcher`] looks up API keys. A batch holds one call of a key: the key's second call waits
//! for the next batch. A call that waits too long is refused. A disconnected caller cancels
//! nothing.
//!
//! [`token_lookup`] looks up tokens through a `Batcher`. The [`token_cache`] remembers holders, so
//! that intake can confirm a token inside its own transaction.
//!
//! Two mechanisms stay, because each has a property that the other would lose:
//!
//! - A `Batcher` spawns no task for a lone call. A `KeyBatcher` has tasks of its own, and a task
//!   keeps one connection for many statements, outside the pool's queue.
//! - A `Batcher` may put two calls of one key into a batch. The rate limit counts a key's calls one
//!   by one, so a `KeyBatcher` must not.
//! - A `Batcher` has no limit on a call's wait. A `KeyBatcher` refuses a call after three seconds,
//!   as the pool does.
//! - A `Batcher` can linger for callers that call again at once. A `KeyBatcher` never lingers, and
//!   so never delays a lone read.

pub(crate) mod batcher;
pub(crate) mod key_batcher;
pub(crate) mod token_cache;
pub(crate) mod token_lookup;
