//! The signed checkpoints that the walk trusts: each has a trusted signature and follows the one
//! before.

use std::collections::VecDeque;

use domain::audit::merkle::Hash;
use domain::audit::{AuditCheckpoint, GENESIS_HASH};
use eventstore::proof;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{FlawLocation, VerifyStop, broken_at};
use crate::checkpoints::{CheckpointFolder, read_checkpoint};
use crate::keys::PublicKey;

/// The trusted checkpoints, in order.
#[derive(Debug, Default)]
pub(super) struct TrustedCheckpoints {
    all: VecDeque<AuditCheckpoint>,
    missing: Vec<u64>,
}

impl TrustedCheckpoints {
    /// Reads all signed checkpoints, and checks each signature and link. A folder of another
    /// installation is named as one first: its keys and its log are foreign, too.
    pub(super) fn read(
        checkpoints: &CheckpointFolder,
        trusted: &[PublicKey],
        installation_id: Option<Uuid>,
    ) -> Result<Self, VerifyStop> {
        refuse_other_installation(checkpoints, installation_id)?;
        let mut witnesses = Self::default();
        let mut next = 1;
        let mut previous = GENESIS_HASH;
        for (number, path) in checkpoints.numbered_files()? {
            let place = FlawLocation::Checkpoint { number };
            let Ok(signed) = read_checkpoint(&path) else {
                return broken_at(place, "the file is not a checkpoint");
            };
            let Some(key) = signed.verified_key() else {
                return broken_at(place, "the signature is not that of its key over what it says");
            };
            if !trusted.contains(&key) {
                let why = format!("it is signed with the key {}, which is not believed", key.id());
                return broken_at(place, why);
            }
            let gap = number != next;
            witnesses.missing.extend(next..number);
            witnesses.add_checkpoint(signed.checkpoint, number, (!gap).then_some(previous))?;
            previous = witnesses.all.back().map_or(GENESIS_HASH, AuditCheckpoint::hash);
            next = number + 1;
        }
        Ok(witnesses)
    }

    /// Adds a checkpoint. `previous` is the hash of the checkpoint before; `None` if that file is
    /// missing.
    fn add_checkpoint(
        &mut self,
        checkpoint: AuditCheckpoint,
        number: u64,
        previous: Option<Hash>,
    ) -> Result<(), VerifyStop> {
        let place = FlawLocation::Checkpoint { number };
        if checkpoint.number != number {
            return broken_at(place, format!("the file holds checkpoint {}", checkpoint.number));
        }
        if previous.is_some_and(|previous| previous != checkpoint.previous) {
            return broken_at(place, "it does not follow the checkpoint before");
        }
        if self.all.back().is_some_and(|before| before.position > checkpoint.position) {
            return broken_at(place, "the log was longer at the checkpoint before");
        }
        self.all.push_back(checkpoint);
        Ok(())
    }

    /// The reason why a verification stays incomplete, if checkpoints are missing.
    pub(super) async fn incomplete_reason(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Option<String>, sqlx::Error> {
        if let Some(first) = self.missing.first() {
            let count = self.missing.len();
            return Ok(Some(format!(
                "{count} checkpoints are missing, the first of them number {first}: \
                 what is left agrees with the database"
            )));
        }
        let nothing = self.all.is_empty() && proof::height(connection).await? > 0;
        Ok(nothing.then(|| {
            "there is no checkpoint: chains and seals agree with the log, but a tail that was cut \
             off, or a history that was written anew as a whole, cannot be seen"
                .to_owned()
        }))
    }

    /// Removes and returns the checkpoints up to this position.
    pub(super) fn take_through(&mut self, position: i64) -> Self {
        let later = self.all.partition_point(|checkpoint| checkpoint.position <= position);
        let later = self.all.split_off(later);
        let all = std::mem::replace(&mut self.all, later);
        Self { all, missing: Vec::new() }
    }

    /// The next checkpoint.
    pub(super) fn next(&self) -> Option<&AuditCheckpoint> {
        self.all.front()
    }

    /// Removes and returns the next checkpoint.
    pub(super) fn take_next(&mut self) -> Option<AuditCheckpoint> {
        self.all.pop_front()
    }
}

fn refuse_other_installation(
    checkpoints: &CheckpointFolder,
    installation_id: Option<Uuid>,
) -> Result<(), VerifyStop> {
    let files = checkpoints.numbered_files()?;
    // The walk names a file that is no checkpoint.
    let last = files.last().and_then(|(_, path)| read_checkpoint(path).ok());
    let Some(signed) = last else {
        return Ok(());
    };
    match signed.checkpoint.other_installation(installation_id) {
        Some(other) => {
            broken_at(FlawLocation::Checkpoint { number: other.number }, other.to_string())
        }
        None => Ok(()),
    }
}

/// The flaw of a checkpoint that signed something else.
pub(super) fn mismatch_text(subject: &str, said: &AuditCheckpoint) -> String {
    format!("{subject} up to position {} is not what was signed at {}", said.position, said.at)
}
