//! Findings about the servers of the two databases: their roles, and the settings that decide
//! whether a commit is kept.

use std::time::Duration;

use domain::operations::ServerState;

use super::finding::{Finding, spoken_duration};

/// Transaction ids beyond the age at which autovacuum begins to freeze, without a finding. The
/// vacuum of a large table takes a day, and a busy service draws this many ids in three.
const LATE_FREEZE_IDS_MAX: i64 = 100_000_000;

/// Longest prepared transaction without a finding. The service prepares none.
const PREPARED_AGE_MAX: Duration = Duration::from_secs(60);

/// The role of a host of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostRole {
    /// The server takes writes.
    Primary,
    /// The server replays the log of another.
    Standby,
    /// The host does not answer.
    Away,
}

/// A host of a database, as its URL names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFound {
    /// The host and its port.
    pub place: String,
    /// The role.
    pub role: HostRole,
}

/// The end of a trial write, which is always taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialWrite {
    /// The write was possible.
    Taken,
    /// The server's disk is full.
    DiskFull,
    /// The server refused the write for another reason.
    Untried(String),
}

impl Finding {
    /// Checks that exactly one host of a database is a primary, and that the others answer.
    #[must_use]
    pub fn single_primary(check: &'static str, hosts: &[HostFound]) -> Self {
        let of = |role: HostRole| {
            let places = hosts.iter().filter(|host| host.role == role);
            places.map(|host| host.place.as_str()).collect::<Vec<_>>()
        };
        let says: Vec<String> =
            hosts.iter().map(|host| format!("{} {}", host.place, host.role.role_words())).collect();
        let says = says.join(", ");
        match (of(HostRole::Primary).len(), of(HostRole::Away).len()) {
            (0, away) if away == hosts.len() => Self::wrong(
                check,
                says,
                "start the server, or name its host in the URL: no report is taken in meanwhile",
            ),
            (0, _) => Self::wrong(check, says, "promote a standby, or name the primary in the URL"),
            (1, 0) => Self::fine(check, says),
            (1, _) => {
                Self::notice(check, says, "this host cannot take over: start it, or unlist it")
            }
            (_, _) => Self::wrong(
                check,
                says,
                "stop all but the newest primary: events written to an older one are lost",
            ),
        }
    }

    /// Checks whether a trial write found room on the server's disk.
    #[must_use]
    pub fn disk_room(check: &'static str, trial: &TrialWrite) -> Self {
        match trial {
            TrialWrite::Taken => Self::fine(check, "there is room for a write of 64 KiB".into()),
            TrialWrite::DiskFull => Self::wrong(
                check,
                "the disk is full: writes are refused, reads work".into(),
                "make room on the server's disk; the service goes on by itself",
            ),
            TrialWrite::Untried(why) => Self::notice(
                check,
                format!("no write could be tried: {why}"),
                "another check may name the cause; else look with a login of the service",
            ),
        }
    }

    /// Checks the settings that keep commits over a crash.
    #[must_use]
    pub fn commit_durability(check: &'static str, state: &ServerState) -> Self {
        let on_off = |is_on| if is_on { "on" } else { "off" };
        let commit = state.synchronous_commit.as_str();
        let says = format!(
            "fsync {}, full_page_writes {}, synchronous_commit {commit}",
            on_off(state.fsync),
            on_off(state.full_page_writes)
        );
        if !state.fsync || !state.full_page_writes {
            return Self::wrong(
                check,
                says,
                "set both on: a crash of the machine can lose or damage anything",
            );
        }
        match commit {
            "on" | "remote_apply" => Self::fine(check, says),
            "remote_write" => Self::notice(
                check,
                says,
                "a crash of both machines can lose commits: `on` waits for the standby's disk",
            ),
            _ => Self::notice(
                check,
                says,
                "set it on, too: the service sets it for itself, other sessions do not",
            ),
        }
    }

    /// Checks whether commits wait for a standby.
    #[must_use]
    pub fn commit_standbys(check: &'static str, state: &ServerState) -> Self {
        let names = &state.synchronous_standby_names;
        if !names.is_empty() {
            return Self::fine(check, format!("a commit waits for {names}"));
        }
        Self::notice(
            check,
            "a commit waits for no standby".into(),
            "a failover can lose the newest events or data keys: set `synchronous_standby_names`, \
             if there are standbys",
        )
    }

    /// Checks that freezing keeps up with the transaction ids that are drawn.
    #[must_use]
    pub fn transaction_ids(check: &'static str, state: &ServerState) -> Self {
        let ServerState { oldest_id_age, freeze_max_age, .. } = state;
        let says = format!("the oldest is {oldest_id_age} transactions old");
        if *oldest_id_age <= freeze_max_age.saturating_add(LATE_FREEZE_IDS_MAX) {
            return Self::fine(check, says);
        }
        Self::wrong(
            check,
            format!("{says}, and autovacuum freezes from {freeze_max_age} on"),
            "the server stops at 2 billion: look for a vacuum that does not end, a long transaction \
             or an unused replication slot",
        )
    }

    /// Checks for a prepared transaction that nobody ends. It keeps its locks over a failover.
    #[must_use]
    pub fn prepared_transactions(check: &'static str, state: &ServerState) -> Self {
        match state.oldest_prepared {
            Some(age) if age > PREPARED_AGE_MAX => Self::wrong(
                check,
                format!("a transaction has been prepared for {}", spoken_duration(age)),
                "end it: `pg_prepared_xacts` names it, and `rollback prepared` ends it",
            ),
            _ => Self::fine(check, "no transaction is prepared for long".into()),
        }
    }

    /// Checks that the log's next position is free. A copy by logical replication leaves the
    /// sequence at its start.
    #[must_use]
    pub fn next_position(next: i64, highest: i64) -> Self {
        let says = format!("the next is {next}, the highest in the log is {highest}");
        if next > highest {
            return Self::fine("positions", says);
        }
        Self::wrong(
            "positions",
            says,
            "run `select setval('events_position_seq', (select max(position) from events))`: no \
             event can be appended",
        )
    }
}

impl HostRole {
    const fn role_words(self) -> &'static str {
        match self {
            Self::Primary => "is the primary",
            Self::Standby => "is a standby",
            Self::Away => "does not answer",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckVerdict::{Fine, Notice, Wrong};
    use super::*;

    fn hosts(roles: &[HostRole]) -> Vec<HostFound> {
        let found = |role: &HostRole| HostFound { place: "a:5432".into(), role: *role };
        roles.iter().map(found).collect()
    }

    fn good() -> ServerState {
        ServerState {
            fsync: true,
            full_page_writes: true,
            synchronous_commit: "on".into(),
            synchronous_standby_names: "ANY 1 (a, b)".into(),
            oldest_id_age: 300_000_000,
            freeze_max_age: 200_000_000,
            oldest_prepared: Some(Duration::from_secs(60)),
        }
    }

    #[test]
    fn each_server_state_has_its_verdict() {
        use HostRole::{Away, Primary, Standby};
        let primary = |roles: &[HostRole]| Finding::single_primary("primary", &hosts(roles));
        let commits = |value: &str| {
            Finding::commit_durability(
                "durability",
                &ServerState { synchronous_commit: value.into(), ..good() },
            )
        };
        for (finding, verdict) in [
            (primary(&[Primary]), Fine),
            (primary(&[Standby, Primary]), Fine),
            (primary(&[Away, Primary]), Notice),
            (primary(&[Standby]), Wrong),
            (primary(&[Standby, Away]), Wrong),
            (primary(&[Away, Away]), Wrong),
            (Finding::disk_room("disk", &TrialWrite::Taken), Fine),
            (Finding::disk_room("disk", &TrialWrite::DiskFull), Wrong),
            (Finding::disk_room("disk", &TrialWrite::Untried("denied".into())), Notice),
            (primary(&[Primary, Primary]), Wrong),
            (commits("on"), Fine),
            (commits("remote_apply"), Fine),
            (commits("remote_write"), Notice),
            (commits("local"), Notice),
            (commits("off"), Notice),
            (
                Finding::commit_durability("durability", &ServerState { fsync: false, ..good() }),
                Wrong,
            ),
            (
                Finding::commit_durability(
                    "durability",
                    &ServerState { full_page_writes: false, ..good() },
                ),
                Wrong,
            ),
            (Finding::commit_standbys("standbys", &good()), Fine),
            (
                Finding::commit_standbys(
                    "standbys",
                    &ServerState { synchronous_standby_names: String::new(), ..good() },
                ),
                Notice,
            ),
            (Finding::transaction_ids("transaction_ids", &good()), Fine),
            (
                Finding::transaction_ids(
                    "transaction_ids",
                    &ServerState { oldest_id_age: 300_000_001, ..good() },
                ),
                Wrong,
            ),
            (Finding::prepared_transactions("prepared", &good()), Fine),
            (
                Finding::prepared_transactions(
                    "prepared",
                    &ServerState { oldest_prepared: Some(Duration::from_secs(61)), ..good() },
                ),
                Wrong,
            ),
            (Finding::next_position(1, 0), Fine),
            (Finding::next_position(8, 7), Fine),
            (Finding::next_position(7, 7), Wrong),
        ] {
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert_eq!(finding.advice.is_some(), verdict != Fine, "{finding:?}");
        }
    }
}
