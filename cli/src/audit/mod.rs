//! `audit` and `hooks`: what has to be answered for, and its proof.

pub(crate) mod args;
mod export;
mod hooks;
mod verify;

use std::process::ExitCode;

use api::commands::readings;
use auditor::{PublicKey, Signed, lines};
use domain::reading::{Look, Read, ReadAs};
use domain::time::Timestamp;
use eventstore::Clock;
use projector::audit::{self, Filter};
use serde_json::{Value, json};
use vault::SystemEntropy;

use crate::args::Json;
use crate::databases::Looking;
use crate::operate::{OPERATOR, print, refused, say};
use crate::wiring::{self, Place};
use args::{Audit, Keys, List};

pub(crate) use hooks::run as hooks;

pub(crate) async fn run(place: &Place, command: Audit) -> anyhow::Result<ExitCode> {
    match command {
        Audit::List(list) => show(place, list).await?,
        Audit::Export(export) => export::run(place, &export).await?,
        Audit::Verify(verify) => return Ok(verify::run(place, &verify).await),
        Audit::Checkpoint(how) => checkpoint(place, how).await?,
        Audit::Keys(command) => keys(place, &command)?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(place: &Place, list: List) -> anyhow::Result<()> {
    let system = wiring::open(place).await?;
    let (since, until) = (list.time.since, list.time.until);
    let look = Look { since, until, ..Look::at(Read::Audit, ReadAs::Page) };
    readings::record(&system.service, list.firm, OPERATOR, look).await.map_err(refused)?;
    let filter = Filter {
        action: list.action.map(domain::audit::Action::name),
        actor: list.actor,
        subject: list.subject,
        since: since.map(Timestamp::get),
        until: until.map(Timestamp::get),
        before: list.after,
    };
    let rows = audit::list(system.pool(), list.firm, &filter, list.limit).await?;
    let flat = |mut item: Value| {
        if !list.json.json {
            for party in ["actor", "subject"] {
                let of = item[party].take();
                let id = of["id"].as_str().map_or(String::new(), |id| format!(":{id}"));
                item[party] = format!("{}{id}", of["kind"].as_str().unwrap_or_default()).into();
            }
        }
        item
    };
    let items = rows.iter().map(lines::shown).map(flat).collect();
    print(
        list.json,
        items,
        &["sequence", "at", "action", "reason", "actor", "subject", "evidence"],
    );
    system.stop().await
}

async fn checkpoint(place: &Place, how: Json) -> anyhow::Result<()> {
    let looking = Looking::at(place).await?;
    let at = Clock::of_database(&looking.pool).await?.now();
    let taken = place.notary().take(&looking.pool, &SystemEntropy, at).await?;
    print(how, vec![shown(&taken)], &["number", "at", "position", "firms", "key_id", "hash"]);
    looking.close().await
}

fn shown(taken: &Signed) -> Value {
    let said = &taken.checkpoint;
    json!({
        "number": said.number, "at": said.at, "position": said.position, "firms": said.firms,
        "seals": said.seals, "key_id": said.key_id, "hash": hex::encode(said.hash()),
    })
}

fn keys(place: &Place, command: &Keys) -> anyhow::Result<()> {
    let keys = place.notary().keys;
    let item = |key: &PublicKey| json!({"id": key.id(), "public_key": key.hex()});
    match command {
        Keys::List(how) => {
            print(*how, keys.list()?.iter().map(item).collect(), &["id", "public_key"]);
        }
        Keys::Rotate(how) => {
            let made = keys.rotate(&SystemEntropy)?;
            print(*how, vec![item(&made)], &["id", "public_key"]);
        }
        Keys::Publish { pem } => {
            for key in keys.list()? {
                say(if *pem { key.pem() } else { key.hex() }.trim_end());
            }
        }
    }
    Ok(())
}
