//! A series of signed checkpoints, numbered from 1. One key signs a series, and each rotation hands
//! it to the next key. The rule here decides whether a signer may continue a series.

use std::time::Duration;

use thiserror::Error;
use uuid::Uuid;

use super::checkpoint::{AuditCheckpoint, OtherInstallation};
use super::merkle::Hash;
use crate::values::Timestamp;

/// Oldest signed checkpoint that needs no operator. `serve` signs one each hour.
const CHECKPOINT_AGE_MAX: Duration = Duration::from_secs(2 * 3_600);

/// Whether a log that has gone without a signed checkpoint for this long needs an operator.
#[must_use]
pub fn is_signature_late(age: Duration) -> bool {
    age > CHECKPOINT_AGE_MAX
}

/// The last signature, as the database remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastSignature {
    /// Number of the series, from 1.
    pub series: i32,
    /// Number of the checkpoint in its series.
    pub number: u64,
    /// Hash of the checkpoint.
    pub hash: Hash,
    /// Id of the key.
    pub key_id: String,
    /// Position of the checkpoint.
    pub position: i64,
    /// Time of the checkpoint.
    pub at: Timestamp,
}

/// A signer's view of a series: the database's memory and the signer's two folders.
#[derive(Debug, Clone, Copy)]
pub struct SeriesState<'a> {
    /// The last signature that the database remembers.
    pub remembered: Option<&'a LastSignature>,
    /// The file with the remembered number.
    pub remembered_file: Option<&'a AuditCheckpoint>,
    /// The last file. It follows the remembered one if a signer died before it wrote to the
    /// database.
    pub last_file: Option<&'a AuditCheckpoint>,
    /// Ids of all keys in the folder of keys, oldest first.
    pub key_ids: &'a [String],
    /// Id of the key in that folder that can sign.
    pub signing_key_id: Option<&'a str>,
    /// The installation of the database, if it is known.
    pub installation_id: Option<Uuid>,
}

/// Why a signer may not continue a series.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SigningRefusal {
    /// The folder of checkpoints belongs to another installation.
    #[error(transparent)]
    OtherInstallation(#[from] OtherInstallation),
    /// The series has a key, and the folder of keys has no key that can sign.
    #[error("the key {key_id} signs this series, and is not in the folder of keys")]
    MissingKey {
        /// The key of the series.
        key_id: String,
    },
    /// The folder of keys has another key, and no rotation led to it.
    #[error("the key {key_id} signs this series, and the folder of keys has the key {other}")]
    SecondKey {
        /// The key of the series.
        key_id: String,
        /// The key in the folder.
        other: String,
    },
    /// The folder of checkpoints lacks the last signed one.
    #[error("checkpoint {number} was signed, and is not in the folder of checkpoints")]
    MissingCheckpoint {
        /// The number of the last signed checkpoint.
        number: u64,
    },
    /// The folder of checkpoints has another file with a signed number.
    #[error("checkpoint {number} in the folder is not the one that was signed for this database")]
    ForeignCheckpoint {
        /// The number.
        number: u64,
    },
    /// A new series needs an empty folder.
    #[error(
        "the folder has checkpoint {number}: move the old series to a safe place before a new one \
         begins"
    )]
    OldSeriesThere {
        /// The number of the last checkpoint in the folder.
        number: u64,
    },
}

impl SigningRefusal {
    /// Whether the signer lacks the key of the series. Another process may have it.
    #[must_use]
    pub const fn is_about_key(&self) -> bool {
        matches!(self, Self::MissingKey { .. } | Self::SecondKey { .. })
    }
}

impl SeriesState<'_> {
    /// Decides whether this signer may sign the next checkpoint of the series. The first signature
    /// of a database is always allowed.
    ///
    /// # Errors
    /// [`SigningRefusal`]. The installation is judged first, then the key, then the files: a
    /// foreign folder has foreign keys, too.
    pub fn check_signer(&self) -> Result<(), SigningRefusal> {
        let files = [self.remembered_file, self.last_file].into_iter().flatten();
        let mut others = files.filter_map(|file| file.other_installation(self.installation_id));
        if let Some(other) = others.next() {
            return Err(other.into());
        }
        if let Some(key_id) = self.series_key_id() {
            self.check_key(key_id)?;
        }
        let Some(remembered) = self.remembered else {
            return Ok(());
        };
        let number = remembered.number;
        match self.remembered_file {
            None => Err(SigningRefusal::MissingCheckpoint { number }),
            Some(file) if file.hash() != remembered.hash => {
                Err(SigningRefusal::ForeignCheckpoint { number })
            }
            Some(_) => Ok(()),
        }
    }

    /// Id of the key that signed last.
    fn series_key_id(&self) -> Option<&str> {
        let number = self.remembered.map_or(0, |remembered| remembered.number);
        let newer = self.last_file.filter(|file| file.number > number);
        newer.map(|file| &*file.key_id).or(self.remembered.map(|remembered| &*remembered.key_id))
    }

    fn check_key(&self, key_id: &str) -> Result<(), SigningRefusal> {
        let Some(other) = self.signing_key_id else {
            return Err(SigningRefusal::MissingKey { key_id: key_id.to_owned() });
        };
        let place = |id: &str| self.key_ids.iter().position(|known| known == id);
        let is_rotated = place(key_id).is_some_and(|old| Some(old) < place(other));
        if other == key_id || is_rotated {
            return Ok(());
        }
        Err(SigningRefusal::SecondKey { key_id: key_id.to_owned(), other: other.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::checkpoint::OpenBlock;
    use crate::audit::hashing::{FORMAT_VERSION, GENESIS_HASH};

    const OURS: Uuid = Uuid::from_u128(1);

    fn file(number: u64, key_id: &str) -> AuditCheckpoint {
        AuditCheckpoint {
            v: FORMAT_VERSION,
            number,
            at: "2026-11-01T12:00:00.000Z".parse().unwrap(),
            position: 7,
            firms: 1,
            heads: GENESIS_HASH,
            seals: 0,
            sealed: GENESIS_HASH,
            open: OpenBlock { events: 7, root: GENESIS_HASH },
            previous: GENESIS_HASH,
            key_id: key_id.to_owned(),
            installation_id: None,
        }
    }

    fn remembered(file: &AuditCheckpoint) -> LastSignature {
        LastSignature {
            series: 1,
            number: file.number,
            hash: file.hash(),
            key_id: file.key_id.clone(),
            position: file.position,
            at: file.at,
        }
    }

    /// The folders of a signer: its keys, of which the last can sign, and its files.
    struct Folders<'a> {
        keys: &'a [&'a str],
        remembered_file: Option<&'a AuditCheckpoint>,
        last_file: Option<&'a AuditCheckpoint>,
    }

    fn check(memory: Option<&LastSignature>, folders: &Folders<'_>) -> Result<(), SigningRefusal> {
        let key_ids: Vec<String> = folders.keys.iter().map(|id| (*id).to_owned()).collect();
        let state = SeriesState {
            remembered: memory,
            remembered_file: folders.remembered_file,
            last_file: folders.last_file,
            key_ids: &key_ids,
            signing_key_id: folders.keys.last().copied(),
            installation_id: Some(OURS),
        };
        state.check_signer()
    }

    fn second_key(key_id: &str, other: &str) -> SigningRefusal {
        SigningRefusal::SecondKey { key_id: key_id.to_owned(), other: other.to_owned() }
    }

    /// No other key signs.
    #[test]
    fn a_series_own_or_later_key_signs() {
        let signed = file(3, "a");
        let (files, memory) = (Some(&signed), remembered(&signed));
        let with = |keys| Folders { keys, remembered_file: files, last_file: files };
        let missing = SigningRefusal::MissingKey { key_id: "a".into() };
        for (keys, expected) in [
            (&["a"][..], Ok(())),
            (&["a", "b"], Ok(())),
            (&["b", "a", "c"], Ok(())),
            (&["b"], Err(second_key("a", "b"))),
            (&[], Err(missing.clone())),
        ] {
            assert_eq!(check(Some(&memory), &with(keys)), expected, "{keys:?}");
            let before_it_could_remember = Folders { remembered_file: None, ..with(keys) };
            assert_eq!(check(None, &before_it_could_remember), expected, "{keys:?}");
        }
        let key_ids = ["a".to_owned()];
        let public_halves_alone = SeriesState {
            remembered: Some(&memory),
            remembered_file: files,
            last_file: files,
            key_ids: &key_ids,
            signing_key_id: None,
            installation_id: None,
        };
        assert_eq!(public_halves_alone.check_signer(), Err(missing));
    }

    /// A folder of another installation is refused before its key is judged.
    #[test]
    fn a_foreign_folder_continues_no_series() {
        let of = |id| AuditCheckpoint { installation_id: Some(id), ..file(3, "b") };
        let (own, foreign) = (of(OURS), of(Uuid::from_u128(2)));
        let memory = remembered(&own);
        let in_folder = |keys, file| {
            check(
                Some(&memory),
                &Folders { keys, remembered_file: Some(file), last_file: Some(file) },
            )
        };
        assert_eq!(in_folder(&["b"], &own), Ok(()));
        let refusal = in_folder(&["b"], &foreign).unwrap_err();
        let named = "the folder belongs to another installation: checkpoint 3";
        assert!(refusal.to_string().starts_with(named), "{refusal}");
        assert_eq!(in_folder(&["c"], &foreign), Err(refusal), "before its key is judged");
    }

    /// The series goes on after no other file.
    #[test]
    fn a_series_continues_after_the_remembered_file() {
        let signed = file(3, "a");
        let next = file(4, "b");
        let other = AuditCheckpoint { firms: 2, ..signed.clone() };
        let memory = remembered(&signed);
        let of = |keys, remembered_file, last_file| {
            check(Some(&memory), &Folders { keys, remembered_file, last_file })
        };
        let empty = Folders { keys: &[], remembered_file: None, last_file: None };
        assert_eq!(check(None, &empty), Ok(()), "a new database");
        assert_eq!(check(None, &Folders { keys: &["a"], ..empty }), Ok(()), "a key waits for it");
        assert_eq!(of(&["a"], None, None), Err(SigningRefusal::MissingCheckpoint { number: 3 }));
        assert_eq!(
            of(&["a"], Some(&other), Some(&other)),
            Err(SigningRefusal::ForeignCheckpoint { number: 3 })
        );
        // The next file was stored, and its signer died before it wrote to the database.
        assert_eq!(of(&["a", "b"], Some(&signed), Some(&next)), Ok(()));
        assert_eq!(of(&["a"], Some(&signed), Some(&next)), Err(second_key("b", "a")));
    }
}
