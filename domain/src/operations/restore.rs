//! Comparisons of the main database with the keyring. One of the two may be older than the other,
//! because each can be restored by itself, and each can fail over by itself.

use uuid::Uuid;

/// The id of the installation, as each of the two databases has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstallationIds {
    /// The id in the main database.
    pub main: Option<Uuid>,
    /// The id in the keyring.
    pub keyring: Option<Uuid>,
}

/// The two databases belong to two installations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the main database is of installation {main}, and the keyring of installation {keyring}: \
     DATABASE_URL and FIRMFORMS_KEYRING_URL name databases that do not belong together"
)]
pub struct StrangeKeyring {
    /// The id in the main database.
    pub main: Uuid,
    /// The id in the keyring.
    pub keyring: Uuid,
}

impl InstallationIds {
    /// The id that both databases have or get: a database without an id takes the other's, and two
    /// new ones take `new`.
    ///
    /// # Errors
    /// [`StrangeKeyring`] if the ids differ.
    pub fn shared_id(self, new: Uuid) -> Result<Uuid, StrangeKeyring> {
        match (self.main, self.keyring) {
            (Some(main), Some(keyring)) if main != keyring => Err(StrangeKeyring { main, keyring }),
            (Some(id), _) | (None, Some(id)) => Ok(id),
            (None, None) => Ok(new),
        }
    }

    /// Whether both databases have an id.
    #[must_use]
    pub const fn are_whole(self) -> bool {
        self.main.is_some() && self.keyring.is_some()
    }
}

/// The result of a look for the keyring's mark in the log. The mark names the erasure event whose
/// key the keyring deleted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasureMark {
    /// The keyring has no mark.
    Missing,
    /// The log has the marked event at this position.
    Found {
        /// The position of the event.
        position: i64,
    },
    /// The log has another event at the marked position, or none: one database was restored.
    Strange,
}

impl ErasureMark {
    /// The position after which erasures must be carried out again, before anything is sent.
    /// `carried_out` is the position up to which the main database's rows are gone.
    #[must_use]
    pub fn redo_after(self, carried_out: i64) -> i64 {
        match self {
            Self::Found { position } => position.min(carried_out),
            Self::Missing | Self::Strange => 0,
        }
    }

    /// Whether the keyring may hold keys of responses whose rows are gone.
    #[must_use]
    pub fn is_behind(self, carried_out: i64) -> bool {
        self.redo_after(carried_out) < carried_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Uuid = Uuid::from_u128(1);
    const TWO: Uuid = Uuid::from_u128(2);
    const NEW: Uuid = Uuid::from_u128(3);

    #[test]
    fn another_installations_keyring_is_refused() {
        let shared = |main, keyring| InstallationIds { main, keyring }.shared_id(NEW);
        assert_eq!(shared(None, None), Ok(NEW));
        assert_eq!(shared(Some(ONE), None), Ok(ONE), "the keyring is from before the id");
        assert_eq!(shared(None, Some(ONE)), Ok(ONE), "the main database is from before the id");
        assert_eq!(shared(Some(ONE), Some(ONE)), Ok(ONE));
        assert_eq!(shared(Some(ONE), Some(TWO)), Err(StrangeKeyring { main: ONE, keyring: TWO }));
    }

    #[test]
    fn a_lost_or_older_mark_repeats_erasures() {
        let found = |position| ErasureMark::Found { position };
        for (mark, carried_out, after, is_behind) in [
            (found(7), 7, 7, false),
            (found(9), 7, 7, false),
            (found(5), 7, 5, true),
            (ErasureMark::Missing, 7, 0, true),
            (ErasureMark::Missing, 0, 0, false),
            (ErasureMark::Strange, 7, 0, true),
            (ErasureMark::Strange, 0, 0, false),
        ] {
            assert_eq!(mark.redo_after(carried_out), after, "{mark:?} {carried_out}");
            assert_eq!(mark.is_behind(carried_out), is_behind, "{mark:?} {carried_out}");
        }
    }
}
