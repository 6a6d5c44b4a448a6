//! `POST /forms/{id}/send` and its mails, with a mail server on a real socket (contract; ruling
//! 11).

mod copies;
mod crash;
mod doors;
mod limits;
mod mails;
mod skips;
mod unsubscribe;

use std::time::Duration;

use eventstore::Clock;
use inviter::InviteWait;
use mailer::{Mailer, SmtpSettings};
use serde_json::{Value, json};
use service::SystemSetup as Wiring;
use tests::smtp_server::{Received, Setup, SmtpServer};
use tests::{Answer, Firm, TestDatabase, World};

const NOON: &str = "2026-11-01T12:00:00.000Z";

/// A world whose mail goes to a server of its own, in the clear.
async fn world() -> (World, SmtpServer) {
    let server = SmtpServer::start(Setup::default()).await;
    let url = format!("smtp://{}?tls=none", server.at);
    (world_with(&url, SmtpSettings::default()).await, server)
}

/// A world whose mail goes there.
async fn world_with(url: &str, settings: SmtpSettings) -> World {
    let mailer = Mailer::over_smtp(&url.parse().unwrap(), &settings).unwrap();
    let clock = Clock::standing_at(NOON.parse().unwrap());
    World::with(TestDatabase::new().await, clock, |setup| impatient(Wiring { mailer, ..setup }))
        .await
}

/// A world that does not wait long for another call.
fn impatient(setup: Wiring) -> Wiring {
    let wait = Duration::from_secs(3);
    Wiring { patience: InviteWait { max: wait, ..setup.patience }, ..setup }
}

async fn send(world: &World, firm: &Firm, body: Value) -> Answer {
    world.send_invite(firm, body).await
}

async fn invite(world: &World, firm: &Firm, email: &str) -> Answer {
    send(world, firm, json!({"email": email})).await
}

/// The status, and the reason if it was skipped.
fn outcome(answer: &Answer) -> (u16, &str, &str) {
    let text = |name: &str| answer.body[name].as_str().unwrap_or_default();
    (answer.status.as_u16(), text("status"), text("reason"))
}

const SENT: (u16, &str, &str) = (202, "sent", "");

const fn skipped(reason: &'static str) -> (u16, &'static str, &'static str) {
    (202, "skipped", reason)
}

/// The mail's text, decoded from quoted-printable with its soft line breaks.
pub(crate) fn text(mail: &Received) -> String {
    let raw = str::from_utf8(&mail.bytes).unwrap().replace("=\r\n", "");
    let mut bytes = Vec::new();
    let mut rest = raw.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex =
            tail.get(..2).and_then(|hex| u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok());
        match (first, hex) {
            (b'=', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A header of a mail, unfolded.
pub(crate) fn header(mail: &Received, name: &str) -> String {
    let raw = str::from_utf8(&mail.bytes).unwrap();
    let head = raw.split("\r\n\r\n").next().unwrap().replace("\r\n ", " ");
    let line =
        head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")).map(str::to_owned));
    line.unwrap_or_default()
}

/// How many invites of a day are counted for a firm.
async fn used(world: &World, firm: &Firm) -> i64 {
    let invites = format!("quotas where firm_id = '{}' and kind = 'invites'", firm.id);
    world.ask_number(&format!("select coalesce(sum(used), 0)::bigint from {invites}")).await
}

/// How many invites, mails and keys of mails are under way.
async fn under_way(world: &World) -> (i64, i64) {
    (world.count("open_invites").await, world.count("mails").await)
}
