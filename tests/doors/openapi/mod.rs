//! The description of the public API: held by a snapshot, and held against what the doors do.

mod answers;
mod deliveries;
mod described;
mod drive;
mod requests;
mod snapshot;
mod tenants;
