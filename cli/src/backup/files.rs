//! Keys and signed checkpoints: the files of a backup that are in no database. A restore puts each
//! into its place. A file that is there already stays, and must be equal.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use auditor::Notary;
use nix::fcntl::OFlag;
use service::StorageSettings;
use service::key_files::{key_of_file, parse_key, write_key_file};
use vault::WrappingKey;

use super::manifest::{AUDIT_KEYS, BackupMember, CHECKPOINTS, WRAPPING_KEY};
use super::sink::BackupSink;
use super::source::{BackupSource, read_if_there};

/// The mode of a private key.
const SECRET_MODE: u32 = 0o600;

/// The mode of a checkpoint or public key.
const PUBLIC_MODE: u32 = 0o644;

/// A file to add to a backup.
pub(super) struct FileToAdd {
    name: String,
    path: PathBuf,
}

impl FileToAdd {
    pub(super) fn add_to(&self, sink: &mut BackupSink) -> anyhow::Result<BackupMember> {
        let named = || self.path.display().to_string();
        sink.add_member(&self.name, &mut File::open(&self.path).with_context(named)?)
    }
}

/// The wrapping key of this text.
pub(super) fn key_of(text: &str) -> anyhow::Result<WrappingKey> {
    parse_key(text).context("the wrapping key")
}

/// The keys that sign checkpoints, both halves.
pub(super) fn signing_keys(notary: &Notary) -> anyhow::Result<Vec<FileToAdd>> {
    in_folder(notary.keys.folder(), AUDIT_KEYS, |extension, _| ["key", "pub"].contains(&extension))
}

/// The signed checkpoints up to the last one that the database knows, and the public keys beside
/// them.
pub(super) fn checkpoint_files(
    notary: &Notary,
    last: Option<u64>,
) -> anyhow::Result<Vec<FileToAdd>> {
    in_folder(notary.checkpoints.folder(), CHECKPOINTS, |extension, stem| {
        let number = stem.parse::<u64>().ok();
        extension == "pub" || (extension == "json" && number.is_some() && number <= last)
    })
}

/// The files of a folder that `is_wanted` names by extension and stem. A missing folder has none.
fn in_folder(
    folder: &Path,
    name: &str,
    is_wanted: impl Fn(&str, &str) -> bool,
) -> anyhow::Result<Vec<FileToAdd>> {
    let named = || folder.display().to_string();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(named)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(named)?.path();
        let parts = path.file_name().and_then(|name| name.to_str()?.rsplit_once('.'));
        let Some((stem, extension)) = parts.map(|(stem, end)| (stem.to_owned(), end.to_owned()))
        else {
            continue;
        };
        if is_wanted(&extension, &stem) {
            files.push(FileToAdd { name: format!("{name}/{stem}.{extension}"), path });
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// The files that a restore puts into their places.
pub(super) struct FilePlacement {
    /// The wrapping key of the restored keyring.
    pub(super) wrapping: WrappingKey,
    /// The text of the wrapping key, if its place is empty.
    new_key: Option<(PathBuf, String)>,
    /// Files whose places are empty, with their modes.
    new_files: Vec<(PathBuf, Vec<u8>, u32)>,
    /// Files that stay as they are, and are not in the backup.
    pub(super) kept_checkpoints: usize,
}

impl FilePlacement {
    /// Plans the places of all files, and changes nothing.
    ///
    /// # Errors
    /// If a key does not fit the backup, or another file is in the place of one.
    pub(super) fn plan_places(
        storage: &StorageSettings,
        source: &BackupSource,
    ) -> anyhow::Result<Self> {
        let (wrapping, new_key) = wrapping_key(storage, source)?;
        let notary = storage.notary();
        let mut new_files = Vec::new();
        for (folder, place) in
            [(AUDIT_KEYS, notary.keys.folder()), (CHECKPOINTS, notary.checkpoints.folder())]
        {
            for (member, name) in source.manifest.members_in(folder) {
                let path = place.join(name);
                let bytes = source.member_bytes(&member.name)?;
                match read_if_there(&path)? {
                    None if name.ends_with(".key") => new_files.push((path, bytes, SECRET_MODE)),
                    None => new_files.push((path, bytes, PUBLIC_MODE)),
                    Some(there) => ensure!(
                        there == bytes,
                        "{}: it is another file than that of the backup: move it away, or name \
                         another folder",
                        path.display()
                    ),
                }
            }
        }
        let known = |number: u64| {
            let name = format!("{CHECKPOINTS}/{number:08}.json");
            source.manifest.find_member(&name).is_some()
        };
        let there = notary.checkpoints.numbered_files()?;
        let kept_checkpoints = there.iter().filter(|(number, _)| !known(*number)).count();
        Ok(Self { wrapping, new_key, new_files, kept_checkpoints })
    }

    /// Puts the files into their places.
    pub(super) fn carry_out(&self) -> anyhow::Result<()> {
        if let Some((path, key)) = &self.new_key {
            write_key_file(path, key).with_context(|| path.display().to_string())?;
        }
        for (path, bytes, mode) in &self.new_files {
            write_new(path, bytes, *mode).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// The wrapping key: the configured one, else that of the backup.
fn wrapping_key(
    storage: &StorageSettings,
    source: &BackupSource,
) -> anyhow::Result<(WrappingKey, Option<(PathBuf, String)>)> {
    let place = storage.wrapping_key_place();
    let of_backup = match source.manifest.find_member(WRAPPING_KEY) {
        Some(_) => {
            Some(String::from_utf8(source.member_bytes(WRAPPING_KEY)?).context(WRAPPING_KEY)?)
        }
        None => None,
    };
    let (key, new_key) = match (&storage.wrapping_key, of_backup) {
        (Some(text), _) => (key_of(text)?, None),
        (None, _) if place.exists() => (key_of_file(&place)?, None),
        (None, Some(text)) => (key_of(&text)?, Some((place, text))),
        (None, None) => bail!(
            "the backup was taken without keys, and there is no wrapping key in {}: put it there, \
             or name it by --wrapping-key-file",
            place.display()
        ),
    };
    let check = hex::decode(&source.manifest.wrapping_check).context("the check of the key")?;
    ensure!(
        key.opens_check(&check),
        "the keyring of the backup was made with another wrapping key than the one that is set here"
    );
    Ok((key, new_key))
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o711).create(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode).custom_flags(OFlag::O_NOFOLLOW.bits());
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
