//! People that get no mail, and the effect of a refusal.

use std::time::Duration;

use serde_json::{Value, json};
use tests::smtp_server::Turn;
use tests::{Firm, World, activity, later};

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

async fn report(world: &World, firm: &Firm, kind: &str, data: Value, second: u32) {
    world.report_one(later(activity(firm.id, kind, data), second)).await;
}

#[tokio::test]
async fn a_person_gets_a_form_once_daily() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), SENT);
    let again = invite(&world, &firm, "ANN@Example.com").await;
    assert_eq!(outcome(&again), skipped("already_sent_today"));
    assert_eq!(again.body.get("email_id"), None);
    assert_eq!(again.body["url"], "https://forms.test/f/enquiry");
    assert_eq!(outcome(&invite(&world, &firm, "ann+x@example.com").await), SENT);
    assert_eq!(used(&world, &firm).await, 2);
    world.pass(12 * HOUR);
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), SENT);
    let ids: std::collections::BTreeSet<_> =
        server.mails().iter().map(|mail| header(mail, "Message-ID")).collect();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn an_unsubscription_holds_in_one_firm() {
    let (world, server) = world().await;
    let (one, two) = (world.firm().await, world.firm().await);
    report(&world, &one, "address.unsubscribed", json!({"email": "ann@example.com"}), 1).await;
    assert_eq!(outcome(&invite(&world, &one, "ann@example.com").await), skipped("unsubscribed"));
    assert_eq!(outcome(&invite(&world, &two, "ann@example.com").await), SENT);
    assert_eq!(server.mails().len(), 1);
}

/// Ruling 11: the reasons, in their order; a skip uses no quota.
#[tokio::test]
async fn reported_addresses_are_skipped_until_restored() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    let ann = || json!({"email": "Ann@Example.com"});
    let expect = async |reason: &'static str| {
        assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), skipped(reason));
    };
    report(&world, &firm, "firm.changed", json!({"invites_enabled": false}), 1).await;
    expect("switched_off").await;
    report(&world, &firm, "address.bounced", ann(), 2).await;
    expect("bounced").await;
    report(&world, &firm, "address.unsubscribed", ann(), 3).await;
    expect("unsubscribed").await;
    report(&world, &firm, "address.restored", ann(), 1).await;
    expect("unsubscribed").await;
    report(&world, &firm, "address.restored", ann(), 4).await;
    expect("switched_off").await;
    report(&world, &firm, "firm.changed", json!({"invites_enabled": true}), 5).await;
    assert_eq!((server.mails().len(), used(&world, &firm).await), (0, 0));
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), SENT);
    report(&world, &firm, "address.unsubscribed", ann(), 6).await;
    expect("unsubscribed").await;
}

/// It bounces until the product restores the address. The place of the day is given back.
#[tokio::test]
async fn a_refused_address_bounces_for_good() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    server.turn_once("RCPT", Turn::Say("550 5.1.1 no such user"));
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), skipped("bounced"));
    assert_eq!((used(&world, &firm).await, under_way(&world).await), (0, (0, 0)));
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), skipped("bounced"));
    report(&world, &firm, "address.restored", json!({"email": "ann@example.com"}), 1).await;
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), SENT);
    let events = world.event_types_in(&["Invite", "Person"]).await;
    let expected = [
        "InviteReserved",
        "InviteRefused",
        "AddressBounced",
        "AddressRestored",
        "InviteReserved",
        "InviteSent",
    ];
    assert_eq!(events, expected);
}

/// Any other failure is 502: nothing is used up, and the same invite goes out later.
#[tokio::test]
async fn an_unsendable_mail_uses_nothing_up() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    for (verb, turn) in [
        ("MAIL", Turn::Say("550 5.7.1 you may not")),
        ("RCPT", Turn::Say("450 4.2.1 later")),
        ("CONTENT", Turn::Say("554 5.6.0 no such content")),
        ("DATA", Turn::HangUp),
        ("CONTENT", Turn::HangUp),
    ] {
        server.turn(verb, turn);
        let failed = invite(&world, &firm, "ann@example.com").await;
        assert_eq!(failed.code(), (502, "send_failed"), "{verb}");
        assert!(!failed.text().contains("ann@"), "{}", failed.text());
        assert_eq!((used(&world, &firm).await, under_way(&world).await), (0, (0, 0)), "{verb}");
        server.relent(verb);
    }
    let sent = invite(&world, &firm, "ann@example.com").await;
    assert_eq!((outcome(&sent), used(&world, &firm).await), (SENT, 1));
}

/// E23: a server that says nothing costs its 20 s (here a moment) and the answer is 502. The next
/// mail has the same Message-ID.
#[tokio::test]
async fn e23_a_silent_server_keeps_the_id() {
    let server = SmtpServer::start(Setup::default()).await;
    let settings = SmtpSettings { budget: Duration::from_millis(300), ..SmtpSettings::default() };
    let world = world_with(&format!("smtp://{}?tls=none", server.at), settings).await;
    let firm = world.firm().await;
    // It took the mail, and its answer was lost.
    server.turn_once("CONTENT", Turn::Silence);
    invite(&world, &firm, "ann@example.com").await.refused(502, "send_failed");
    assert_eq!((used(&world, &firm).await, under_way(&world).await), (0, (0, 0)));
    let sent = invite(&world, &firm, "ann@example.com").await;
    assert_eq!(outcome(&sent), SENT);
    let id = format!("<{}@", sent.body["email_id"].as_str().unwrap());
    assert!(server.mails().iter().all(|mail| header(mail, "Message-ID").starts_with(&id)));
}

/// One batch has several reports of one person.
#[tokio::test]
async fn the_last_report_of_an_address_counts() {
    let (world, _server) = world().await;
    let firm = world.firm().await;
    let of = |kind: &str, email: &str, second| {
        later(activity(firm.id, kind, json!({"email": email})), second)
    };
    let batch = [
        of("address.unsubscribed", "ann@example.com", 1),
        of("address.bounced", "bob@example.com", 1),
        of("address.restored", "ann@example.com", 2),
        of("address.bounced", "ann@example.com", 3),
        of("address.restored", "bob@example.com", 4),
    ];
    assert_eq!(world.report(&batch).await.body["accepted"], 5);
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), skipped("bounced"));
    assert_eq!(outcome(&invite(&world, &firm, "bob@example.com").await), SENT);
}
