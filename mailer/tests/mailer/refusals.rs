//! The answers of a server about the recipient (ruling 11), and its other answers.

use mailer::MailOutcome;
use rstest::rstest;

use crate::letters::{mail, mail_to, send};
use crate::relay::{mailer, plain};
use crate::smtp_server::{Setup, SmtpServer, Tls, Turn};

async fn answered(verb: &'static str, turn: Turn) -> MailOutcome {
    let (server, mailer) = plain(&[(verb, turn)]).await;
    let sent = send(&mailer, &mail(1)).await;
    assert!(server.mails().is_empty());
    sent
}

#[rstest]
#[case("550 5.1.1 <Ann.Lee+tax@example.com> unknown", 550)]
#[case("550-5.1.1 The account\r\n550 5.1.1 does not exist", 550)]
#[case("553 no", 553)]
#[case("552 5.2.2 full", 552)]
#[tokio::test]
async fn p15_a_permanent_refusal_is_final(#[case] answer: &'static str, #[case] code: u16) {
    assert_eq!(
        answered("RCPT", Turn::Say(answer)).await,
        MailOutcome::Refused { code: Some(code) }
    );
}

#[rstest]
#[case("GREETING", "554 5.7.1 not from there", "connect: 554 5.7.1")]
#[case("EHLO", "550 bad name", "connect: 550")]
#[case("MAIL", "550 5.1.1 who are you, Ann.Lee+tax@example.com?", "mail from: 550 5.1.1")]
#[case("MAIL", "530 5.7.0 sign in", "mail from: 530 5.7.0")]
#[case("MAIL", "421 4.3.2 going down", "mail from: 421 4.3.2")]
#[case("RCPT", "450 4.2.1 Ann.Lee+tax@example.com is greylisted", "rcpt to: 450 4.2.1")]
#[case("RCPT", "451 later", "rcpt to: 451")]
#[case("RCPT", "550 5.7.1 relaying denied", "rcpt to: 550 5.7.1")]
#[case("RCPT", "554 5.7.1 listed", "rcpt to: 554 5.7.1")]
#[case("DATA", "554 5.1.1 no valid recipients", "data: 554 5.1.1")]
#[case("CONTENT", "554 5.7.1 spam", "content: 554 5.7.1")]
#[case("CONTENT", "550 5.1.1 Ann.Lee+tax@example.com", "content: 550 5.1.1")]
#[case("CONTENT", "354 go on", "content: not an answer")]
#[case("RCPT", "what?", "rcpt to: the server broke off")]
#[tokio::test]
async fn p15_other_answers_fail_and_name_nobody(
    #[case] verb: &'static str,
    #[case] answer: &'static str,
    #[case] reason: &str,
) {
    assert_eq!(answered(verb, Turn::Say(answer)).await, MailOutcome::Failed(reason.to_owned()));
}

#[rstest]
#[case("250 ok")]
#[case("251 2.0.0 queued")]
#[case("200 fine")]
#[tokio::test]
async fn p15_any_2xx_accepts_the_content(#[case] answer: &'static str) {
    let (server, mailer) = plain(&[("CONTENT", Turn::Say(answer))]).await;
    assert_eq!(send(&mailer, &mail_to("ann@example.com")).await, MailOutcome::Accepted);
    assert_eq!(server.mails().len(), 1);
}

#[rstest]
#[case("MAIL", "mail from")]
#[case("RCPT", "rcpt to")]
#[case("DATA", "data")]
#[case("CONTENT", "content")]
#[tokio::test]
async fn p15_a_broken_connection_is_a_failure(#[case] verb: &'static str, #[case] at: &str) {
    let reason = format!("{at}: the server broke off");
    assert_eq!(answered(verb, Turn::HangUp).await, MailOutcome::Failed(reason));
}

/// An answer of this many lines, with this many characters in each but the last.
fn long_answer(code: u16, lines: usize, width: usize) -> Turn {
    let line = format!("{code}-5.1.1 {}\r\n", "a".repeat(width));
    let answer = line.repeat(lines - 1) + &format!("{code} 5.1.1 the last line");
    Turn::Say(Box::leak(answer.into_boxed_str()))
}

#[rstest]
#[case(2, 400)]
#[case(256, 1)]
#[tokio::test]
async fn an_answer_may_have_256_lines(#[case] lines: usize, #[case] width: usize) {
    let sent = answered("RCPT", long_answer(550, lines, width)).await;
    assert_eq!(sent, MailOutcome::Refused { code: Some(550) });
}

/// The client parsed the whole answer again with each line: 20,000 lines cost 6.7 s, and the time
/// limit of the mail did not fire meanwhile.
#[rstest]
#[case(257, 1)]
#[case(40, 500)]
#[case(200_000, 1)]
#[tokio::test]
async fn a_longer_answer_is_a_failure(#[case] lines: usize, #[case] width: usize) {
    let sent = answered("RCPT", long_answer(550, lines, width)).await;
    assert_eq!(sent, MailOutcome::Failed("rcpt to: the server broke off".to_owned()));
}

#[rstest]
#[case(Tls::None, "GREETING", 220, "connect: ")]
#[case(Tls::None, "EHLO", 250, "connect: ")]
#[case(Tls::Start, "GREETING", 220, "connect: an answer of the server is too long")]
#[case(Tls::Start, "STARTTLS", 220, "starttls: an answer of the server is too long")]
#[case(Tls::Start, "MAIL", 250, "mail from: the server broke off")]
#[case(Tls::Implicit, "GREETING", 220, "connect: ")]
#[case(Tls::Implicit, "CONTENT", 250, "content: the server broke off")]
#[tokio::test]
async fn every_answer_is_bounded(
    #[case] tls: Tls,
    #[case] verb: &'static str,
    #[case] code: u16,
    #[case] expected: &str,
) {
    let turns = vec![(verb, long_answer(code, 257, 1))];
    let server = SmtpServer::start(Setup { tls, turns, ..Setup::default() }).await;
    let url = match tls {
        Tls::None => "smtp://{at}?tls=none",
        Tls::Start => "smtp://{at}",
        Tls::Implicit => "smtps://{at}",
    };
    let sent = send(&mailer(&server, url), &mail(1)).await;
    assert!(matches!(&sent, MailOutcome::Failed(why) if why.starts_with(expected)), "{sent:?}");
}

#[tokio::test]
async fn a15_too_long_addresses_are_refused_unasked() {
    let (server, mailer) = plain(&[]).await;
    let label = "d".repeat(63);
    let long_local = format!("{}@example.com", "a".repeat(65));
    let long_domain = format!("a@{label}.{label}.{label}.{label}");
    for address in [long_local, long_domain] {
        assert_eq!(send(&mailer, &mail_to(&address)).await, MailOutcome::Refused { code: None });
    }
    assert!(server.commands().is_empty());
    let longest = format!("{}@example.com", "a".repeat(64));
    assert_eq!(send(&mailer, &mail_to(&longest)).await, MailOutcome::Accepted);
}
