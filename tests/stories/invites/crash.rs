//! P15: a crash between the reservation, the mail server and the record, and the end of its invite.
//! Never is a person both unmailed and "already sent"; never has an invite two Message-IDs.

use std::time::Duration;

use domain::event::Actor;
use domain::values::Lang;
use inviter::NewInvite;
use tests::smtp_server::Turn;

use super::*;
use tests::process::{assert_killed, call, serve, serve_with, try_call};

/// A turn, and the seconds that the killed service's clock may be ahead.
const TURN: Duration = Duration::from_secs(120 + 10);

/// A world whose service, as a process of its own, is going to send by this server.
pub(super) async fn before_the_kill(server: &SmtpServer) -> (World, Firm, [String; 4]) {
    let database = TestDatabase::new().await;
    let url = format!("smtp://{}?tls=none", server.at);
    let mailer = Mailer::over_smtp(&url.parse().unwrap(), &SmtpSettings::default()).unwrap();
    let clock = Clock::of_database(&eventstore::connect(database.main.clone(), 1)).await.unwrap();
    let now = clock.now();
    let standing = Clock::standing_at(now);
    let world =
        World::with(database, standing, |setup| impatient(Wiring { mailer, ..setup })).await;
    let firm = world.firm().await;
    let arguments = ["--smtp-url", &url, "--mail-from", "forms@firmforms.example"];
    (world, firm, arguments.map(str::to_owned))
}

/// A service of its own that is killed while its mail server takes its time; a world beside it.
async fn killed_in_the_middle(server: &SmtpServer) -> (World, Firm) {
    let (world, firm, arguments) = before_the_kill(server).await;
    kill_in_the_middle(server, (&world, &firm), &arguments).await;
    (world, firm)
}

async fn kill_in_the_middle(
    server: &SmtpServer,
    (world, firm): (&World, &Firm),
    arguments: &[String; 4],
) {
    server.turn("CONTENT", Turn::Silence);
    let mut service = serve(&world.database, &arguments.each_ref().map(String::as_str)).await;
    let path = format!("/forms/{}/send", firm.form);
    let (public, key) = (service.public, firm.key.clone());
    let caller = tokio::spawn(async move {
        call(public, ("POST", &path), &key, r#"{"email":"ann@example.com"}"#).await
    });
    while server.contents_heard() == 0 {
        tokio::task::yield_now().await;
    }
    caller.abort();
    service.child.kill().await.unwrap();
    server.relent("CONTENT");
}

/// E8: the service is killed right before and right after the mail is handed over. One Message-ID
/// either way, and nobody is told "already sent" before the mail is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e8_p15_kills_change_no_message_id() {
    for (point, handed_over) in [("reserved", 0), ("mailed", 1)] {
        let server = SmtpServer::start(Setup::default()).await;
        let (world, firm, arguments) = before_the_kill(&server).await;
        let arguments = arguments.each_ref().map(String::as_str);
        let die = [("CRASH_AT", point)];
        let mut service = serve_with(&world.database, &arguments, &die).await;
        let send = ("POST", &*format!("/forms/{}/send", firm.form));
        let body = r#"{"email":"ann@example.com"}"#;
        assert_eq!(try_call(service.public, send, &firm.key, body).await, None, "{point}");
        assert_killed(service.child.wait().await.unwrap(), point);
        assert_eq!(server.mails().len(), handed_over, "{point}");
        assert_eq!((under_way(&world).await, used(&world, &firm).await), ((1, 1), 1), "{point}");
        let meanwhile = invite(&world, &firm, "ann@example.com").await;
        assert_eq!(meanwhile.code(), (502, "send_failed"), "{point}");

        world.pass(TURN);
        world.take_over().await;
        let mails = server.mails();
        assert_eq!((mails.len(), under_way(&world).await), (handed_over + 1, (0, 0)), "{point}");
        assert!(mails.iter().all(|mail| mail.bytes == mails[0].bytes), "{point}: the same bytes");
        let again = invite(&world, &firm, "ann@example.com").await;
        assert_eq!(outcome(&again), skipped("already_sent_today"), "{point}");
        assert_eq!(server.mails().len(), handed_over + 1, "{point}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_another_process_sends_the_invite_once() {
    let server = SmtpServer::start(Setup::default()).await;
    let (world, firm) = killed_in_the_middle(&server).await;
    assert_eq!((under_way(&world).await, used(&world, &firm).await), ((1, 1), 1));
    let open = invite(&world, &firm, "ann@example.com").await;
    assert_eq!(open.code(), (502, "send_failed"), "neither sent nor skipped yet");
    world.take_over().await;
    assert!(server.mails().is_empty(), "its turn has not ended");
    world.pass(TURN);
    tokio::join!(world.take_over(), world.take_over());
    let mails = server.mails();
    assert_eq!((mails.len(), under_way(&world).await), (1, (0, 0)));
    let again = invite(&world, &firm, "ann@example.com").await;
    assert_eq!(outcome(&again), skipped("already_sent_today"));
    let id = world.events_of_type("InviteSent").await.remove(0).aggregate_id;
    assert!(header(&mails[0], "Message-ID").starts_with(&format!("<{id}@")));
}

/// The mail server is away for longer: the invite is tried until the server is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_a_taken_over_invite_is_retried() {
    let server = SmtpServer::start(Setup::default()).await;
    let (world, _) = killed_in_the_middle(&server).await;
    server.turn("MAIL", Turn::Say("451 4.3.0 not now"));
    for _ in 0..3 {
        world.pass(TURN);
        world.take_over().await;
        assert_eq!(under_way(&world).await, (1, 1));
    }
    server.relent("MAIL");
    world.pass(TURN);
    world.take_over().await;
    assert_eq!((server.mails().len(), under_way(&world).await), (1, (0, 0)));
}

/// An hour is enough: the place is given back, and the person can be invited again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_an_hour_ends_the_open_invite() {
    let server = SmtpServer::start(Setup::default()).await;
    let (world, firm) = killed_in_the_middle(&server).await;
    server.turn("MAIL", Turn::Say("451 4.3.0 not now"));
    world.pass(Duration::from_secs(3_620));
    world.take_over().await;
    assert_eq!((under_way(&world).await, used(&world, &firm).await), ((0, 0), 0));
    server.relent("MAIL");
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), SENT);
}

/// The public door drops a call after 50 seconds. A call that was cut off at the mail server once
/// sent its mail a second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_cut_off_sends_one_mail() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    server.turn("CONTENT", Turn::After(Duration::from_millis(300)));
    let new = NewInvite {
        form_id: firm.form,
        form_title: "New client enquiry".to_owned(),
        url: "https://forms.test/f/enquiry".to_owned(),
        to: "ann@example.com".parse().unwrap(),
        greeting: None,
        lang: Lang::default(),
        message: None,
    };
    let heard = async {
        while server.contents_heard() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        done = world.service().inviter.invite(firm.id, Actor::Key(firm.key_id), &new) => {
            panic!("it was answered before it was cut off: {done:?}")
        }
        () = heard => {}
    }
    world.service().inviter.drain_invites().await;
    assert_eq!(under_way(&world).await, (0, 0), "a process that stops waits for the record");
    world.pass(TURN);
    world.take_over().await;
    assert_eq!((server.mails().len(), used(&world, &firm).await), (1, 1));
    let again = invite(&world, &firm, "ann@example.com").await;
    assert_eq!(outcome(&again), skipped("already_sent_today"));
}

/// The person unsubscribes while the invite is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_an_unsubscribed_person_gets_no_mail() {
    let server = SmtpServer::start(Setup::default()).await;
    let (world, firm) = killed_in_the_middle(&server).await;
    let unsubscribed = json!({"email": "ann@example.com"});
    world.report_one(tests::activity(firm.id, "address.unsubscribed", unsubscribed)).await;
    world.pass(TURN);
    world.take_over().await;
    assert_eq!((server.mails().len(), under_way(&world).await), (0, (0, 0)));
    assert_eq!(used(&world, &firm).await, 0);
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), skipped("unsubscribed"));
}

/// An erasure counts for the invite that is open, however many came before it. By the same id it is
/// the same erasure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_a_second_erasure_ends_the_invite() {
    let server = SmtpServer::start(Setup::default()).await;
    let (world, firm, arguments) = before_the_kill(&server).await;
    let erased = || tests::activity(firm.id, "person.erased", json!({"email": "ann@example.com"}));
    assert_eq!(world.report(&[erased()]).await.body["accepted"], 1);
    kill_in_the_middle(&server, (&world, &firm), &arguments).await;
    world.pass(TURN);
    let again = [erased()];
    assert_eq!(
        world.report(&again).await.body,
        json!({"accepted": 1, "duplicates": 0, "stale": 0})
    );
    assert_eq!(
        world.report(&again).await.body,
        json!({"accepted": 0, "duplicates": 1, "stale": 0})
    );
    world.take_over().await;
    assert_eq!((server.mails().len(), under_way(&world).await), (0, (0, 0)));
    assert_eq!(used(&world, &firm).await, 0);
}

/// A firm that switched its invites off, took the form back or was suspended sends no open invite.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_a_withdrawn_invite_is_not_sent() {
    for (kind, data) in [
        ("firm.changed", json!({"invites_enabled": false})),
        ("form.unpublished", json!({"form_id": Value::Null})),
        ("firm.suspended", json!({})),
    ] {
        let server = SmtpServer::start(Setup::default()).await;
        let (world, firm) = killed_in_the_middle(&server).await;
        let mut data = data;
        if kind.starts_with("form.") {
            data["form_id"] = json!(firm.form);
        }
        let event = tests::later(tests::activity(firm.id, kind, data), 1);
        assert_eq!(world.report(&[event]).await.status, 202, "{kind}");
        world.pass(TURN);
        world.take_over().await;
        assert_eq!((server.mails().len(), under_way(&world).await), (0, (0, 0)), "{kind}");
    }
}
