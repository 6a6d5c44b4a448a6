//! The manifest of a backup: what was taken, from where, and the digest of each member. It is
//! written last, so a backup without it is not whole.

use anyhow::{Context, ensure};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The form of backups that this build writes and reads.
const FORMAT: u32 = 1;

/// The name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";

/// The dump of the main database, in pg_dump's custom format.
pub(super) const MAIN_DUMP: &str = "main.dump";

/// The dump of the keyring, in the same format.
pub(super) const KEYRING_DUMP: &str = "keyring.dump";

/// The wrapping key: 64 hexadecimal digits.
pub(super) const WRAPPING_KEY: &str = "wrapping.key";

/// The folder of the keys that sign checkpoints.
pub(super) const AUDIT_KEYS: &str = "audit-keys";

/// The folder of signed checkpoints and their public keys.
pub(super) const CHECKPOINTS: &str = "checkpoints";

/// The content of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BackupManifest {
    /// The form of the backup.
    format: u32,
    /// The build that took the backup.
    pub(super) version: String,
    /// Time of the snapshot of the main database, by its clock.
    pub(super) taken_at: DateTime<Utc>,
    /// The installation that both databases belong to.
    pub(super) installation_id: Option<Uuid>,
    /// Position that the log had reached.
    pub(super) position: i64,
    /// Number of the last signed checkpoint that the main database knew.
    pub(super) checkpoint: Option<u64>,
    /// The newest migration of each database.
    pub(super) schemas: SchemaVersions,
    /// The check value of the wrapping key, in hexadecimal digits.
    pub(super) wrapping_check: String,
    /// Major version of the server.
    pub(super) server: u32,
    /// Whether the tables had row guards (`migrate --roles`). A restore leaves roles out.
    pub(super) has_roles: bool,
    /// All files beside this one.
    pub(super) members: Vec<BackupMember>,
}

/// The newest migration of each database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SchemaVersions {
    pub(super) main: i64,
    pub(super) keyring: i64,
}

/// One file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BackupMember {
    /// The name, with its folder.
    pub(super) name: String,
    /// The length.
    pub(super) bytes: u64,
    /// The SHA-256, in hexadecimal digits.
    pub(super) sha256: String,
}

impl BackupManifest {
    /// A manifest of this build's form, before the snapshot.
    pub(super) fn new(facts: BackupFacts) -> Self {
        let BackupFacts { version, taken_at, installation_id, schemas, wrapping_check, server } =
            facts;
        Self {
            format: FORMAT,
            version,
            taken_at,
            installation_id,
            position: 0,
            checkpoint: None,
            schemas,
            wrapping_check,
            server,
            has_roles: false,
            members: Vec::new(),
        }
    }

    /// Reads a manifest.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        /// The part that every form has.
        #[derive(Deserialize)]
        struct FormatOnly {
            format: u32,
        }
        let FormatOnly { format } = serde_json::from_str(text).context(MANIFEST)?;
        ensure!(
            format == FORMAT,
            "the backup has the form {format}, and this program reads {FORMAT}: use a newer one"
        );
        let manifest: Self = serde_json::from_str(text).context(MANIFEST)?;
        for BackupMember { name, .. } in &manifest.members {
            ensure!(is_known(name), "{MANIFEST}: a backup has no file {name:?}");
        }
        Ok(manifest)
    }

    /// The text of the manifest, which is what is signed.
    pub(super) fn to_text(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self).context(MANIFEST)? + "\n")
    }

    /// Bytes of all members.
    pub(super) fn total_bytes(&self) -> u64 {
        self.members.iter().map(|member| member.bytes).sum()
    }

    /// The member with this name.
    pub(super) fn find_member(&self, name: &str) -> Option<&BackupMember> {
        self.members.iter().find(|member| member.name == name)
    }

    /// The members in this folder, each with its name there.
    pub(super) fn members_in(&self, folder: &str) -> impl Iterator<Item = (&BackupMember, &str)> {
        self.members.iter().filter_map(move |member| {
            Some((member, member.name.strip_prefix(folder)?.strip_prefix('/')?))
        })
    }
}

/// The facts of a backup that hold before its snapshot.
pub(super) struct BackupFacts {
    pub(super) version: String,
    pub(super) taken_at: DateTime<Utc>,
    pub(super) installation_id: Option<Uuid>,
    pub(super) schemas: SchemaVersions,
    pub(super) wrapping_check: String,
    pub(super) server: u32,
}

/// Whether a backup may have a member with this name. A name must not lead out of its folder.
pub(super) fn is_known(name: &str) -> bool {
    let is_plain = |name: &str| {
        !name.is_empty()
            && !name.starts_with('.')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
    };
    match name.split_once('/') {
        Some((folder, name)) => [AUDIT_KEYS, CHECKPOINTS].contains(&folder) && is_plain(name),
        None => [MAIN_DUMP, KEYRING_DUMP, WRAPPING_KEY].contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_member_leads_out_of_its_folder() {
        for good in ["main.dump", "keyring.dump", "wrapping.key", "checkpoints/00000001.json"] {
            assert!(is_known(good), "{good}");
        }
        for bad in [
            "",
            "manifest.json",
            "/etc/passwd",
            "../wrapping.key",
            "checkpoints/../wrapping.key",
            "checkpoints/",
            "checkpoints/.",
            "checkpoints/..",
            "checkpoints/a/b",
            "other/file",
            "checkpoints/a b",
        ] {
            assert!(!is_known(bad), "{bad}");
        }
    }

    #[test]
    fn a_newer_backup_is_refused_by_number() {
        let refused = BackupManifest::read(r#"{"format": 2, "new": true}"#).unwrap_err();
        assert!(refused.to_string().contains("the form 2"), "{refused}");
        assert!(BackupManifest::read("{}").is_err());
    }
}
