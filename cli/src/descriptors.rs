//! File descriptors: the limit is raised at the start, and every part of the process has a share.
//! So callers of the public door never take the descriptors of databases, deliveries and the
//! internal door.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::serve_args::ServeArgs;

/// Descriptors of logs, listeners, mail and the runtime.
const BASE: usize = 96;

/// Descriptors of the database pools (48 connections) and of single connections beside them.
const DATABASES: usize = 64;

/// Descriptors of evicted connections of both doors that are not closed yet.
const EVICTED: usize = 64;

/// The most connections of the internal door, which has an eighth of a lower limit.
const INTERNAL_MAX: usize = 2_048;

/// The assumed limit if the system does not tell its own.
const UNKNOWN_LIMIT: usize = 1_024;

/// Connections of the doors, derived from the limit of descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DoorShares {
    /// The most connections of the public door.
    pub(crate) public: usize,
    /// The most connections of the internal door.
    pub(crate) internal: usize,
}

/// Raises the limit of descriptors to the highest that the system allows. Returns the limit.
pub(crate) fn raise_limit() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return UNKNOWN_LIMIT;
    };
    let is_raised = soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    usize::try_from(if is_raised { hard } else { soft }).unwrap_or(usize::MAX)
}

/// The shares of the doors. Warns if the public door gets fewer connections than the setting says.
pub(crate) fn door_shares(limit: usize, serve: &ServeArgs) -> DoorShares {
    let permits = if serve.role().sends_deliveries() { serve.permits.max(1) } else { 0 };
    let shares = DoorShares::new(limit, permits, serve.connections);
    if shares.public < serve.connections && serve.role().serves_callers() {
        tracing::warn!(
            descriptors = limit,
            connections = shares.public,
            "the limit of file descriptors allows fewer connections than --connections"
        );
    }
    shares
}

impl DoorShares {
    /// An attempt has one descriptor, and a share of another for its look-up. With a low limit the
    /// public door gets a quarter all the same.
    fn new(limit: usize, permits: usize, wanted: usize) -> Self {
        let internal = (limit / 8).clamp(8, INTERNAL_MAX);
        let deliveries = permits + permits / 2;
        let kept = BASE + DATABASES + EVICTED + deliveries + internal;
        let public = limit.saturating_sub(kept).max(limit / 4);
        Self { public: public.min(wanted).max(1), internal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The databases need descriptors too.
    #[test]
    fn the_doors_leave_descriptors_for_deliveries() {
        let shares = |limit, permits| {
            let DoorShares { public, internal } = DoorShares::new(limit, permits, 8_192);
            [public, internal]
        };
        assert_eq!(shares(1_048_576, 256), [8_192, 2_048]);
        assert_eq!(shares(65_536, 256), [8_192, 2_048]);
        assert_eq!(shares(4_096, 256), [2_976, 512]);
        assert_eq!(shares(1_024, 256), [288, 128]);
        assert_eq!(shares(1_024, 0), [672, 128]);
        assert_eq!(shares(256, 256), [64, 32]);
        assert_eq!(shares(16, 256), [4, 8]);
        assert_eq!(DoorShares::new(65_536, 256, 100).public, 100);
    }
}
