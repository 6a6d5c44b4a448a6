//! Headers of both doors: request ids, rates, repeated requests, encodings, caches.

mod cached;
mod encoding;
mod idempotency;
mod rate_limit;
mod request_ids;
