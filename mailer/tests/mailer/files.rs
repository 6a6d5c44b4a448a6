//! Mail as files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use mailer::{MailOutcome, Mailer};

use crate::letters::mail;

#[tokio::test]
async fn p15_a_mail_is_one_whole_file_named_by_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("made/when/missing");
    let (mailer, mail) = (Mailer::files(&inner), mail(7));
    for _ in ["once", "again"] {
        assert_eq!(mailer.send(&mail).await, MailOutcome::Accepted);
    }
    let files: Vec<_> = fs::read_dir(&inner).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files, [inner.join("00000000-0000-0000-0000-000000000007.eml")]);
    assert_eq!(fs::read(&files[0]).unwrap(), mail.bytes);
    assert_eq!(fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn p15_a_folder_that_cannot_be_made_is_a_failure_without_its_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let sent = Mailer::files(file.path().join("under")).send(&mail(7)).await;
    assert_eq!(sent, MailOutcome::Failed("folder: not a directory".to_owned()));
}
