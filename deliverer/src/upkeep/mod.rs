//! Upkeep: workers that a delivery does not pass through.
//!
//! - [`EndedLeaseWorker`] takes over attempts of processes that are gone.
//! - [`CancelWorker`] cancels the rows of closed lanes, and of firms that stay suspended.
//! - [`ReplayWorker`] queues deliveries again that replays name, at the replay's rate.
//! - [`EraseWorker`] carries out erasures. [`redo_erasures()`] repeats them after a restore.
//! - [`ExpireWorker`] records which responses expire after their retention.
//! - [`ClosedFirmWorker`] drops the data of closed firms after their grace time.
//! - [`PurgeWorker`] deletes bodies and answers after their retention.

mod cancel;
mod closed_firms;
mod ended_leases;
mod erase;
mod expire;
mod purge;
mod redo_erasures;
mod replay;

pub use self::cancel::CancelWorker;
pub use self::closed_firms::ClosedFirmWorker;
pub use self::ended_leases::EndedLeaseWorker;
pub use self::erase::EraseWorker;
pub use self::expire::ExpireWorker;
pub use self::purge::PurgeWorker;
pub use self::redo_erasures::{ErasureProgress, erasure_progress, redo_erasures};
pub use self::replay::ReplayWorker;
