//! [`Failure`] is the one classification of database errors.
//!
//! Every caller that may repeat its work asks [`Failure::new`]. The kinds are sets of SQLSTATE
//! codes (PostgreSQL's manual, appendix A).

/// The kind of a database error, by the chance that the same statement succeeds later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No database answered, or the server takes no work: it has no connection or no memory left,
    /// has cancelled the statement, or stops or starts.
    Unreachable,
    /// The server answered "not now". Examples are a lost race, an I/O error, a lock timeout, an
    /// idle transaction that was ended, and a server that has become a read-only replica.
    Transient,
    /// The server refused the statement or its values. It refuses them again.
    Refused,
    /// Any other error: a login or a database that does not exist, a defect of the server, or an
    /// answer that this build cannot decode.
    Unclassified,
}

impl Failure {
    /// Classifies an error.
    #[must_use]
    pub fn new(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_) => Self::Unreachable,
            sqlx::Error::Database(error) => Self::of_sqlstate(&error.code().unwrap_or_default()),
            _ => Self::Unclassified,
        }
    }

    /// Returns whether the error may pass without a change of the statement.
    #[must_use]
    pub const fn may_pass(self) -> bool {
        matches!(self, Self::Unreachable | Self::Transient)
    }

    fn of_sqlstate(sqlstate: &str) -> Self {
        match (sqlstate.get(..2), sqlstate) {
            (Some("08" | "53" | "57"), _) => Self::Unreachable,
            (Some("40" | "58"), _) | (_, "55P03" | "25006" | "25P03") => Self::Transient,
            (Some("22" | "23" | "42"), _) => Self::Refused,
            _ => Self::Unclassified,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sqlstate_has_its_kind() {
        let table: [(Failure, &[&str]); 4] = [
            (Failure::Unreachable, &["08006", "53100", "53300", "57014", "57P01", "57P03"]),
            (Failure::Transient, &["40001", "40P01", "55P03", "25006", "25P03", "58030"]),
            (Failure::Refused, &["22001", "23505", "23514", "42601", "42P01"]),
            (Failure::Unclassified, &["28P01", "3D000", "25001", "55006", "XX000", "", "5"]),
        ];
        for (kind, sqlstates) in table {
            for sqlstate in sqlstates {
                assert_eq!(Failure::of_sqlstate(sqlstate), kind, "{sqlstate}");
            }
        }
    }

    #[test]
    fn a_serverless_error_is_unreachable_or_unclassified() {
        let kind = |error: sqlx::Error| Failure::new(&error);
        assert_eq!(kind(sqlx::Error::PoolTimedOut), Failure::Unreachable);
        assert_eq!(kind(sqlx::Error::PoolClosed), Failure::Unreachable);
        assert_eq!(kind(sqlx::Error::RowNotFound), Failure::Unclassified);
    }

    #[test]
    fn unreachable_and_transient_failures_may_pass() {
        assert!(Failure::Unreachable.may_pass() && Failure::Transient.may_pass());
        assert!(!Failure::Refused.may_pass() && !Failure::Unclassified.may_pass());
    }
}
