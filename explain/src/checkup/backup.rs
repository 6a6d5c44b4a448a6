//! The finding about backups.

use std::time::Duration;

use super::finding::{Finding, spoken_duration};

/// Oldest backup without a finding. A daily backup may be late by a day.
const BACKUP_AGE_NOTICED: Duration = Duration::from_secs(2 * 86_400);

/// Oldest backup without a fault: a week, and a day to be late.
const BACKUP_AGE_MAX: Duration = Duration::from_secs(8 * 86_400);

const ADVICE: &str = "run `firmforms backup DIR`, at best each day by a timer";

/// Ages of the copies from which an installation could be restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupAges {
    /// Age of the last backup by `firmforms backup`.
    pub taken: Option<Duration>,
    /// Age of the last archived segment of the write-ahead log. `None` if one of the servers
    /// archives nothing, or its last try failed.
    pub archived: Option<Duration>,
}

impl Finding {
    /// Checks the age of the last backup. An archive of the write-ahead log counts as one.
    #[must_use]
    pub fn backup_age(BackupAges { taken, archived }: BackupAges) -> Self {
        let check = "backup";
        let taken = taken.map(|age| (age, format!("taken {} ago", spoken_duration(age))));
        let archived = archived.map(|age| {
            (age, format!("the write-ahead log was archived {} ago", spoken_duration(age)))
        });
        match taken.into_iter().chain(archived).min() {
            None => Self::notice(check, "no backup was taken yet".into(), ADVICE),
            Some((age, says)) if age > BACKUP_AGE_MAX => Self::wrong(check, says, ADVICE),
            Some((age, says)) if age > BACKUP_AGE_NOTICED => Self::notice(check, says, ADVICE),
            Some((_, says)) => Self::fine(check, says),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkup::CheckVerdict;

    #[test]
    fn the_youngest_copy_decides() {
        let days = |days: u64| Some(Duration::from_secs(days * 86_400));
        for (taken, archived, verdict) in [
            (None, None, CheckVerdict::Notice),
            (days(1), None, CheckVerdict::Fine),
            (days(2), None, CheckVerdict::Fine),
            (days(3), None, CheckVerdict::Notice),
            (days(9), None, CheckVerdict::Wrong),
            (days(9), days(1), CheckVerdict::Fine),
            (None, days(9), CheckVerdict::Wrong),
        ] {
            let found = Finding::backup_age(BackupAges { taken, archived });
            assert_eq!(found.verdict, verdict, "{found:?}");
            assert_eq!(found.advice.is_some(), verdict != CheckVerdict::Fine);
        }
    }
}
