//! Servers that are trusted with a password and a mail, and secrets that never show.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailer::{MailOutcome, Mailer, MailerError, SmtpSettings, SmtpUrl};
use tracing::Level;

use crate::letters::{mail, send};
use crate::relay::mailer;
use crate::smtp_server::{Setup, SmtpServer, Tls, Turn};

fn failed_at(sent: &MailOutcome, step: &str) -> bool {
    matches!(sent, MailOutcome::Failed(why) if why.starts_with(step))
}

fn verbs(server: &SmtpServer) -> String {
    server.commands().into_iter().map(|(_, line)| line + "\n").collect()
}

#[tokio::test]
async fn p15_an_unvouched_certificate_is_not_trusted() {
    for (tls, url) in [(Tls::Start, "smtp://a:b@{at}"), (Tls::Implicit, "smtps://a:b@{at}")] {
        let server = SmtpServer::start(Setup { tls, ..Setup::default() }).await;
        let other = SmtpServer::start(Setup::default()).await;
        let url: SmtpUrl = url.replace("{at}", &server.at.to_string()).parse().unwrap();
        for extra_roots in [None, Some(other.root.clone().into_bytes())] {
            let settings = SmtpSettings { extra_roots, ..SmtpSettings::default() };
            let sent = send(&Mailer::over_smtp(&url, &settings).unwrap(), &mail(1)).await;
            assert!(
                matches!(&sent, MailOutcome::Failed(why) if why.contains("certificate")),
                "{sent:?}"
            );
        }
        assert!(!verbs(&server).contains("AUTH"));
    }
}

#[tokio::test]
async fn p15_another_names_certificate_is_not_trusted() {
    let setup = Setup { tls: Tls::Start, name: "other.example", ..Setup::default() };
    let server = SmtpServer::start(setup).await;
    let sent = send(&mailer(&server, "smtp://{at}"), &mail(1)).await;
    assert!(failed_at(&sent, "starttls: "), "{sent:?}");
    assert!(server.mails().is_empty());
}

#[tokio::test]
async fn p15_a_server_without_starttls_hears_nothing() {
    let server = SmtpServer::start(Setup { login: Some(("a", "b")), ..Setup::default() }).await;
    let sent = send(&mailer(&server, "smtp://a:b@{at}?ehlo=us"), &mail(1)).await;
    assert!(failed_at(&sent, "starttls: "), "{sent:?}");
    assert!(verbs(&server).lines().all(|line| matches!(line, "EHLO us" | "QUIT")));
}

/// RFC 3207, section 6.
#[tokio::test]
async fn p15_plain_text_never_counts_as_encrypted() {
    let forged = "220 go ahead\r\n250-mail.test\r\n250 AUTH PLAIN\r\n235 ok\r\n250 ok\r\n\
                  550 5.1.1 no such user";
    let setup = Setup {
        tls: Tls::Start,
        login: Some(("a", "b")),
        turns: vec![("STARTTLS", Turn::Say(forged))],
        ..Setup::default()
    };
    let server = SmtpServer::start(setup).await;
    let sent = send(&mailer(&server, "smtp://a:b@{at}"), &mail(1)).await;
    assert!(failed_at(&sent, "starttls: "), "{sent:?}");
}

#[tokio::test]
async fn p15_a_wrong_password_is_a_failure() {
    let setup = Setup { login: Some(("a", "right")), ..Setup::default() };
    let server = SmtpServer::start(setup).await;
    let mailer = mailer(&server, "smtp://a:wrong@{at}?tls=none");
    assert_eq!(send(&mailer, &mail(1)).await, MailOutcome::Failed("auth: 535 5.7.8".to_owned()));
    assert!(!verbs(&server).contains("MAIL"));
}

#[tokio::test]
async fn p15_a_missing_server_is_a_failure() {
    let server = SmtpServer::start(Setup::default()).await;
    let mailer = mailer(&server, "smtp://{at}");
    drop(server);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let sent = send(&mailer, &mail(1)).await;
    assert!(failed_at(&sent, "connect: "), "{sent:?}");
}

#[test]
fn roots_without_certificates_make_no_mailer() {
    let url = "smtp://mail.example".parse().unwrap();
    let pem = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    for roots in [pem, "not a certificate", ""] {
        let extra_roots = Some(roots.as_bytes().to_vec());
        let settings = SmtpSettings { extra_roots, ..SmtpSettings::default() };
        assert_eq!(Mailer::over_smtp(&url, &settings).err(), Some(MailerError::Roots), "{roots}");
    }
}

/// The log shows neither password nor person nor mail.
#[tokio::test]
async fn b15_no_secret_is_logged_or_shown() {
    let setup = Setup { login: Some(("firm", "secret-word")), ..Setup::default() };
    let server = SmtpServer::start(setup).await;
    let mailer = mailer(&server, "smtp://firm:secret-word@{at}?tls=none");
    let log = Log::default();
    let _listening = tracing::subscriber::set_default(
        tracing_subscriber::fmt().with_max_level(Level::TRACE).with_writer(log.clone()).finish(),
    );
    tracing::info!("the log is read");
    assert_eq!(send(&mailer, &mail(1)).await, MailOutcome::Accepted);
    let all = format!("{log:?} {mailer:?} {:?}", mail(1));
    assert!(all.contains("the log is read"));
    // The last one is the text of AUTH PLAIN.
    for secret in ["secret-word", "example.com", "Subject", "AGZpcm0Ac2VjcmV0LXdvcmQ="] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
}

/// The logged text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0.lock().unwrap()))
    }
}
