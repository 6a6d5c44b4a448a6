//! The begin of a firm's suspension (ruling 28).

use super::event::FirmEvent;

/// The last change of a firm's suspension, with its moment in the log. A suspension that is
/// reported again moves the clock of the reports, and goes on from its begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspensionChange<M> {
    /// The firm is suspended, since this moment or since an earlier event.
    Suspended(M),
    /// The firm was active, and is suspended since this moment.
    SuspendedAnew(M),
    /// The firm is active since this moment.
    Resumed(M),
}

impl<M> SuspensionChange<M> {
    /// The change after one more event of the firm, if any event changed the suspension.
    #[must_use]
    pub fn after_event(known: Option<Self>, event: &FirmEvent, moment: M) -> Option<Self> {
        match (event, known) {
            (FirmEvent::FirmResumed { .. }, _) => Some(Self::Resumed(moment)),
            (FirmEvent::FirmSuspended { .. }, None) => Some(Self::Suspended(moment)),
            (FirmEvent::FirmSuspended { .. }, Some(Self::Resumed(_))) => {
                Some(Self::SuspendedAnew(moment))
            }
            (_, known) => known,
        }
    }

    /// The moment of the change.
    #[must_use]
    pub fn moment(self) -> M {
        match self {
            Self::Suspended(moment) | Self::SuspendedAnew(moment) | Self::Resumed(moment) => moment,
        }
    }

    /// The moment of the suspension, unless the firm is active.
    #[must_use]
    pub fn suspended_at(self) -> Option<M> {
        match self {
            Self::Suspended(moment) | Self::SuspendedAnew(moment) => Some(moment),
            Self::Resumed(_) => None,
        }
    }
}
