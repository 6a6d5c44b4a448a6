//! The files of an archive: manifests, events and indexes, in a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::audit::{ArchivedBlock, ArchivedFile, SegmentManifest};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::SignedManifest;
use super::access::{BucketAccess, BucketPlace};
use super::bucket::BucketStore;
use super::folder::FolderStore;
use super::lines::{ArchivedEvent, read_block};
use super::store::{ArchiveStore, KeptFile, UnnamedFile, is_missing};
use crate::error::AuditError;

/// Bytes that are read together, if blocks are read in a row. A store far away takes about as long
/// for a block of 100 KB.
const READ_AHEAD_BYTES: u64 = 8 << 20;

/// An archive of segments.
#[derive(Debug, Clone)]
pub struct LogArchive {
    store: Arc<dyn ArchiveStore>,
}

impl LogArchive {
    /// The archive in this folder. The folder need not exist.
    #[must_use]
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { store: Arc::new(FolderStore(folder)) }
    }

    /// The archive in this bucket of S3. Its requests run on the runtime of the caller, which must
    /// have several threads. The bucket is not asked yet.
    ///
    /// # Errors
    /// If the access is incomplete.
    pub fn in_bucket(place: BucketPlace, access: &BucketAccess) -> Result<Self, AuditError> {
        Ok(Self { store: Arc::new(BucketStore::new(place, access)?) })
    }

    /// Returns this archive for a process that may stop.
    pub(super) fn that_stops(&self, stop: &CancellationToken) -> Self {
        Self { store: self.store.that_stops(stop) }
    }

    /// The signed manifests, in order.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn read_manifests(&self) -> Result<Vec<SignedManifest>, AuditError> {
        self.list_numbers()?.into_iter().map(|number| self.read_manifest(number)).collect()
    }

    /// The signed manifest of the last segment.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_last(&self) -> Result<Option<SignedManifest>, AuditError> {
        self.list_numbers()?.last().map(|number| self.read_manifest(*number)).transpose()
    }

    /// The signed manifest of this segment, if the archive has it. A file of another content is a
    /// flaw of the archive.
    pub(super) fn find_manifest(&self, number: u64) -> Result<Option<SignedManifest>, AuditError> {
        match self.read_manifest(number) {
            Ok(signed) => Ok(Some(signed)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error @ AuditError::Unreadable { .. }) => {
                Err(AuditError::in_segment(number, None, error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// The numbers of the manifests, in order.
    fn list_numbers(&self) -> Result<Vec<u64>, AuditError> {
        let names = self.store.list_names()?;
        let number = |name: &String| name.strip_suffix(".json")?.parse().ok();
        let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn read_manifest(&self, number: u64) -> Result<SignedManifest, AuditError> {
        let name = manifest_name(number);
        let path = self.store.locate(&name);
        let signed: SignedManifest = serde_json::from_slice(&self.store.read(&name)?)
            .map_err(|error| AuditError::unreadable_file(&path, &error))?;
        if signed.manifest.number == number {
            return Ok(signed);
        }
        let why = format!("it is the manifest of segment {}", signed.manifest.number);
        Err(AuditError::unreadable_file(&path, &why))
    }

    /// Stores a signed manifest. Returns false if another one has its number.
    pub(super) fn store_manifest(&self, signed: &SignedManifest) -> Result<bool, AuditError> {
        let name = manifest_name(signed.manifest.number);
        let path = self.store.locate(&name);
        let text = serde_json::to_string(signed)
            .map_err(|error| AuditError::unreadable_file(&path, &error))?;
        let text = format!("{text}\n");
        let mut file = self.store.begin_file(signed.manifest.number)?;
        file.write(text.as_bytes())?;
        let kept = file.keep_as(&name)?;
        // A request that is tried again finds the manifest of its first try.
        match kept {
            _ if self.store.read(&name)? == text.as_bytes() => Ok(true),
            KeptFile::NameTaken => Ok(false),
            KeptFile::New => {
                let why = "it was written, and has other content when it is read";
                Err(AuditError::unreadable_file(&path, why))
            }
        }
    }

    /// Removes what killed writers left.
    pub(super) fn remove_drafts(&self) -> Result<(), AuditError> {
        self.store.remove_drafts()
    }

    /// Begins a file of a segment.
    pub(super) fn begin_file(&self, number: u64) -> Result<Box<dyn UnnamedFile>, AuditError> {
        self.store.begin_file(number)
    }

    /// Stores a file of a segment. The same file may be there already: its writer was killed.
    pub(super) fn keep_file(
        &self,
        number: u64,
        begun: Box<dyn UnnamedFile>,
        file: &ArchivedFile,
    ) -> Result<(), AuditError> {
        if begun.keep_as(&file.name)? == KeptFile::New
            || Sha256::digest(self.store.read(&file.name)?)[..] == file.sha256
        {
            return Ok(());
        }
        let path = self.store.locate(&file.name);
        let why = format!(
            "its file {} is there already, with other bytes: move it elsewhere, and archive again",
            path.display()
        );
        Err(AuditError::in_segment(number, None, why))
    }

    /// Reads the compressed bytes of these blocks, one after the other.
    pub(super) fn open_blocks<'a>(
        &'a self,
        manifest: &'a SegmentManifest,
    ) -> Result<BlockReader<'a>, AuditError> {
        let name = plain_name(manifest, &manifest.events_file)?;
        let size = self.store.size(name).map_err(|error| self.at_file(error, manifest, name))?;
        if size > manifest.events_file.bytes {
            let why = "the file of events goes on after its last block";
            return Err(AuditError::in_segment(manifest.number, None, why));
        }
        Ok(BlockReader { archive: self, manifest, name, size, read: Vec::new(), read_from: 0 })
    }

    /// Reads the index of a segment.
    pub(super) fn read_index(&self, manifest: &SegmentManifest) -> Result<Vec<u8>, AuditError> {
        let name = plain_name(manifest, &manifest.index_file)?;
        self.store.read(name).map_err(|error| self.at_file(error, manifest, name))
    }

    /// Makes the error of a segment's file. A missing file is a flaw of the archive.
    fn at_file(&self, error: AuditError, manifest: &SegmentManifest, name: &str) -> AuditError {
        if !is_missing(&error) {
            return error;
        }
        let why = format!("its file {} is missing", self.store.locate(name).display());
        AuditError::in_segment(manifest.number, None, why)
    }
}

/// An open file of events.
pub(super) struct BlockReader<'a> {
    archive: &'a LogArchive,
    manifest: &'a SegmentManifest,
    name: &'a str,
    size: u64,
    /// The bytes that were read last.
    read: Vec<u8>,
    /// Where they begin in the file.
    read_from: u64,
}

/// A block whose bytes are those of the manifest.
pub(super) struct CheckedBlock {
    pub(super) compressed: Vec<u8>,
    pub(super) events: Vec<ArchivedEvent>,
}

impl BlockReader<'_> {
    /// Reads a block, and compares its bytes with the manifest.
    pub(super) fn read(&mut self, block: &ArchivedBlock) -> Result<CheckedBlock, AuditError> {
        let number = self.manifest.number;
        let broken = |why: &str| Err(AuditError::in_segment(number, Some(block.number), why));
        let end = block.offset.saturating_add(block.bytes);
        if end > self.size {
            return broken("the file of events ends before it");
        }
        self.read_up_to(block.offset, end)?;
        let begin = block.offset - self.read_from;
        let place = begin as usize..(begin + block.bytes) as usize;
        let Some(compressed) = self.read.get(place).map(<[u8]>::to_vec) else {
            return broken("the file of events ends before it");
        };
        if Sha256::digest(&compressed)[..] != block.sha256 {
            return broken("its bytes are not those of the manifest");
        }
        match read_block(&compressed) {
            Ok(events) => Ok(CheckedBlock { compressed, events }),
            Err(why) => broken(&why),
        }
    }

    /// Makes these bytes of the file be in memory. After the bytes that are there, more are read.
    fn read_up_to(&mut self, begin: u64, end: u64) -> Result<(), AuditError> {
        let known = self.read_from..=self.read_from + self.read.len() as u64;
        if known.contains(&begin) && known.contains(&end) {
            return Ok(());
        }
        let ahead = if known.contains(&begin) { READ_AHEAD_BYTES } else { 0 };
        let range = begin..end.max(self.size.min(begin.saturating_add(ahead)));
        let read = self.archive.store.read_range(self.name, range);
        self.read = read.map_err(|error| self.archive.at_file(error, self.manifest, self.name))?;
        self.read_from = begin;
        Ok(())
    }
}

fn manifest_name(number: u64) -> String {
    format!("{number:08}.json")
}

/// The name of a segment's file. A manifest must not lead out of the archive.
fn plain_name<'a>(
    manifest: &SegmentManifest,
    file: &'a ArchivedFile,
) -> Result<&'a str, AuditError> {
    if Path::new(&file.name).file_name().is_some_and(|name| *name == *file.name) {
        return Ok(&file.name);
    }
    let why = "its manifest names a file that is not in the archive";
    Err(AuditError::in_segment(manifest.number, None, why))
}
