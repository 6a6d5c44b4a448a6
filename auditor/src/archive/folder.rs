//! The archive as a folder.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::audit::{ArchivedBlock, ArchivedFile, SegmentManifest};
use sha2::{Digest, Sha256};

use super::SignedManifest;
use super::lines::{ArchivedEvent, read_block};
use crate::error::AuditError;
use crate::files::{Draft, PUBLIC_MODE, all_paths, numbered_paths, write_new};

/// No writer is at work on an older draft.
const DRAFT_AGE_MAX: Duration = Duration::from_secs(3_600);

/// A folder of segments.
#[derive(Debug, Clone)]
pub struct ArchiveFolder {
    folder: PathBuf,
}

impl ArchiveFolder {
    /// The archive in this folder. The folder need not exist.
    #[must_use]
    pub const fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The signed manifests, in order.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn read_manifests(&self) -> Result<Vec<SignedManifest>, AuditError> {
        let files = numbered_paths(&self.folder, "json")?;
        files.iter().map(|(number, path)| read_manifest(*number, path)).collect()
    }

    /// The signed manifest of the last segment.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_last(&self) -> Result<Option<SignedManifest>, AuditError> {
        let files = numbered_paths(&self.folder, "json")?;
        files.last().map(|(number, path)| read_manifest(*number, path)).transpose()
    }

    /// Stores a signed manifest. Returns false if its number is taken.
    pub(super) fn store_manifest(&self, signed: &SignedManifest) -> Result<bool, AuditError> {
        let path = self.folder.join(format!("{:08}.json", signed.manifest.number));
        let text = serde_json::to_string(signed)
            .map_err(|error| AuditError::unreadable_file(&path, &error))?;
        write_new(&path, PUBLIC_MODE, format!("{text}\n").as_bytes())
    }

    /// Removes what killed writers left. A living writer adds to its draft all the time.
    pub(super) fn remove_drafts(&self) -> Result<(), AuditError> {
        for path in all_paths(&self.folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let age = || fs::metadata(&path)?.modified()?.elapsed().map_err(io::Error::other);
            if name.contains(".draft-") && age().is_ok_and(|age| age > DRAFT_AGE_MAX) {
                fs::remove_file(&path).map_err(AuditError::at_path(&path))?;
            }
        }
        Ok(())
    }

    /// Begins a file of a segment.
    pub(super) fn begin_file(&self, number: u64) -> Result<Draft, AuditError> {
        Draft::beside(&self.folder.join(format!("{number:08}")), PUBLIC_MODE)
    }

    /// Gives a file its name. A file of this name has this content, so it may be there already.
    pub(super) fn keep_file(&self, draft: Draft, file: &ArchivedFile) -> Result<(), AuditError> {
        draft.keep_as(&self.folder.join(&file.name)).map(drop)
    }

    /// Reads the compressed bytes of these blocks, one after the other.
    pub(super) fn open_blocks(
        &self,
        manifest: &SegmentManifest,
    ) -> Result<BlockReader, AuditError> {
        let path = self.file_path(manifest, &manifest.events_file)?;
        let file = File::open(&path).map_err(at_file(manifest, &path))?;
        let size = file.metadata().map_err(AuditError::at_path(&path))?.len();
        if size > manifest.events_file.bytes {
            let why = "the file of events goes on after its last block";
            return Err(AuditError::in_segment(manifest.number, None, why));
        }
        Ok(BlockReader { number: manifest.number, path, file, size })
    }

    /// Reads the index of a segment.
    pub(super) fn read_index(&self, manifest: &SegmentManifest) -> Result<Vec<u8>, AuditError> {
        let path = self.file_path(manifest, &manifest.index_file)?;
        fs::read(&path).map_err(at_file(manifest, &path))
    }

    /// The path of a segment's file. A manifest must not lead out of the folder.
    fn file_path(
        &self,
        manifest: &SegmentManifest,
        file: &ArchivedFile,
    ) -> Result<PathBuf, AuditError> {
        let is_plain = Path::new(&file.name).file_name().is_some_and(|name| *name == *file.name);
        if is_plain {
            return Ok(self.folder.join(&file.name));
        }
        let why = "its manifest names a file that is not in the archive";
        Err(AuditError::in_segment(manifest.number, None, why))
    }
}

/// An open file of events.
pub(super) struct BlockReader {
    number: u64,
    path: PathBuf,
    file: File,
    size: u64,
}

/// A block whose bytes are those of the manifest.
pub(super) struct CheckedBlock {
    pub(super) compressed: Vec<u8>,
    pub(super) events: Vec<ArchivedEvent>,
}

impl BlockReader {
    /// Reads a block, and compares its bytes with the manifest.
    pub(super) fn read(&mut self, block: &ArchivedBlock) -> Result<CheckedBlock, AuditError> {
        let broken = |why: &str| Err(AuditError::in_segment(self.number, Some(block.number), why));
        if block.offset.saturating_add(block.bytes) > self.size {
            return broken("the file of events ends before it");
        }
        let mut compressed = Vec::new();
        let mut read = || {
            (&self.file).seek(SeekFrom::Start(block.offset))?;
            (&self.file).take(block.bytes).read_to_end(&mut compressed)
        };
        read().map_err(AuditError::at_path(&self.path))?;
        if Sha256::digest(&compressed)[..] != block.sha256 {
            return broken("its bytes are not those of the manifest");
        }
        match read_block(&compressed) {
            Ok(events) => Ok(CheckedBlock { compressed, events }),
            Err(why) => broken(&why),
        }
    }
}

/// Makes the error of a segment's file. A missing file is a flaw of the archive.
fn at_file(manifest: &SegmentManifest, path: &Path) -> impl FnOnce(io::Error) -> AuditError {
    move |error| match error.kind() {
        ErrorKind::NotFound => {
            let why = format!("its file {} is missing", path.display());
            AuditError::in_segment(manifest.number, None, why)
        }
        _ => AuditError::at_path(path)(error),
    }
}

fn read_manifest(number: u64, path: &Path) -> Result<SignedManifest, AuditError> {
    let text = fs::read_to_string(path).map_err(AuditError::at_path(path))?;
    let signed: SignedManifest =
        serde_json::from_str(&text).map_err(|error| AuditError::unreadable_file(path, &error))?;
    if signed.manifest.number == number {
        return Ok(signed);
    }
    let why = format!("it is the manifest of segment {}", signed.manifest.number);
    Err(AuditError::unreadable_file(path, &why))
}
