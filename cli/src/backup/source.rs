//! A backup that is read: a folder, or an archive that is unpacked first.

use std::fs::{self, File};
use std::io::{self, Read, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::manifest::{BackupManifest, BackupMember, MANIFEST, is_known};
use super::origin::{ManifestOrigin, ORIGIN, ProvedOrigin, TrustedKeys, UnprovedOrigin};
use crate::output::OutputArgs;
use crate::progress::Progress;

/// A backup on the disk of which only the manifest and its origin were looked at.
pub(super) struct FoundBackup {
    folder: PathBuf,
    manifest: Vec<u8>,
    origin: ManifestOrigin,
    unpacked: Option<TempDir>,
}

impl FoundBackup {
    /// Opens a backup. An archive on standard input is unpacked into a temporary folder.
    pub(super) fn open(place: &Path) -> anyhow::Result<Self> {
        let unpacked = match place == Path::new("-") {
            true => Some(unpack_archive(stdin().lock()).context("the archive on standard input")?),
            false => None,
        };
        let folder = unpacked.as_ref().map_or(place, TempDir::path).to_owned();
        let Some(manifest) = read_if_there(&folder.join(MANIFEST))? else {
            bail!(
                "{}: there is no {MANIFEST}: this is no backup, or it was not finished",
                place.display()
            );
        };
        let origin = read_if_there(&folder.join(ORIGIN))?;
        let origin = origin.map(|text| ManifestOrigin::read(&text)).transpose()?;
        Ok(Self { folder, manifest, origin: origin.unwrap_or_default(), unpacked })
    }

    /// Judges the origin by trusted keys.
    pub(super) fn prove_origin(
        &self,
        trusted: &TrustedKeys,
    ) -> Result<ProvedOrigin, UnprovedOrigin> {
        trusted.prove_origin(&self.manifest, &self.origin)
    }

    /// Reads the manifest. The caller has judged the origin.
    pub(super) fn read_manifest(self) -> anyhow::Result<BackupSource> {
        let text = std::str::from_utf8(&self.manifest).context(MANIFEST)?;
        let manifest = BackupManifest::read(text)?;
        Ok(BackupSource { folder: self.folder, manifest, _unpacked: self.unpacked })
    }
}

/// A backup that is read.
pub(super) struct BackupSource {
    folder: PathBuf,
    pub(super) manifest: BackupManifest,
    /// The folder that an archive was unpacked into. It goes with this value.
    _unpacked: Option<TempDir>,
}

impl BackupSource {
    /// Reads a member. The end of a member that is not as the manifest says is an error, because
    /// the files may change while they are read.
    pub(super) fn open_member(&self, name: &str) -> anyhow::Result<MemberReader> {
        let member = self.manifest.members.iter().find(|member| member.name == name);
        let member = member.with_context(|| format!("the backup has no {name}"))?.clone();
        Ok(MemberReader { bytes: self.open(name)?, member, length: 0, digest: Sha256::new() })
    }

    /// Opens the file of a member, or its pieces.
    fn open(&self, name: &str) -> anyhow::Result<Box<dyn Read + Send>> {
        let whole = self.folder.join(name);
        if whole.exists() {
            let file = File::open(&whole).with_context(|| whole.display().to_string())?;
            return Ok(Box::new(file));
        }
        let pieces: Vec<PathBuf> = (0..)
            .map(|number| self.folder.join(format!("{name}.{number:06}")))
            .take_while(|piece| piece.exists())
            .collect();
        ensure!(!pieces.is_empty(), "{name}: it is missing");
        let mut all: Box<dyn Read + Send> = Box::new(io::empty());
        for piece in pieces {
            let file = File::open(&piece).with_context(|| piece.display().to_string())?;
            all = Box::new(all.chain(file));
        }
        Ok(all)
    }

    /// Reads a small member.
    pub(super) fn member_bytes(&self, name: &str) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_member(name)?.read_to_end(&mut bytes).with_context(|| name.to_owned())?;
        Ok(bytes)
    }

    /// Compares each member with its digest.
    pub(super) fn verify_members(&self, how: OutputArgs) -> anyhow::Result<()> {
        let progress = Progress::new("bytes", how);
        let all = self.manifest.total_bytes();
        let mut done = 0;
        let mut buffer = vec![0; 1 << 20];
        for BackupMember { name, .. } in &self.manifest.members {
            let mut member = self.open_member(name)?;
            loop {
                let read = member.read(&mut buffer)?;
                if read == 0 {
                    break;
                }
                done += read as u64;
                progress.advance_to(done, all);
            }
        }
        progress.finish();
        Ok(())
    }
}

/// A member of a backup that is compared with the manifest as it is read.
pub(super) struct MemberReader {
    bytes: Box<dyn Read + Send>,
    member: BackupMember,
    length: u64,
    digest: Sha256,
}

impl MemberReader {
    /// Compares all that was read with the manifest.
    fn check_end(&self) -> io::Result<()> {
        let BackupMember { name, bytes, sha256 } = &self.member;
        let fault = if self.length != *bytes {
            format!("{name}: it has {} bytes, and had {bytes}", self.length)
        } else if hex::encode(self.digest.clone().finalize()) != *sha256 {
            format!("{name}: it was changed")
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, fault))
    }
}

impl Read for MemberReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        if read == 0 && !buffer.is_empty() {
            self.check_end()?;
        }
        self.digest.update(&buffer[..read]);
        self.length += read as u64;
        Ok(read)
    }
}

/// The content of a file. `None` if there is no such file.
pub(super) fn read_if_there(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).with_context(|| path.display().to_string()),
    }
}

/// Unpacks an archive into a new folder that only its owner may read. An archive that was led
/// through other hands must not write elsewhere: only files of a backup are taken.
fn unpack_archive(archive: impl Read) -> anyhow::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("firmforms-backup-").tempdir()?;
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let name = path.to_str().unwrap_or_default().to_owned();
        let is_file = entry.header().entry_type() == tar::EntryType::Regular;
        ensure!(is_file && is_member_or_piece(&name), "a backup has no {name:?}");
        let path = folder.path().join(&name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = File::create_new(&path).with_context(|| name.clone())?;
        io::copy(&mut entry, &mut file).with_context(|| name.clone())?;
    }
    Ok(folder)
}

fn is_member_or_piece(name: &str) -> bool {
    let is_number = |text: &str| text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    let whole = name.rsplit_once('.').filter(|(_, number)| is_number(number));
    [MANIFEST, ORIGIN].contains(&name) || is_known(whole.map_or(name, |(whole, _)| whole))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn archive(entries: &[(&str, tar::EntryType)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, kind) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_size(3);
            // The builder refuses such names, and a stranger's program does not.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, &b"abc"[..]).unwrap();
        }
        archive.into_inner().unwrap()
    }

    #[test]
    fn an_archive_writes_only_backup_files() {
        let file = tar::EntryType::Regular;
        for (name, kind) in [
            ("../escaped", file),
            ("/etc/escaped", file),
            ("checkpoints/../../escaped", file),
            ("other", file),
            ("main.dump", tar::EntryType::Symlink),
            ("checkpoints", tar::EntryType::Directory),
        ] {
            assert!(unpack_archive(archive(&[(name, kind)]).as_slice()).is_err(), "{name}");
        }
        assert!(
            unpack_archive(archive(&[("main.dump", file), ("main.dump", file)]).as_slice())
                .is_err()
        );
        let pieces = [("main.dump.000000", file), ("main.dump.000001", file)];
        let folder = unpack_archive(archive(&pieces).as_slice()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    fn source(folder: &Path, text: &[u8]) -> BackupSource {
        let member = BackupMember {
            name: "main.dump".to_owned(),
            bytes: text.len() as u64,
            sha256: hex::encode(Sha256::digest(text)),
        };
        let manifest = json!({
            "format": 1, "version": "0.2.0", "taken_at": "2026-11-01T12:00:00Z",
            "installation_id": null, "position": 1, "checkpoint": null,
            "schemas": {"main": 1, "keyring": 1}, "wrapping_check": "", "server": 15,
            "has_roles": false, "members": [member],
        });
        let manifest = BackupManifest::read(&manifest.to_string()).unwrap();
        BackupSource { folder: folder.to_owned(), manifest, _unpacked: None }
    }

    /// A member was compared with its digest in one reading and used in another.
    #[test]
    fn a_member_replaced_after_its_check_fails() {
        let folder = tempfile::tempdir().unwrap();
        let (place, source) = (folder.path().join("main.dump"), source(folder.path(), b"abc"));
        for (bytes, fault) in [
            ("abc", None),
            ("abd", Some("main.dump: it was changed")),
            ("abcd", Some("main.dump: it has 4 bytes, and had 3")),
        ] {
            fs::write(&place, bytes).unwrap();
            let mut read = Vec::new();
            let ended = source.open_member("main.dump").unwrap().read_to_end(&mut read);
            assert_eq!(ended.err().map(|error| error.to_string()).as_deref(), fault);
        }
        assert!(source.open_member("other").is_err());
    }

    #[test]
    fn an_archive_cut_short_is_refused() {
        let whole = archive(&[("main.dump", tar::EntryType::Regular)]);
        assert!(unpack_archive(&whole[..513]).is_err());
    }
}
