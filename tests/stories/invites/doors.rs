//! Invites and the mail server: no mail goes twice, no firm has the mail server alone, and no mail
//! is said to be sent without a mail server.

use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use service::SystemSetup;
use tests::smtp_server::Turn;
use tokio::task::JoinSet;

use super::crash::before_the_kill;
use super::*;
use tests::process::{call, serve, signal};

/// The time after which an open invite is taken over.
const TAKE_OVER: Duration = Duration::from_secs(121);

async fn rename(world: &World, from: &str, to: &str) {
    let rename = format!("alter table {from} rename to {to}");
    world.change_database(&rename).await;
}

/// Does something to the database while the mail is under way.
async fn meanwhile(world: &World, act: impl Future<Output = ()>) {
    while under_way(world).await == (0, 0) {
        tokio::task::yield_now().await;
    }
    act.await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accepted_mail_is_not_sent_again() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    server.turn("CONTENT", Turn::After(Duration::from_millis(500)));
    let break_it = meanwhile(&world, rename(&world, "open_invites", "gone"));
    let (answer, ()) = tokio::join!(invite(&world, &firm, "ann@example.com"), break_it);
    assert_eq!(outcome(&answer), SENT, "the mail server accepted it");
    rename(&world, "gone", "open_invites").await;
    while under_way(&world).await != (0, 0) {
        tokio::task::yield_now().await;
    }
    world.pass(TAKE_OVER);
    world.take_over().await;
    assert_eq!((server.mails().len(), used(&world, &firm).await), (1, 1));
    let again = invite(&world, &firm, "ann@example.com").await;
    assert_eq!(outcome(&again), skipped("already_sent_today"));
}

/// A service that stopped once left a mail unrecorded that its mail server had taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_service_records_accepted_mails() {
    let server = SmtpServer::start(Setup::default()).await;
    let (world, firm, arguments) = before_the_kill(&server).await;
    server.turn("CONTENT", Turn::After(Duration::from_millis(500)));
    let mut service = serve(&world.database, &arguments.each_ref().map(String::as_str)).await;
    let send = ("POST", &*format!("/forms/{}/send", firm.form));
    let sent = call(service.public, send, &firm.key, r#"{"email":"ann@example.com"}"#);
    let break_it = meanwhile(&world, rename(&world, "open_invites", "gone"));
    let ((status, answer), ()) = tokio::join!(sent, break_it);
    assert_eq!(status.as_u16(), 202, "{answer}");
    rename(&world, "gone", "open_invites").await;
    signal(&service.child, Signal::SIGTERM);
    assert!(service.child.wait().await.unwrap().success());
    assert_eq!((server.mails().len(), under_way(&world).await), (1, (0, 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_mail_is_not_sent_again() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    server.turn("MAIL", Turn::After(Duration::from_millis(500)));
    server.turn("RCPT", Turn::Say("550 5.1.1 no such user"));
    let break_it = meanwhile(&world, rename(&world, "open_invites", "gone"));
    let (answer, ()) = tokio::join!(invite(&world, &firm, "ann@example.com"), break_it);
    assert_eq!(outcome(&answer), skipped("bounced"));
    rename(&world, "gone", "open_invites").await;
    while under_way(&world).await != (0, 0) {
        tokio::task::yield_now().await;
    }
    world.pass(TAKE_OVER);
    world.take_over().await;
    let asked = server.commands().iter().filter(|(_, line)| line.starts_with("RCPT")).count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn refused_recipients_are_limited_a_day() {
    let (world, server) = world().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    server.turn("RCPT", Turn::Say("550 5.1.1 no such user"));
    assert_eq!(outcome(&invite(&world, &firm, "a@example.com").await), skipped("bounced"));
    let tried = "update invite_tries set tries = 999 where tries = 1";
    world.change_database(tried).await;
    assert_eq!(outcome(&invite(&world, &firm, "b@example.com").await), skipped("bounced"));
    let full = invite(&world, &firm, "c@example.com").await;
    assert_eq!(full.code(), (429, "invite_limit_reached"));
    assert_eq!(full.headers["retry-after"], "43200");
    assert_eq!((used(&world, &firm).await, under_way(&world).await), (0, (0, 0)));
    let asked = server.commands().iter().filter(|(_, line)| line.starts_with("RCPT")).count();
    assert_eq!(asked, 2, "the server was not asked about the third");
    assert_eq!(outcome(&invite(&world, &other, "c@example.com").await), skipped("bounced"));
    world.pass(Duration::from_secs(43_200));
    server.relent("RCPT");
    assert_eq!(outcome(&invite(&world, &firm, "c@example.com").await), SENT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_recipients_hold_up_one_firm() {
    let server = SmtpServer::start(Setup::default()).await;
    let url = format!("smtp://{}?tls=none", server.at);
    let mailer = Mailer::over_smtp(&url.parse().unwrap(), &SmtpSettings::default()).unwrap();
    let clock = Clock::standing_at(NOON.parse().unwrap());
    let turn_max = Duration::from_millis(100);
    let hasty = |setup: SystemSetup| SystemSetup {
        patience: InviteWait { turn_max, ..setup.patience },
        mailer,
        ..setup
    };
    let world = World::with(TestDatabase::new().await, clock, hasty).await;
    let (slow, other) = (world.firm().await, world.firm().await);
    server.turn("RCPT", Turn::Silence);
    let world = std::sync::Arc::new(world);
    let mut hanging = JoinSet::new();
    for person in 0..4 {
        let (world, slow) = (world.clone(), slow.clone());
        hanging.spawn(async move {
            invite(&world, &slow, &format!("p{person}@example.com")).await;
        });
    }
    while server.commands().iter().filter(|(_, line)| line.starts_with("RCPT")).count() < 4 {
        tokio::task::yield_now().await;
    }
    let busy = invite(&world, &slow, "fifth@example.com").await;
    assert_eq!(busy.code(), (503, "unavailable"));
    assert_eq!(busy.headers["retry-after"], "1");
    assert_eq!((under_way(&world).await, used(&world, &slow).await), ((4, 4), 4));
    server.relent("RCPT");
    assert_eq!(outcome(&invite(&world, &other, "ann@example.com").await), SENT);
}

#[tokio::test]
async fn invites_fail_without_a_mail_server() {
    let clock = Clock::standing_at(NOON.parse().unwrap());
    let off = |setup: SystemSetup| SystemSetup { mailer: Mailer::switched_off(), ..setup };
    let world = World::with(TestDatabase::new().await, clock, off).await;
    let firm = world.firm().await;
    let answer = invite(&world, &firm, "ann@example.com").await;
    assert_eq!(answer.code(), (502, "send_failed"));
    assert_eq!((used(&world, &firm).await, under_way(&world).await), (0, (0, 0)));
    let data = json!({"email": "ann@example.com"});
    world.report_one(tests::activity(firm.id, "address.unsubscribed", data)).await;
    let skip = invite(&world, &firm, "ann@example.com").await;
    assert_eq!(outcome(&skip), skipped("unsubscribed"), "skips come first");
}

#[tokio::test]
async fn mails_are_files_in_a_named_folder() {
    let world = World::new().await;
    let firm = world.firm().await;
    let path = format!("/forms/{}/send", firm.form);
    let to_ann = r#"{"email":"ann@example.com"}"#;
    let plain = serve(&world.database, &[]).await;
    let (status, body) = call(plain.public, ("POST", &path), &firm.key, to_ann).await;
    assert_eq!(status, 502, "{body}");
    let folder = tempfile::tempdir().unwrap();
    let mails = folder.path().join("mails");
    let with_files = serve(&world.database, &["--mail-dir", mails.to_str().unwrap()]).await;
    let (status, body) = call(with_files.public, ("POST", &path), &firm.key, to_ann).await;
    assert_eq!(status, 202, "{body}");
    assert_eq!(std::fs::metadata(&mails).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::read_dir(&mails).unwrap().count(), 1);
}
