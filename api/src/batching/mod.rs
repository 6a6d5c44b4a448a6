//! Batching runs one statement or one transaction for many concurrent callers. Most of a short
//! statement's cost is its round trip (docs/performance.md, Reads).
//!
//! [`batcher`] serves calls that change rows and token look-ups. A call that finds a free turn starts
//! at once, in its own task. Otherwise the call waits and joins the next batch. A batch has at most
//! `max` calls; at most `parallel` batches run at a time. A batch that outlasts `turn_max` keeps
//! running but gives its turn away. A caller that joined a batch and disconnects loses the answer,
//! not the effect.
//!
//! [`key_batcher`] looks up API keys. A batch holds one call of a key: the key's second call waits
//! for the next batch. A call that has waited longer than a limit is refused. A disconnected caller
//! cancels nothing.
//!
//! [`token_cache`] looks up tokens through a `Batcher`. It also remembers holders, so that intake
//! can confirm a token inside its own transaction instead.
//!
//! Two mechanisms stay, because neither can do the other's work at the same speed:
//!
//! - A `Batcher` spawns no task for a lone call: the call runs its own batch, with the connection
//!   that its batch function takes. A key look-up lives for several statements in one task, which
//!   keeps its connection as long as calls arrive.
//! - A `Batcher` may run two calls for one key in one batch. The rate limit counts a key's calls one
//!   by one, so a `KeyBatcher` must not.
//! - A `Batcher` lets a lingering batch wait for callers who were just answered. A key look-up never
//!   lingers: most callers read once.

pub(crate) mod batcher;
pub(crate) mod key_batcher;
pub(crate) mod token_cache;
