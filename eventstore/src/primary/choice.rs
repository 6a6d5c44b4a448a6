//! The choice among the hosts of a database.

use crate::life::ServerLife;

/// The answer of a host.
#[derive(Debug)]
pub enum HostState {
    /// The server takes writes.
    Primary(ServerLife),
    /// The server only replays the log of another.
    Standby(ServerLife),
    /// The host gave no answer in time, or refused the connection.
    Away(sqlx::Error),
}

/// The servers that a user can work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// Only a primary.
    Primary,
    /// A primary or, if there is none, a standby.
    Any,
}

impl HostState {
    /// Classifies a server that answered.
    pub(super) const fn new(life: ServerLife) -> Self {
        match life.timeline {
            Some(_) => Self::Primary(life),
            None => Self::Standby(life),
        }
    }
}

/// Chooses the host to use: the primary on the highest timeline.
///
/// Without a fence around it, an old primary may come back beside the new one. Its timeline is
/// lower. So a timeline below the `newest` one that this process has seen is refused, unless it
/// belongs to another cluster: a restore may have replaced the whole cluster.
pub(super) fn choose_host(
    states: &[&HostState],
    newest: Option<&ServerLife>,
    kind: ServerKind,
) -> Option<usize> {
    let primary = states
        .iter()
        .enumerate()
        .filter_map(|(host, state)| match state {
            HostState::Primary(life)
                if !newest.is_some_and(|newest| life.is_older_than(newest)) =>
            {
                Some((&life.timeline, std::cmp::Reverse(host)))
            }
            _ => None,
        })
        .max()
        .map(|(_, std::cmp::Reverse(host))| host);
    let standby = || states.iter().position(|state| matches!(state, HostState::Standby(_)));
    match kind {
        ServerKind::Primary => primary,
        ServerKind::Any => primary.or_else(standby),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(cluster: i64, timeline: Option<&str>) -> ServerLife {
        let started_at = "2026-11-01T12:00:00Z".parse().unwrap();
        let timeline = timeline.map(|number| format!("000000{number}"));
        ServerLife { system_identifier: cluster, timeline, started_at, recovered_at: None }
    }

    fn primary(timeline: &str) -> HostState {
        HostState::new(life(7, Some(timeline)))
    }

    #[test]
    fn the_highest_timelines_primary_is_chosen() {
        let standby = || HostState::new(life(7, None));
        let away = || HostState::Away(sqlx::Error::PoolTimedOut);
        let other = HostState::new(life(8, Some("01")));
        let newest = life(7, Some("0A"));
        let table: [(&[&HostState], Option<usize>, Option<usize>); 10] = [
            // The hosts, the choice of a process that has just started, and of one that has used
            // timeline 0A.
            (&[&primary("0A")], Some(0), Some(0)),
            (&[&standby(), &primary("0A")], Some(1), Some(1)),
            (&[&away(), &primary("0B"), &standby()], Some(1), Some(1)),
            (&[&primary("09"), &primary("0A")], Some(1), Some(1)),
            (&[&primary("0A"), &primary("0A")], Some(0), Some(0)),
            (&[&primary("09"), &standby()], Some(0), None),
            (&[&primary("09"), &other], Some(0), Some(1)),
            (&[&standby(), &standby()], None, None),
            (&[&standby(), &away()], None, None),
            (&[&away()], None, None),
        ];
        for (hosts, at_start, later) in table {
            assert_eq!(choose_host(hosts, None, ServerKind::Primary), at_start, "{hosts:?}");
            assert_eq!(choose_host(hosts, Some(&newest), ServerKind::Primary), later, "{hosts:?}");
        }
    }

    #[test]
    fn readers_take_a_standby_without_a_primary() {
        let standby = HostState::new(life(7, None));
        let away = HostState::Away(sqlx::Error::PoolTimedOut);
        let reads = |hosts: &[&HostState]| choose_host(hosts, None, ServerKind::Any);
        assert_eq!(reads(&[&standby, &primary("01")]), Some(1));
        assert_eq!(reads(&[&away, &standby]), Some(1));
        assert_eq!(reads(&[&away]), None);
    }
}
