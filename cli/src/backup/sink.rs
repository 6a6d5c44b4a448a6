//! The place that a backup goes to: a new folder, or standard output as a tar archive.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Read, Stdout, Write, stdout};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use super::manifest::{BackupMember, MANIFEST};
use super::origin::{ManifestOrigin, ORIGIN};

/// Bytes of one entry of an archive. The length of an entry stands before it, and that of a dump is
/// not known before its end. So a dump is several entries, each as long as this.
const PIECE_BYTES: usize = 16 << 20;

/// The place of a backup.
pub(super) enum BackupSink {
    /// A folder that only its owner may read.
    Folder(PathBuf),
    /// An archive.
    Archive(Box<tar::Builder<Stdout>>),
}

impl BackupSink {
    /// Begins a backup. A folder must be new or empty.
    pub(super) fn begin(place: &Path) -> anyhow::Result<Self> {
        if place == Path::new("-") {
            if stdout().is_terminal() {
                bail!("a backup is not for a terminal: lead it into a file or a program");
            }
            return Ok(Self::Archive(Box::new(tar::Builder::new(stdout()))));
        }
        let named = || place.display().to_string();
        match DirBuilder::new().mode(0o700).create(place) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let mut entries = fs::read_dir(place).with_context(named)?;
                if entries.next().is_some() {
                    bail!("{}: it is not empty, and a backup replaces nothing", place.display());
                }
            }
            made => made.with_context(named)?,
        }
        Ok(Self::Folder(place.to_owned()))
    }

    /// Adds a member.
    pub(super) fn add_member(
        &mut self,
        name: &str,
        from: &mut dyn Read,
    ) -> anyhow::Result<BackupMember> {
        let mut from = DigestReader { from, digest: Sha256::new(), bytes: 0 };
        let added = match self {
            Self::Folder(folder) => write_file(&folder.join(name), &mut from),
            Self::Archive(archive) => write_pieces(archive, name, &mut from),
        };
        added.with_context(|| name.to_owned())?;
        let sha256 = hex::encode(from.digest.finalize());
        Ok(BackupMember { name: name.to_owned(), bytes: from.bytes, sha256 })
    }

    /// Ends the backup with the origin of its manifest, and the manifest.
    pub(super) fn end_with_manifest(
        mut self,
        manifest: &str,
        origin: &ManifestOrigin,
    ) -> anyhow::Result<()> {
        self.add_member(ORIGIN, &mut origin.to_text()?.as_bytes())?;
        self.add_member(MANIFEST, &mut manifest.as_bytes())?;
        match self {
            Self::Folder(folder) => {
                let synced = File::open(&folder).and_then(|folder| folder.sync_all());
                synced.with_context(|| folder.display().to_string())
            }
            Self::Archive(archive) => {
                let written = archive.into_inner().and_then(|mut output| output.flush());
                written.context("standard output")
            }
        }
    }
}

/// Counts and digests all that is read through it.
struct DigestReader<'a> {
    from: &'a mut dyn Read,
    digest: Sha256,
    bytes: u64,
}

impl Read for DigestReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.digest.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

fn write_file(path: &Path, from: &mut impl Read) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::copy(from, &mut file)?;
    file.sync_all()
}

fn write_pieces(
    archive: &mut tar::Builder<Stdout>,
    name: &str,
    from: &mut impl Read,
) -> io::Result<()> {
    let mut number = 0;
    let mut piece = next_piece(from)?;
    loop {
        let next = next_piece(from)?;
        let is_whole = number == 0 && next.is_empty();
        let name = if is_whole { name.to_owned() } else { format!("{name}.{number:06}") };
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o600);
        header.set_size(piece.len() as u64);
        archive.append_data(&mut header, name, piece.as_slice())?;
        if next.is_empty() {
            return Ok(());
        }
        number += 1;
        piece = next;
    }
}

fn next_piece(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    from.take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
    Ok(piece)
}
