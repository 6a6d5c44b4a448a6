//! How mail is handed over: encrypted, signed in, over connections that are kept.

use std::time::{Duration, Instant};

use mailer::{Mail, MailOutcome, Mailer, NoTurn, SmtpSettings};
use uuid::Uuid;

use crate::letters::{mail, send};
use crate::smtp_server::{Setup, SmtpServer, Tls, Turn};

const LOGIN: (&str, &str) = ("firm@forms", "pa:ss w%rd");

/// A mailer in a hurry, for a server that it trusts.
pub(crate) fn mailer(server: &SmtpServer, url: &str) -> Mailer {
    within(server, url, Duration::from_secs(5))
}

pub(crate) fn within(server: &SmtpServer, url: &str, budget: Duration) -> Mailer {
    let extra_roots = Some(server.root.clone().into_bytes());
    let url = url.replace("{at}", &server.at.to_string()).parse().unwrap();
    Mailer::over_smtp(&url, &SmtpSettings { extra_roots, budget }).unwrap()
}

pub(crate) async fn plain(turns: &[(&'static str, Turn)]) -> (SmtpServer, Mailer) {
    let server = SmtpServer::start(Setup { turns: turns.to_vec(), ..Setup::default() }).await;
    let mailer = mailer(&server, "smtp://{at}?tls=none");
    (server, mailer)
}

fn verbs(server: &SmtpServer) -> Vec<String> {
    let verb = |line: String| line.split([' ', ':']).next().unwrap().to_owned();
    server.commands().into_iter().map(|(_, line)| verb(line)).collect()
}

fn same(server: &SmtpServer, sent: &[Mail]) -> bool {
    let received = server.mails();
    received.len() == sent.len()
        && received.iter().zip(sent).all(|(got, mail)| {
            (&got.from, &got.to, &got.bytes) == (&mail.from, &vec![mail.to.clone()], &mail.bytes)
        })
}

#[tokio::test]
async fn p15_login_and_mail_follow_encryption() {
    let setup = Setup { tls: Tls::Start, login: Some(LOGIN), ..Setup::default() };
    let server = SmtpServer::start(setup).await;
    let mailer = mailer(&server, "smtp://firm%40forms:pa%3Ass%20w%25rd@{at}?ehlo=us.example");
    let mail = mail(1);
    assert_eq!(send(&mailer, &mail).await, MailOutcome::Accepted);
    assert_eq!(verbs(&server), ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "DATA"]);
    assert_eq!(server.commands()[0].1, "EHLO us.example");
    assert!(same(&server, &[mail]));
    let got = server.mails().remove(0);
    assert_eq!((got.user.as_deref(), got.is_encrypted), (Some("firm@forms"), true));
}

#[tokio::test]
async fn p15_tls_can_begin_at_once() {
    let server = SmtpServer::start(Setup { tls: Tls::Implicit, ..Setup::default() }).await;
    let mailer = mailer(&server, "smtps://{at}");
    assert_eq!(send(&mailer, &mail(1)).await, MailOutcome::Accepted);
    assert!(server.mails()[0].is_encrypted);
}

#[tokio::test]
async fn p15_the_older_login_works() {
    let setup = Setup { login: Some(LOGIN), ways: "LOGIN", ..Setup::default() };
    let server = SmtpServer::start(setup).await;
    let mailer = mailer(&server, "smtp://firm%40forms:pa:ss%20w%25rd@{at}?tls=none");
    assert_eq!(send(&mailer, &mail(1)).await, MailOutcome::Accepted);
    assert_eq!(server.mails()[0].user.as_deref(), Some("firm@forms"));
}

#[tokio::test]
async fn p15_a_connection_serves_many_mails() {
    let (server, mailer) = plain(&[]).await;
    let mails = [mail(1), mail(2), mail(3)];
    for mail in &mails {
        assert_eq!(send(&mailer, mail).await, MailOutcome::Accepted);
    }
    assert!(same(&server, &mails));
    assert!(server.mails().iter().all(|mail| mail.connection == 1));
}

#[tokio::test]
async fn p15_a_refusal_keeps_the_connection() {
    let (server, mailer) = plain(&[("RCPT", Turn::Say("550 5.1.1 no such user"))]).await;
    assert_eq!(send(&mailer, &mail(1)).await, MailOutcome::Refused { code: Some(550) });
    server.relent("RCPT");
    assert_eq!(send(&mailer, &mail(2)).await, MailOutcome::Accepted);
    assert_eq!(server.mails().len(), 1);
    assert_eq!(server.mails()[0].connection, 1);
}

/// Nothing is sent twice.
#[tokio::test]
async fn p15_a_lost_connection_is_replaced() {
    let (server, mailer) = plain(&[]).await;
    let mails = [mail(1), mail(2)];
    assert_eq!(send(&mailer, &mails[0]).await, MailOutcome::Accepted);
    server.hang_up().await;
    assert_eq!(send(&mailer, &mails[1]).await, MailOutcome::Accepted);
    assert!(same(&server, &mails));
    assert_eq!(server.mails()[1].connection, 2);
}

#[tokio::test]
async fn p15_a_leaving_server_is_asked_anew() {
    let (server, mailer) = plain(&[]).await;
    for (at, (verb, turn)) in [
        ("RSET", Turn::Leave("421 4.4.2 timeout")),
        ("RSET", Turn::Silence),
        ("MAIL", Turn::Leave("421 4.7.0 enough on this connection")),
        ("MAIL", Turn::HangUp),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(send(&mailer, &mail(1)).await, MailOutcome::Accepted);
        server.turn_once(verb, turn);
        assert_eq!(send(&mailer, &mail(2)).await, MailOutcome::Accepted);
        assert_eq!(server.mails().len(), 2 * (at + 1));
    }
}

#[tokio::test]
async fn p15_lines_of_dots_arrive_unchanged() {
    let (server, mailer) = plain(&[]).await;
    let mail = Mail { bytes: b"A: b\r\n\r\n.\r\n..\r\n.c\r\n\r\n".to_vec(), ..mail(1) };
    assert_eq!(send(&mailer, &mail).await, MailOutcome::Accepted);
    assert!(same(&server, &[mail]));
}

#[tokio::test]
async fn p15_many_mails_keep_few_connections() {
    let (server, mailer) = plain(&[("DATA", Turn::After(Duration::from_millis(50)))]).await;
    let all = |numbers: std::ops::Range<u128>| {
        let tasks: Vec<_> = numbers
            .map(|number| {
                let mailer = mailer.clone();
                tokio::spawn(async move { send(&mailer, &mail(number)).await })
            })
            .collect();
        async move {
            for task in tasks {
                assert_eq!(task.await.unwrap(), MailOutcome::Accepted);
            }
        }
    };
    all(0..10).await;
    all(10..14).await;
    assert_eq!(server.mails().len(), 14);
    assert_eq!(server.mails().iter().map(|mail| mail.connection).max(), Some(10));
}

#[tokio::test]
async fn p15_silence_ends_with_the_budget() {
    for verb in ["GREETING", "EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "CONTENT"] {
        let setup = Setup {
            tls: Tls::Start,
            login: Some(LOGIN),
            turns: vec![(verb, Turn::Silence)],
            ..Setup::default()
        };
        let server = SmtpServer::start(setup).await;
        let url = "smtp://firm%40forms:pa%3Ass%20w%25rd@{at}";
        let mailer = within(&server, url, Duration::from_millis(300));
        let start = Instant::now();
        let sent = send(&mailer, &mail(1)).await;
        assert_eq!(sent, MailOutcome::Failed("no answer in time".to_owned()), "{verb}");
        assert!((300..2_000).contains(&start.elapsed().as_millis()), "{verb}");
        assert!(server.mails().is_empty(), "{verb}");
    }
    assert_eq!(SmtpSettings::default().budget, Duration::from_secs(20));
}

/// Recipients whose check is slow at the server are the trouble of their firm alone.
#[tokio::test]
async fn slow_recipients_leave_turns_to_others() {
    let (server, mailer) = plain(&[("RCPT", Turn::Silence)]).await;
    let (slow, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let mut slow_mails = tokio::task::JoinSet::new();
    for number in 0..16 {
        let mailer = mailer.clone();
        slow_mails.spawn(async move {
            let turn = mailer.take_turn(slow, Duration::from_secs(60)).await.unwrap();
            turn.send_mail(&mail(number)).await
        });
    }
    let asked = || verbs(&server).iter().filter(|verb| *verb == "RCPT").count();
    while asked() < 4 {
        tokio::task::yield_now().await;
    }
    assert_eq!(mailer.take_turn(slow, Duration::ZERO).await.err(), Some(NoTurn::Busy));
    server.relent("RCPT");
    let turn = mailer.take_turn(other, Duration::ZERO).await.unwrap();
    assert_eq!(turn.send_mail(&mail(99)).await, MailOutcome::Accepted);
    assert_eq!(asked(), 5, "the slow firm has four turns");
}

/// A process without a mail server says so before anything is written.
#[tokio::test]
async fn a_serverless_mailer_gives_no_turn() {
    assert_eq!(
        Mailer::switched_off().take_turn(Uuid::nil(), Duration::ZERO).await.err(),
        Some(NoTurn::Off)
    );
}
