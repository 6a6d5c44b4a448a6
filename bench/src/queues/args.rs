//! The options of `queues`.

use clap::{Args, ValueEnum, value_parser};

/// How much, and how often.
#[derive(Debug, Args)]
pub(crate) struct Queues {
    /// Deliveries of one lane that end while a snapshot is held.
    #[arg(long, default_value_t = 200_000, value_parser = value_parser!(i32).range(1_000..=2_000_000))]
    pub(super) finished: i32,
    /// Deliveries of a removed subscription; and of fifty together.
    #[arg(long, default_value_t = 400_000, value_parser = value_parser!(i32).range(50_000..=4_000_000))]
    pub(super) left: i32,
    /// Only these measurements. Without it, all.
    #[arg(long = "part", value_enum)]
    pub(super) parts: Vec<QueuePart>,
    /// Hosts with one retry each.
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(i32).range(1_000..=1_000_000))]
    pub(super) hosts: i32,
    /// Due lanes of a full host, and of a paused one.
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(i32).range(1_000..=1_000_000))]
    pub(super) lanes: i32,
    /// Unspread occurrences of a subscription whose key is revoked.
    #[arg(long, default_value_t = 500_000, value_parser = value_parser!(i32).range(1_000..=4_000_000))]
    pub(super) unspread: i32,
    /// Events a second of another firm meanwhile.
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u16).range(1..=1_000))]
    pub(super) rate: u16,
    /// Times of each measurement.
    #[arg(long, default_value_t = 300, value_parser = value_parser!(u32).range(5..=1_000))]
    pub(super) rounds: u32,
}

/// A measurement of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum QueuePart {
    /// Beside a held snapshot.
    Held,
    /// Long queues of removed subscriptions.
    Cancelling,
    /// Many lanes that cannot be claimed.
    Lanes,
    /// A key is revoked whose subscription has many unspread occurrences.
    Revoked,
}
