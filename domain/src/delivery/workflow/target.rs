//! The target of a workflow step's webhook.

use serde::{Deserialize, Serialize};

use crate::subscription::{host_of, origin_of, shown_target};

/// Target of a step's webhook. Workflow builders put answers of people into URLs, so the vault
/// holds the URL (ruling 44).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StepTarget {
    /// The vault holds the URL.
    InVault {
        /// Keyed digest of the URL, lower-case hex. It tells whether two URLs are equal, and cannot
        /// be guessed.
        digest: String,
        /// Scheme, host and port of the URL.
        origin: String,
    },
    /// An older build wrote the URL into the log.
    InLog {
        /// The URL.
        url: String,
    },
}

impl StepTarget {
    /// Host of the target, as a key for counting.
    #[must_use]
    pub fn host(&self) -> String {
        match self {
            Self::InVault { origin, .. } => host_of(origin),
            Self::InLog { url } => host_of(url),
        }
    }

    /// Scheme, host and port of the target.
    #[must_use]
    pub fn origin(&self) -> String {
        match self {
            Self::InVault { origin, .. } => origin.clone(),
            Self::InLog { url } => origin_of(url).unwrap_or_default(),
        }
    }

    /// The target for display, with its path and query masked.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::InVault { origin, .. } => shown_target(origin),
            Self::InLog { url } => shown_target(url),
        }
    }
}
