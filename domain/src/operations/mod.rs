//! Orders of operators, and the state of an installation.
//!
//! [`Maintenance`], [`Reading`], [`LateEntry`] and [`CheckpointSeries`] are aggregates.
//! [`ClockComparison`] judges the clocks, [`InstallationIds`] and [`ErasureMark`] compare the main
//! database with the keyring, [`ServerState`] has the settings of a server, and [`migration`]
//! judges the steps of a migration. [`search`] reads a text that an operator looks for.

pub mod migration;
pub mod search;

mod checkpoint_series;
mod clock;
mod late_entry;
mod maintenance;
mod reading;
mod restore;
mod server_state;

pub use checkpoint_series::{
    CheckpointSeries, CheckpointSeriesCommand, CheckpointSeriesEvent, EndedSeries, SeriesBeginning,
};
pub use clock::{CLOCK_SKEW_MAX, ClockComparison, ClockFault};
pub use late_entry::{LateEntry, LateEntryCommand, LateEntryEvent, LateEntryReason};
pub use maintenance::{Maintenance, MaintenanceCommand, MaintenanceEvent};
pub use reading::{ReadAs, Reading, ReadingCommand, ReadingDetails, ReadingEvent, ReadingSubject};
pub use restore::{ErasureMark, InstallationIds, StrangeKeyring};
pub use server_state::ServerState;
