//! The read models, with their tables and their writers. A rebuild uses the same writers as the
//! service.

use std::fmt;
use std::str::FromStr;

use chrono::NaiveDate;
use eventstore::worker::Worker;
use eventstore::{AppendError, RecordedEvent, WithAppend};
use sqlx::PgConnection;

use crate::audit::AuditLog;
use crate::deliveries::DeliveryProjection;
use crate::firms::FirmWriter;
use crate::follow::Projection;
use crate::forms::FormWriter;
use crate::hooks::HookWriter;
use crate::keys::KeyWriter;
use crate::members::MemberWriter;
use crate::pauses::PauseWriter;
use crate::people::PersonWriter;
use crate::quotas;
use crate::replays::ReplayWriter;
use crate::seals::SealWorker;

/// A read model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadModel {
    /// Firms, as last reported.
    Firms,
    /// Members, as last reported. Managers among them may make keys.
    Members,
    /// Forms, as last reported.
    Forms,
    /// The keys of firms.
    Keys,
    /// Subscriptions.
    Hooks,
    /// The used part of each firm's limits.
    Quotas,
    /// People that get no mail.
    People,
    /// Pauses of operators.
    Pauses,
    /// The state of each replay.
    Replays,
    /// The state of each delivery.
    Deliveries,
    /// The audit chain of each firm.
    AuditLog,
    /// The log in sealed blocks.
    Seals,
}

/// One table of a read model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModelTable {
    pub(super) name: &'static str,
    /// Columns that do not follow from the log, and are not compared. `kept` copies those that
    /// matter.
    pub(super) beside_the_log: &'static [&'static str],
    /// Tells whether a row may never change.
    pub(super) proof: bool,
}

impl ModelTable {
    const fn plain(name: &'static str) -> Self {
        Self { name, beside_the_log: &[], proof: false }
    }

    const fn proof(name: &'static str) -> Self {
        Self { proof: true, ..Self::plain(name) }
    }

    const fn beside(name: &'static str, columns: &'static [&'static str]) -> Self {
        Self { beside_the_log: columns, ..Self::plain(name) }
    }
}

/// The name of no read model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a read model: {}", ReadModel::ALL.map(ReadModel::name).join(", "))]
pub struct UnknownModel;

impl ReadModel {
    /// All read models.
    pub const ALL: [Self; 12] = [
        Self::Firms,
        Self::Members,
        Self::Forms,
        Self::Keys,
        Self::Hooks,
        Self::Quotas,
        Self::People,
        Self::Pauses,
        Self::Replays,
        Self::Deliveries,
        Self::AuditLog,
        Self::Seals,
    ];

    /// Returns the name, which is the name of the first table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.tables()[0].name
    }

    /// Returns the follower whose checkpoint is the model's. A model that is written in the append
    /// has none.
    #[must_use]
    pub const fn follower(self) -> Option<&'static str> {
        match self {
            Self::Deliveries => Some(<DeliveryProjection as Projection>::NAME),
            Self::AuditLog => Some(<AuditLog as Projection>::NAME),
            Self::Seals => Some(<SealWorker as Worker>::NAME),
            Self::Firms
            | Self::Members
            | Self::Forms
            | Self::Keys
            | Self::Hooks
            | Self::Quotas
            | Self::People
            | Self::Pauses
            | Self::Replays => None,
        }
    }

    /// Whether the model is made of occurrences and deliveries, too. These can leave the database.
    #[must_use]
    pub const fn needs_all_events(self) -> bool {
        matches!(self, Self::Deliveries | Self::AuditLog | Self::Seals)
    }

    /// Returns the tables of the model.
    pub(super) const fn tables(self) -> &'static [ModelTable] {
        match self {
            Self::Firms => const { &[ModelTable::plain("firms")] },
            Self::Members => const { &[ModelTable::plain("members")] },
            Self::Forms => const { &[ModelTable::plain("forms")] },
            Self::Keys => const { &[ModelTable::plain("key_auth")] },
            Self::Hooks => const { &[ModelTable::plain("hooks")] },
            Self::Quotas => const { &[ModelTable::plain("quotas")] },
            Self::People => const { &[ModelTable::plain("people")] },
            Self::Pauses => const { &[ModelTable::plain("pauses")] },
            Self::Replays => const { &[ModelTable::beside("replays", &["fed_until"])] },
            Self::Deliveries => const { &[ModelTable::beside("deliveries", &["purged"])] },
            Self::AuditLog => {
                const { &[ModelTable::proof("audit_log"), ModelTable::plain("audit_heads")] }
            }
            Self::Seals => const { &[ModelTable::proof("seals")] },
        }
    }

    /// Returns the largest number of rows that an event changes.
    pub(super) fn rows_max(self, event: &RecordedEvent) -> usize {
        match self {
            Self::Deliveries => DeliveryProjection.rows_max(event),
            _ => 1,
        }
    }

    /// Applies events in order, as in the append. Seals apply whole blocks instead.
    pub(super) async fn apply_events(
        self,
        connection: &mut PgConnection,
        events: &[RecordedEvent],
        first_day: NaiveDate,
    ) -> Result<(), AppendError> {
        match self {
            Self::Firms => FirmWriter.apply_appended(connection, events).await,
            Self::Members => MemberWriter.apply_appended(connection, events).await,
            Self::Forms => FormWriter.apply_appended(connection, events).await,
            Self::Keys => KeyWriter.apply_appended(connection, events).await,
            Self::Hooks => HookWriter.apply_appended(connection, events).await,
            Self::Quotas => quotas::recount(connection, events, first_day).await,
            Self::People => PersonWriter.apply_appended(connection, events).await,
            Self::Pauses => PauseWriter.apply_appended(connection, events).await,
            Self::Replays => ReplayWriter.apply_appended(connection, events).await,
            Self::Deliveries => Ok(DeliveryProjection.apply_batch(connection, events).await?),
            Self::AuditLog => Ok(AuditLog.apply_batch(connection, events).await?),
            Self::Seals => Ok(()),
        }
    }
}

impl fmt::Display for ReadModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for ReadModel {
    type Err = UnknownModel;

    fn from_str(text: &str) -> Result<Self, UnknownModel> {
        Self::ALL.into_iter().find(|model| model.name() == text).ok_or(UnknownModel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_model_is_found_by_name() {
        for model in ReadModel::ALL {
            assert_eq!(model.name().parse(), Ok(model));
        }
        assert_eq!("outbox".parse::<ReadModel>(), Err(UnknownModel));
        assert!(UnknownModel.to_string().starts_with("not a read model: firms, members, forms"));
    }
}
