//! What the process tells of itself: the figures that it counts, the traces that it leaves. Every room
//! may tell; only the binary knows who reads.
//!
//! Nothing of a firm, a person or a receiver is told: labels are words of this code, and templates of
//! routes.

pub mod figures;
pub mod trace;

pub use figures::Metric;
