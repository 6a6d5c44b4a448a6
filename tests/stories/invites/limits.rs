//! 300 invites a day and firm, and one at a time.

use std::time::Duration;

use futures::future::join_all;
use tests::smtp_server::Turn;
use tests::{activity, later};

use super::*;

async fn set_used(world: &World, firm: &Firm, used: i32) {
    let invites = format!("firm_id = '{}' and kind = 'invites'", firm.id);
    world.change_database(&format!("update quotas set used = {used} where {invites}")).await;
}

#[tokio::test]
async fn the_301st_invite_waits_for_midnight() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    assert_eq!(outcome(&invite(&world, &firm, "a@example.com").await), SENT);
    set_used(&world, &firm, 299).await;
    assert_eq!(outcome(&invite(&world, &firm, "b@example.com").await), SENT);
    let full = invite(&world, &firm, "c@example.com").await;
    assert_eq!(full.code(), (429, "invite_limit_reached"));
    assert_eq!(full.headers["retry-after"], "43200");
    let repeat = invite(&world, &firm, "a@example.com").await;
    assert_eq!(outcome(&repeat), skipped("already_sent_today"), "a skip needs no place");
    assert_eq!(outcome(&invite(&world, &world.firm().await, "c@example.com").await), SENT);
    world.pass(Duration::from_secs(43_200));
    assert_eq!(outcome(&invite(&world, &firm, "c@example.com").await), SENT);
    assert_eq!(server.mails().len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_invites_take_the_places_left() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    assert_eq!(outcome(&invite(&world, &firm, "first@example.com").await), SENT);
    set_used(&world, &firm, 290).await;
    let addresses: Vec<String> = (0..25).map(|n| format!("p{n}@example.com")).collect();
    let answers = join_all(addresses.iter().map(|to| invite(&world, &firm, to))).await;
    let sent = answers.iter().filter(|answer| outcome(answer) == SENT).count();
    let full = answers.iter().filter(|a| a.code() == (429, "invite_limit_reached")).count();
    assert_eq!((sent, full, server.mails().len()), (10, 15, 11));
}

/// The other calls for the person learn that the mail was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_racing_calls_sends_the_mail() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    server.turn("CONTENT", Turn::After(Duration::from_millis(300)));
    let answers = join_all((0..8).map(|_| invite(&world, &firm, "ann@example.com"))).await;
    let outcomes: Vec<_> = answers.iter().map(outcome).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == SENT).count(), 1);
    let skips = outcomes.iter().filter(|o| **o == skipped("already_sent_today")).count();
    assert_eq!((skips, server.mails().len(), used(&world, &firm).await), (7, 1, 1));
}

/// An invite that was begun is finished, though its key is revoked in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_ends_no_begun_invite() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    server.turn("CONTENT", Turn::After(Duration::from_millis(500)));
    let revoke = async {
        while under_way(&world).await == (0, 0) {
            tokio::task::yield_now().await;
        }
        world.revoke_key(&firm, firm.key_id).await;
    };
    let (answer, ()) = tokio::join!(invite(&world, &firm, "ann@example.com"), revoke);
    assert_eq!((outcome(&answer), under_way(&world).await), (SENT, (0, 0)));
    invite(&world, &firm, "ann@example.com").await.refused(401, "unauthorized");
}

/// A call that waited for another begins anew: a bounce or an unsubscription meanwhile counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_call_learns_about_the_address() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    server.turn("RCPT", Turn::Say("550 5.1.1 no such user"));
    let answers = join_all((0..5).map(|_| invite(&world, &firm, "ann@example.com"))).await;
    assert!(answers.iter().all(|answer| outcome(answer) == skipped("bounced")), "{answers:?}");
    let asked = server.commands().iter().filter(|(_, line)| line.starts_with("RCPT")).count();
    assert_eq!(asked, 1, "one call asked the server, the others learned from it");

    server.relent("RCPT");
    server.turn("CONTENT", Turn::After(Duration::from_millis(600)));
    server.turn_once("MAIL", Turn::After(Duration::from_millis(1)));
    let first = async {
        let failed = invite(&world, &firm, "bob@example.com").await;
        assert_eq!(outcome(&failed), SENT);
    };
    let second = async {
        while under_way(&world).await == (0, 0) {
            tokio::task::yield_now().await;
        }
        let data = json!({"email": "bob@example.com"});
        world.report_one(activity(firm.id, "address.unsubscribed", data)).await;
        let answer = invite(&world, &firm, "bob@example.com").await;
        assert_eq!(outcome(&answer), skipped("unsubscribed"));
    };
    tokio::join!(first, second);
    assert_eq!(server.mails().len(), 1);
}

/// A call that waited for another once sent a form that was taken back meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_call_learns_about_the_form() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    server.turn("MAIL", Turn::After(Duration::from_millis(700)));
    server.turn("CONTENT", Turn::Say("451 4.3.0 not now"));
    let first = async {
        let failed = invite(&world, &firm, "ann@example.com").await;
        assert_eq!(failed.code(), (502, "send_failed"));
    };
    let second = async {
        while under_way(&world).await == (0, 0) {
            tokio::task::yield_now().await;
        }
        let waits = invite(&world, &firm, "ann@example.com");
        let taken_back = async {
            let unpublished = activity(firm.id, "form.unpublished", json!({"form_id": firm.form}));
            world.report_one(later(unpublished, 1)).await;
        };
        let (answer, ()) = tokio::join!(waits, taken_back);
        assert_eq!(answer.code(), (409, "form_not_published"));
    };
    tokio::join!(first, second);
    assert_eq!((server.mails().len(), used(&world, &firm).await), (0, 0));
}

/// Ruling 11: skips come before the quota, in a race for the last place too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_at_the_limit_is_skipped() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    assert_eq!(outcome(&invite(&world, &firm, "first@example.com").await), SENT);
    set_used(&world, &firm, 299).await;
    let answers = join_all((0..8).map(|_| invite(&world, &firm, "ann@example.com"))).await;
    let sent = answers.iter().filter(|answer| outcome(answer) == SENT).count();
    let skips = answers.iter().filter(|a| outcome(a) == skipped("already_sent_today")).count();
    assert_eq!((sent, skips, server.mails().len()), (1, 7, 2), "{answers:?}");
}

/// H11: the day is the one in which the call began, by UTC.
#[tokio::test]
async fn h11_the_day_ends_at_midnight_utc() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), SENT);
    world.pass(Duration::from_millis(43_200_000 - 1));
    assert_eq!(
        outcome(&invite(&world, &firm, "ann@example.com").await),
        skipped("already_sent_today")
    );
    set_used(&world, &firm, 300).await;
    let full = invite(&world, &firm, "bob@example.com").await;
    assert_eq!(full.code(), (429, "invite_limit_reached"));
    assert_eq!(full.headers["retry-after"], "1");
    world.pass(Duration::from_millis(1));
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), SENT);
    assert_eq!(outcome(&invite(&world, &firm, "bob@example.com").await), SENT);
    assert_eq!(server.mails().len(), 3);
}

/// The mail is out and recorded: a keyring that fails after that changes no answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyring_failure_changes_no_sent_answer() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    server.turn("CONTENT", Turn::After(Duration::from_millis(500)));
    let break_it = async {
        while under_way(&world).await == (0, 0) {
            tokio::task::yield_now().await;
        }
        world.change_keyring("alter table data_keys rename to gone").await;
    };
    let (answer, ()) = tokio::join!(invite(&world, &firm, "ann@example.com"), break_it);
    assert_eq!((outcome(&answer), server.mails().len()), (SENT, 1));
}

/// Nothing is kept of a mail that was sent, refused, given back or skipped: no mail, and no key of
/// one.
#[tokio::test]
async fn no_key_of_a_mail_stays() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    server.turn_once("RCPT", Turn::Say("450 4.2.1 later"));
    invite(&world, &firm, "ann@example.com").await.refused(502, "send_failed");
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), SENT);
    assert_eq!(
        outcome(&invite(&world, &firm, "ann@example.com").await),
        skipped("already_sent_today")
    );
    set_used(&world, &firm, 300).await;
    assert_eq!(invite(&world, &firm, "bob@example.com").await.code().0, 429);
    assert_eq!(world.count_in_keyring("data_keys").await, 0);
}
