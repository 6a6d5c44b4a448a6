//! The quantities that grow.

use clap::ValueEnum;
use serde::Serialize;

/// The quantity that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Axis {
    /// Events in the log; at the last number also with the most subscriptions.
    Events,
    /// Subscriptions, of firms to which nothing happens.
    Subscriptions,
    /// Firms, to all of which something happens.
    Firms,
    /// Events and subscriptions: the end of `events`.
    #[value(skip)]
    Both,
}
