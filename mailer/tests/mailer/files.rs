//! Mail as files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mailer::{MailOutcome, Mailer};

use crate::letters::{mail, send};

/// The id of the mail names the file.
#[tokio::test]
async fn p15_a_mail_is_one_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("made/when/missing");
    let (mailer, mail) = (Mailer::into_folder(&inner), mail(7));
    for _ in ["once", "again"] {
        assert_eq!(send(&mailer, &mail).await, MailOutcome::Accepted);
    }
    let files: Vec<_> = fs::read_dir(&inner).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files, [inner.join("00000000-0000-0000-0000-000000000007.eml")]);
    assert_eq!(fs::read(&files[0]).unwrap(), mail.bytes);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&inner), mode(&files[0])), (0o700, 0o600));
}

/// A link in the place of the unfinished file is not followed.
#[tokio::test]
async fn links_in_a_mails_place_stay_unfollowed() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let mail = mail(7);
    let draft = folder.path().join(format!("{}.eml.new", mail.email_id));
    std::os::unix::fs::symlink(&precious, draft).unwrap();
    assert_eq!(send(&Mailer::into_folder(folder.path()), &mail).await, MailOutcome::Accepted);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

#[tokio::test]
async fn p15_a_folders_failure_hides_its_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let sent = send(&Mailer::into_folder(file.path().join("under")), &mail(7)).await;
    assert_eq!(sent, MailOutcome::Failed("folder: not a directory".to_owned()));
}
