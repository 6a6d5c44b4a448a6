//! A new file that is whole or absent: written beside its name, and named when it is complete.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A file under way. Without [`NewFile::move_into_place`] nothing remains of it.
pub(crate) struct NewFile {
    path: PathBuf,
    draft: PathBuf,
    file: File,
}

impl NewFile {
    /// Begins a file. An audit log is for its reader: no other user may read it. A file with this
    /// name, or a link, is refused.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        if path.symlink_metadata().is_ok() {
            bail!("{}: {EXISTS}", path.display());
        }
        let draft = draft_of(path).with_context(|| path.display().to_string())?;
        let begin = || {
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)
        };
        let file = begin().with_context(|| draft.display().to_string())?;
        Ok(Self { path: path.to_owned(), draft, file })
    }

    /// Gives the complete file its name.
    pub(crate) fn move_into_place(self) -> anyhow::Result<()> {
        let named = || -> io::Result<()> {
            self.file.sync_all()?;
            match fs::hard_link(&self.draft, &self.path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
                // Some file systems have no links. There an empty file takes the name first.
                Err(_) => {
                    OpenOptions::new().write(true).create_new(true).open(&self.path)?;
                    fs::rename(&self.draft, &self.path)?;
                }
                Ok(()) => {}
            }
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        match named() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{}: {EXISTS}", self.path.display())
            }
            kept => kept.with_context(|| self.path.display().to_string()),
        }
    }
}

const EXISTS: &str = "it exists already, and is not overwritten";

/// The name of a file that is not complete: hidden, beside the file.
fn draft_of(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let mut draft = OsString::from(".");
    draft.push(name);
    draft.push(format!(".{}.part", std::process::id()));
    Ok(path.with_file_name(draft))
}

impl Write for &NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.file).flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.draft);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_has_its_name_once_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("march.bundle");
        let begun = NewFile::create(&path).unwrap();
        (&begun).write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(begun);
        assert_eq!(names(folder.path()), Vec::<String>::new(), "nothing remains");
        let begun = NewFile::create(&path).unwrap();
        (&begun).write_all(b"whole").unwrap();
        begun.move_into_place().unwrap();
        assert_eq!(names(folder.path()), ["march.bundle"]);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_existing_file_or_link_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("there"), folder.path().join("link"));
        fs::write(&path, "precious").unwrap();
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &link).unwrap();
        for taken in [&path, &link] {
            let refused = NewFile::create(taken).err().unwrap().to_string();
            assert!(refused.contains("is not overwritten"), "{refused}");
        }
        let late = folder.path().join("late");
        let begun = NewFile::create(&late).unwrap();
        fs::write(&late, "precious").unwrap();
        assert!(begun.move_into_place().unwrap_err().to_string().contains("is not overwritten"));
        assert_eq!(fs::read_to_string(&late).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
