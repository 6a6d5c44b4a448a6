//! Another wrapping key: everything can be read under it, and nothing under the old one.

use std::fs;
use std::pin::pin;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Executor};
use tests::{Receiver, TestDatabase, World};
use tokio::process::Command;

use tests::process::{self, data_dir, firmforms};

const NEW: &str = "08";

/// A world with something under every kind of key, and the file of another wrapping key.
async fn world(receiver: &Receiver) -> (World, uuid::Uuid, String) {
    // By the real clock: a service that is started later would purge deliveries of weeks ago.
    let world = World::real_time(TestDatabase::new().await).await;
    let firm = world.firm().await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);
    let folder = data_dir(&world.database);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("new.key");
    fs::write(&file, NEW.repeat(32)).unwrap();
    (world, firm.id, file.to_str().unwrap().to_owned())
}

/// The exit code and all words of a command.
async fn said(command: &mut Command) -> (i32, String) {
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
}

async fn rewrap(world: &World, file: &str) -> (i32, String) {
    // The world itself is a process at work.
    world.service().store.connections().close().await;
    world.deliverer().store.connections().close().await;
    world.service().pools.health.close().await;
    world.deliverer().keyring.close().await;
    let arguments = ["keyring", "rewrap", "--yes", "--new-key-file", file];
    said(firmforms(&world.database).args(arguments)).await
}

fn with_new_key(world: &World) -> Command {
    let mut command = firmforms(&world.database);
    command.env("FIRMFORMS_WRAPPING_KEY", NEW.repeat(32));
    command
}

/// A body that was encrypted before is sent once more under the new key, with the same bytes.
async fn assert_sent_again(world: &World, firm: uuid::Uuid, receiver: &Receiver) {
    let again =
        ["replay", "start", "--firm", &firm.to_string(), "--reason", "a drill", "--force", "--yes"];
    let (code, text) = said(with_new_key(world).args(again)).await;
    assert_eq!(code, 0, "{text}");
    let key = [("FIRMFORMS_WRAPPING_KEY", &*NEW.repeat(32))];
    let _service = process::serve_with(&world.database, &[], &key).await;
    let received = receiver.wait_for(2).await;
    assert_eq!(received[0].body, received[1].body, "what was sealed once is sent once more");
}

#[tokio::test]
async fn the_new_wrapping_key_alone_opens_everything() {
    let receiver = Receiver::start().await;
    let (world, firm, file) = world(&receiver).await;
    let reveal = ["secrets", "reveal", "--firm", &firm.to_string(), "--json"];
    let before = said(firmforms(&world.database).args(reveal)).await;
    let (code, text) = rewrap(&world, &file).await;
    assert_eq!(code, 0, "{text}");

    let old = said(firmforms(&world.database).args(reveal)).await;
    assert!(old.0 != 0 && old.1.contains("made with another wrapping key"), "{old:?}");
    assert_eq!(said(with_new_key(&world).args(reveal)).await, before);
    let ordered = "select metadata::json->>'actor' from events
                    where event_type = 'KeyringRewrapOrdered' and firm_id = $1";
    let mut main = world.database.main.connect().await.unwrap();
    let actors: Vec<String> =
        sqlx::query_scalar(ordered).bind(uuid::Uuid::nil()).fetch_all(&mut main).await.unwrap();
    assert!(matches!(&actors[..], [actor] if actor.starts_with("operator:")), "{actors:?}");
    assert_sent_again(&world, firm, &receiver).await;
}

/// The rewrap has looked for services and has not set its flag yet: then a service starts. This
/// service kept the old key.
#[tokio::test]
async fn a_service_started_meanwhile_stops_the_rewrap() {
    let receiver = Receiver::start().await;
    let (world, _, file) = world(&receiver).await;
    // A service has been at work before.
    let listed = said(firmforms(&world.database).args(["tokens", "list"])).await;
    assert_eq!(listed.0, 0, "{listed:?}");
    let watching = world.database.keyring.clone().application_name("a test");
    let mut holding = watching.connect().await.unwrap();
    holding.execute("begin; select 1 from wrapping_check for update").await.unwrap();
    let begun_meanwhile = async {
        let blocked = "select exists (select from pg_stat_activity
                        where datname = current_database() and wait_event_type = 'Lock')";
        // Another connection: a transaction sees this view as it first saw it.
        let mut looking = watching.connect().await.unwrap();
        while !sqlx::query_scalar::<_, bool>(blocked).fetch_one(&mut looking).await.unwrap() {
            tokio::task::yield_now().await;
        }
        let service = process::serve(&world.database, &[]).await;
        holding.execute("commit").await.unwrap();
        service
    };
    let mut rewrapping = pin!(rewrap(&world, &file));
    let service = tokio::select! {
        ended = &mut rewrapping => panic!("it did not wait: {ended:?}"),
        service = begun_meanwhile => service,
    };
    let (code, text) = rewrapping.await;
    assert!(code != 0 && text.contains("stop the service first"), "{text}");
    drop(service);
    let rewrapping = "select rewrapping from wrapping_check";
    let rewrapping: bool = sqlx::query_scalar(rewrapping).fetch_one(&mut holding).await.unwrap();
    assert!(!rewrapping, "it is called off");
    let (_, text) = said(firmforms(&world.database).args(["doctor"])).await;
    let is_fine = |line: &str| line.starts_with("fine") && line.contains("wrapping_key");
    assert!(text.lines().any(is_fine), "{text}");
}

#[tokio::test]
async fn a_cut_rewrap_blocks_work_until_finished() {
    let receiver = Receiver::start().await;
    let (world, firm, file) = world(&receiver).await;
    let reveal = ["secrets", "reveal", "--firm", &firm.to_string(), "--json"];
    let before = said(firmforms(&world.database).args(reveal)).await;
    let cut_off = "update wrapping_check set rewrapping = true";
    change(&world.database.keyring, cut_off).await;
    for mut command in [firmforms(&world.database), with_new_key(&world)] {
        let (code, text) = said(command.args(reveal)).await;
        assert!(code != 0 && text.contains("between two wrapping keys"), "{text}");
    }
    assert_eq!(rewrap(&world, &file).await.0, 0);
    assert_eq!(said(with_new_key(&world).args(reveal)).await, before);
    let (code, text) = rewrap(&world, &file).await;
    assert_eq!(code, 0, "done again it finds nothing to do: {text}");
}

/// A rewrap is refused beside a service, without its file, and from a wrong key.
#[tokio::test]
async fn a_refused_rewrap_changes_nothing() {
    let receiver = Receiver::start().await;
    let (world, firm, file) = world(&receiver).await;
    let reveal = ["secrets", "reveal", "--firm", &firm.to_string()];
    assert_eq!(said(firmforms(&world.database).args(reveal)).await.0, 0);
    let arguments = ["keyring", "rewrap", "--yes", "--new-key-file", &file];
    let (code, text) = said(firmforms(&world.database).args(arguments)).await;
    assert!(code != 0 && text.contains("stop the service first"), "{text}");
    let (code, text) = rewrap(&world, "/nowhere").await;
    assert!(code != 0 && text.contains("/nowhere"), "{text}");
    let mut wrong = firmforms(&world.database);
    wrong.env("FIRMFORMS_WRAPPING_KEY", "09".repeat(32)).args(arguments);
    let (code, text) = said(&mut wrong).await;
    assert!(code != 0 && text.contains("this key does not open"), "{text}");
    assert_eq!(said(firmforms(&world.database).args(reveal)).await.0, 0);
}

async fn change(database: &PgConnectOptions, statement: &str) {
    sqlx::raw_sql(statement).execute(&mut database.connect().await.unwrap()).await.unwrap();
}

async fn number(database: &PgConnectOptions, question: &str) -> i64 {
    let mut connection = database.connect().await.unwrap();
    sqlx::query_scalar(question).fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn a_rewrap_names_and_skips_damaged_keys() {
    let receiver = Receiver::start().await;
    let (world, firm, file) = world(&receiver).await;
    let other = world.firm().await;
    world.submit(&other).await;
    let (main, keyring) = (&world.database.main, &world.database.keyring);
    let damage = format!(
        "create table kept as select * from data_keys where firm_id = '{}';
         update data_keys set wrapped = sha256(wrapped) where firm_id = '{}'",
        other.id, other.id
    );
    change(keyring, &damage).await;
    let damage = format!(
        "update webhook_secrets set secret = sha256(secret) where firm_id = '{}'",
        other.id
    );
    change(main, &damage).await;
    let reveal = ["secrets", "reveal", "--firm", &firm.to_string(), "--json"];
    let before = said(firmforms(&world.database).args(reveal)).await;
    let (code, text) = rewrap(&world, &file).await;
    assert_eq!(code, 0, "{text}");
    for row in [format!("data_keys {} ", other.id), format!("webhook_secrets {} ", other.id)] {
        assert!(text.contains(&format!("damaged: {row}")), "{text}");
    }
    let left = "select count(*) from kept k join data_keys d using (firm_id, subject_id)
                 where d.wrapped = sha256(k.wrapped)";
    let damaged = number(keyring, "select count(*) from kept").await;
    assert_eq!(number(keyring, left).await, damaged, "it is as it was");
    assert!(text.contains(&format!("damaged rows: {}\n", damaged + 1)), "{text}");
    assert_eq!(said(with_new_key(&world).args(reveal)).await, before);
}

#[tokio::test]
async fn a_rewrap_finishes_one_cut_off_halfway() {
    let receiver = Receiver::start().await;
    let (world, firm, file) = world(&receiver).await;
    let reveal = ["secrets", "reveal", "--firm", &firm.to_string(), "--json"];
    let before = said(firmforms(&world.database).args(reveal)).await;
    let other = world.firm().await;
    world.submit(&other).await;
    let keyring = &world.database.keyring;
    let keep = "create table kept_keys as select * from data_keys;
                create table kept_check as select * from wrapping_check;
                create table kept_identity as select * from identity_key";
    change(keyring, keep).await;
    let (code, text) = rewrap(&world, &file).await;
    assert_eq!(code, 0, "{text}");
    // As if it had been cut off between the two firms.
    let halfway = format!(
        "update data_keys d set wrapped = k.wrapped from kept_keys k
          where (k.firm_id, k.subject_id) = (d.firm_id, d.subject_id) and k.firm_id = '{firm}';
         update identity_key set sealed = (select sealed from kept_identity);
         update wrapping_check set rewrapping = true, sealed = (select sealed from kept_check)"
    );
    change(keyring, &halfway).await;
    let still = "select count(*) from data_keys d join kept_keys k using (firm_id, subject_id)
                  where d.wrapped = k.wrapped";
    let (old, all) = (number(keyring, still).await, "select count(*) from data_keys");
    assert!(old > 0 && old < number(keyring, all).await, "{old} are under the old key");
    for mut command in [firmforms(&world.database), with_new_key(&world)] {
        let (code, text) = said(command.args(reveal)).await;
        assert!(code != 0 && text.contains("between two wrapping keys"), "{text}");
    }
    let (code, text) = rewrap(&world, &file).await;
    assert!(
        code == 0 && text.starts_with(&format!("rewrapped: {old} data keys, 0 secrets")),
        "{text}"
    );
    assert_eq!(number(keyring, still).await, 0);
    assert_eq!(said(with_new_key(&world).args(reveal)).await, before);
    assert_sent_again(&world, firm, &receiver).await;
}
