//! The description of the public API: its snapshot, and its comparison with the doors.

mod answers;
mod deliveries;
mod described;
mod drive;
mod requests;
mod snapshot;
mod tenants;
