//! Findings about the main database and its keyring.

use domain::operations::{ErasureMark, InstallationIds};

use super::finding::Finding;

/// Fewer dead rows of data keys are no finding. The vacuum comes after 1,000.
const DEAD_KEYS_MIN: i64 = 10_000;

impl Finding {
    /// Checks whether the two databases belong together.
    #[must_use]
    pub fn same_installation(ids: InstallationIds) -> Self {
        match ids.shared_id(ids.main.unwrap_or_default()) {
            Err(strange) => Self::wrong(
                "installation",
                strange.to_string(),
                "name the main database and the keyring that were used together",
            ),
            Ok(_) if ids.are_whole() => {
                Self::fine("installation", "the main database and the keyring are a pair".into())
            }
            Ok(_) => Self::fine("installation", "the next start notes the pair".into()),
        }
    }

    /// Checks the newest responses for their data keys: `lost` of `looked` have none.
    #[must_use]
    pub fn newest_keys(looked: usize, lost: usize) -> Self {
        let says = match (looked, lost) {
            (_, 0) => return Self::fine("newest_keys", format!("{looked} responses have keys")),
            _ => format!("{lost} of the newest {looked} responses have no data key"),
        };
        Self::wrong(
            "newest_keys",
            format!("{says}: nobody can read or send them"),
            "stop the service, and restore the newest copy of the keyring: its end was lost",
        )
    }

    /// Checks whether the keyring has carried out the erasures that the main database has.
    #[must_use]
    pub fn missed_erasures(mark: ErasureMark, carried_out: i64) -> Self {
        if mark.is_behind(carried_out) {
            return Self::wrong(
                "erasures",
                "the keyring may hold keys of erased responses: it is from an older backup".into(),
                "restart a deliverer: it carries out the erasures again before it sends",
            );
        }
        Self::fine("erasures", "main database and keyring have carried out the same".into())
    }

    /// Checks the dead rows of data keys, which still hold their keys.
    #[must_use]
    pub fn dead_keys(dead: i64) -> Self {
        let says = format!("{dead} dead rows of data keys");
        if dead < DEAD_KEYS_MIN {
            return Self::fine("dead_keys", says);
        }
        Self::wrong(
            "dead_keys",
            format!("{says}: erased keys are among them"),
            "let autovacuum run in the keyring: a long transaction or slot may hold it up",
        )
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::checkup::CheckVerdict;

    #[test]
    fn a_mismatched_pair_is_wrong() {
        let verdict = |main: Option<u128>, keyring: Option<u128>| {
            let id = |id: Option<u128>| id.map(Uuid::from_u128);
            Finding::same_installation(InstallationIds { main: id(main), keyring: id(keyring) })
                .verdict
        };
        assert_eq!(verdict(Some(1), Some(2)), CheckVerdict::Wrong);
        for (main, keyring) in [(Some(1), Some(1)), (None, Some(1)), (Some(1), None), (None, None)]
        {
            assert_eq!(verdict(main, keyring), CheckVerdict::Fine);
        }
    }

    /// So are many dead keys.
    #[test]
    fn lost_keys_and_late_erasures_are_wrong() {
        assert_eq!(Finding::newest_keys(200, 0).verdict, CheckVerdict::Fine);
        let lost = Finding::newest_keys(200, 3);
        assert_eq!(lost.verdict, CheckVerdict::Wrong);
        assert!(lost.says.starts_with("3 of the newest 200 responses"), "{}", lost.says);
        let found = ErasureMark::Found { position: 5 };
        assert_eq!(Finding::missed_erasures(found, 5).verdict, CheckVerdict::Fine);
        assert_eq!(Finding::missed_erasures(found, 6).verdict, CheckVerdict::Wrong);
        assert_eq!(Finding::dead_keys(9_999).verdict, CheckVerdict::Fine);
        assert_eq!(Finding::dead_keys(10_000).verdict, CheckVerdict::Wrong);
    }
}
