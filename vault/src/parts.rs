//! Effects of a write on the parts of responses: reports and bookings.

use uuid::Uuid;

/// Parts that a write changed, or that it found newer than the report of them. All other parts of
/// the write were known. Each part is a firm's id and the part's id.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PartEffects {
    /// Parts whose content changed.
    pub changed: Vec<(Uuid, Uuid)>,
    /// Parts with a newer content, which stays.
    pub stale: Vec<(Uuid, Uuid)>,
}
