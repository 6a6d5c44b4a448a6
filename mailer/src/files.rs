//! Mails as files, for development: one file per mail, whole or absent.

use std::io;
use std::path::{Path, PathBuf};

use tokio::fs::{self, OpenOptions};
use tokio::io::AsyncWriteExt;

use crate::mail::Mail;
use crate::outcome::MailOutcome;

/// A folder of mails.
#[derive(Debug)]
pub(crate) struct MailFolder(PathBuf);

impl MailFolder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Writes a mail into its file. A mail that was written before is written again, with the same
    /// bytes.
    pub(crate) async fn write_mail(&self, mail: &Mail) -> MailOutcome {
        let file = self.0.join(format!("{}.eml", mail.email_id));
        match write_whole(&self.0, &file, &mail.bytes).await {
            Ok(()) => MailOutcome::Accepted,
            Err(error) => MailOutcome::Failed(format!("folder: {}", error.kind())),
        }
    }
}

/// Writes to another file first and renames it, so that no reader sees half a mail. Mails are in
/// clear, so a new folder is the owner's alone.
async fn write_whole(folder: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).await?;
    let unfinished = file.with_extension("eml.new");
    match fs::remove_file(&unfinished).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut open = options.open(&unfinished).await?;
    open.write_all(bytes).await?;
    open.sync_all().await?;
    fs::rename(&unfinished, file).await
}
