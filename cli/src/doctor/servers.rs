//! The checks of the server behind each database.

use eventstore::disk::DiskSpace;
use eventstore::{DatabaseHosts, HostReport, HostState, checkup};
use explain::checkup::{Finding, HostFound, HostRole, TrialWrite};
use sqlx::PgPool;

/// The names of the checks of one database's server.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckNames {
    primary: &'static str,
    durability: &'static str,
    standbys: &'static str,
    disk: &'static str,
    transaction_ids: &'static str,
    prepared: &'static str,
}

pub(super) const MAIN_CHECKS: CheckNames = CheckNames {
    primary: "primary",
    durability: "durability",
    standbys: "standbys",
    disk: "disk",
    transaction_ids: "transaction_ids",
    prepared: "prepared",
};

pub(super) const KEYRING_CHECKS: CheckNames = CheckNames {
    primary: "keyring_primary",
    durability: "keyring_durability",
    standbys: "keyring_standbys",
    disk: "keyring_disk",
    transaction_ids: "keyring_transaction_ids",
    prepared: "keyring_prepared",
};

/// The kind of the server that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerKind {
    Primary,
    Standby,
}

/// The findings about one database's server.
pub(super) struct ServerFindings {
    pub(super) kind: ServerKind,
    pub(super) findings: Vec<Finding>,
}

/// Looks at all hosts of a database, and at the server behind this pool.
pub(super) async fn check_hosts(
    pool: &PgPool,
    hosts: &DatabaseHosts,
    names: CheckNames,
) -> anyhow::Result<ServerFindings> {
    let hosts: Vec<HostFound> = hosts.survey().await.into_iter().map(host_found).collect();
    let state = checkup::server_state(pool).await?;
    let mut findings = vec![
        Finding::single_primary(names.primary, &hosts),
        Finding::commit_durability(names.durability, &state),
        Finding::transaction_ids(names.transaction_ids, &state),
        Finding::prepared_transactions(names.prepared, &state),
    ];
    // A host that is not the primary has no say in the commits.
    let has_primary = hosts.iter().any(|host| host.role == HostRole::Primary);
    let kind = if has_primary { ServerKind::Primary } else { ServerKind::Standby };
    if has_primary {
        findings.push(Finding::commit_standbys(names.standbys, &state));
    }
    Ok(ServerFindings { kind, findings })
}

/// The findings about a database none of whose hosts answers.
pub(super) async fn survey_hosts(hosts: &DatabaseHosts, names: CheckNames) -> ServerFindings {
    let hosts: Vec<HostFound> = hosts.survey().await.into_iter().map(host_found).collect();
    let findings = vec![Finding::single_primary(names.primary, &hosts)];
    ServerFindings { kind: ServerKind::Standby, findings }
}

/// The finding about the room on a server's disk.
pub(super) fn disk_finding(names: CheckNames, tried: Result<DiskSpace, sqlx::Error>) -> Finding {
    let trial = match tried {
        Ok(DiskSpace::Free) => TrialWrite::Taken,
        Ok(DiskSpace::Full) => TrialWrite::DiskFull,
        Err(error) => TrialWrite::Untried(error.to_string()),
    };
    Finding::disk_room(names.disk, &trial)
}

fn host_found(report: HostReport) -> HostFound {
    let role = match report.state {
        HostState::Primary(_) => HostRole::Primary,
        HostState::Standby(_) => HostRole::Standby,
        HostState::Away(_) => HostRole::Away,
    };
    HostFound { place: report.place, role }
}
