//! The roles of processes.

/// The part of the service that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessRole {
    /// All parts.
    All,
    /// Both doors.
    Api,
    /// The read models that follow the log.
    Projector,
    /// Claims and sends.
    Deliverer,
}

impl ProcessRole {
    /// The role as `--role` names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Projector => "projector",
            Self::Deliverer => "deliverer",
        }
    }

    /// Whether the process has both doors.
    #[must_use]
    pub const fn serves_callers(self) -> bool {
        matches!(self, Self::All | Self::Api)
    }

    /// Whether the process claims and sends deliveries.
    #[must_use]
    pub const fn sends_deliveries(self) -> bool {
        matches!(self, Self::All | Self::Deliverer)
    }
}
