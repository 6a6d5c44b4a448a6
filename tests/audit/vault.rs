//! Personal data is ciphertext, and is gone with its data key.

use std::time::Duration;

use eventstore::{LifeWatch, connect};
use futures::future::join_all;
use serde_json::json;
use sqlx::Executor;
use tests::{
    ATTEMPTS, Firm, Receiver, Reply, World, activity, count_rows, own_cluster, table_names,
};
use uuid::Uuid;
use vault::{KeySubject, Keyring, KeyringHosts, SystemEntropy, WrappingKey, bodies, secrets};

/// Reports a response in which everything that can be is this word; returns its id.
async fn submit(world: &World, firm: &Firm, word: &str) -> Uuid {
    let response_id = world.id();
    let data = json!({
        "response_id": response_id, "form_id": firm.form, "submitted_at": "2026-11-01T12:00:00Z",
        "device": word, "lang": word, "ending": word,
        "respondent": {"name": word, "email": format!("{word}@example.com"), "phone": word},
        "answers": [{"id": word, "question": word, "type": "long_text", "answer": word}],
        "variables": {word: word}, "hidden": {word: word},
    });
    world.report_one(activity(firm.id, "response.submitted", data)).await;
    response_id
}

async fn drop_data_key(world: &World, response_id: Uuid) {
    let deletion = format!("delete from data_keys where subject_id = '{response_id}'");
    assert_eq!(world.change_keyring(&deletion).await, 1);
}

/// State, and outcome and error of each try, of the one delivery there is.
async fn tries(world: &World) -> (String, Vec<(String, Option<String>)>) {
    let id = world.first_delivery_id().await;
    let tries = world.attempts(id).await.into_iter();
    let tries = tries.map(|one| (one.outcome.name().to_owned(), one.error)).collect();
    (world.history(id).await.0, tries)
}

/// Every table of both databases, as text and as hexadecimal.
#[tokio::test]
async fn no_table_holds_answers_in_the_clear() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let brand = json!({"brand": {"reply_to": "canary@example.com"}});
    world.report_one(tests::later(activity(firm.id, "firm.changed", brand), 1)).await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    submit(&world, &firm, "canary").await;
    receiver.reply([Reply::status(503).body(b"canary")]);
    world.deliver().await;
    assert!(receiver.received()[0].json().to_string().contains("canary"));
    for (pool, filled) in
        [(world.pool(), "responses bodies answers firm_contacts"), (world.keys(), "data_keys")]
    {
        let tables = table_names(pool).await;
        for table in filled.split(' ') {
            assert!(tables.iter().any(|name| name == table), "{table}");
            assert_eq!(count_rows(pool, table).await, 1);
        }
        for table in tables {
            let holding = "t::text ilike '%canary%'
                    or t::text like '%' || encode('canary', 'hex') || '%'";
            let found = count_rows(pool, &format!("{table} t where {holding}")).await;
            assert_eq!(found, 0, "{table}");
        }
    }
}

/// Without its data key a response cannot be read. Each try counts and sends nothing, and the
/// eighth fails the delivery.
#[tokio::test]
async fn no_delivery_is_sent_without_its_key() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let response_id = submit(&world, &firm, "canary").await;
    drop_data_key(&world, response_id).await;
    assert_eq!(world.deliver().await, 1);
    let never_sent = |outcome: &str| (outcome.to_owned(), Some("never_sent".to_owned()));
    assert_eq!(tries(&world).await, ("pending".to_owned(), vec![never_sent("retry")]));
    for minutes in [1, 2, 4, 8, 16, 32, 60] {
        world.pass(Duration::from_secs(minutes * 60));
        assert_eq!(world.deliver().await, 1, "after {minutes} minutes");
    }
    world.pass(Duration::from_secs(24 * 60 * 60));
    assert_eq!(world.deliver().await, 0);
    let mut all = vec![never_sent("retry"); 7];
    all.push(never_sent("failed"));
    assert_eq!(tries(&world).await, ("failed".to_owned(), all));
    assert!(receiver.received().is_empty());
}

/// The data key goes between two tries. The frozen body of the first try is under the same key.
#[tokio::test]
async fn a_frozen_body_needs_its_data_key() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let response_id = submit(&world, &firm, "canary").await;
    receiver.reply([Reply::status(503)]);
    assert_eq!(world.deliver().await, 1);
    drop_data_key(&world, response_id).await;
    world.pass(Duration::from_secs(60));
    assert_eq!(world.deliver().await, 1);
    let retries = |errors: [Option<&str>; 2]| {
        errors.map(|error| ("retry".to_owned(), error.map(str::to_owned))).to_vec()
    };
    assert_eq!(tries(&world).await, ("pending".to_owned(), retries([None, Some("never_sent")])));
    assert_eq!(receiver.received().len(), 1);
}

/// E10: a response that cannot be read is not sent, and delays no other delivery.
#[tokio::test]
async fn e10_a_damaged_response_fails_alone() {
    for damage in [
        r"update responses set document = document || '\x00'",
        "update responses set document = ''",
    ] {
        let world = World::new().await;
        let (firm, other) = (world.firm().await, world.firm().await);
        let receiver = Receiver::start().await;
        for firm in [&firm, &other] {
            world.subscribe(firm, &receiver.url("/hook")).await;
        }
        let damaged = submit(&world, &firm, "canary").await;
        let (sound, theirs) = (submit(&world, &firm, "x").await, submit(&world, &other, "x").await);
        world.change_database(&format!("{damage} where response_id = '{damaged}'")).await;
        assert_eq!(world.deliver().await, 3);
        let mut arrived: Vec<_> =
            receiver.received().iter().map(|sent| sent.json()["response"]["id"].clone()).collect();
        arrived.sort_by_key(ToString::to_string);
        let mut expected = vec![json!(sound), json!(theirs)];
        expected.sort_by_key(ToString::to_string);
        assert_eq!(arrived, expected);
    }
}

/// E10: a kept body that cannot be read is not sent by a later try.
#[tokio::test]
async fn e10_a_damaged_body_fails_alone() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let damaged = submit(&world, &firm, "x").await;
    submit(&world, &firm, "x").await;
    receiver.reply([Reply::status(503), Reply::status(503)]);
    assert_eq!(world.deliver().await, 2);
    let damage = r"update bodies set ciphertext = ciphertext || '\x00'";
    world.change_database(&format!("{damage} where response_id = '{damaged}'")).await;
    world.pass(Duration::from_secs(60));
    assert_eq!(world.deliver().await, 2);
    assert_eq!(receiver.received().len(), 3);
}

/// E10: a damaged secret fails attempts of its own firm alone.
#[tokio::test]
async fn e10_a_damaged_secret_delays_one_firm() {
    let world = World::new().await;
    let (damaged, sound) = (world.firm().await, world.firm().await);
    let receiver = Receiver::start().await;
    for firm in [&damaged, &sound] {
        world.subscribe(firm, &receiver.url("/hook")).await;
        submit(&world, firm, "x").await;
    }
    let damage = r"update webhook_secrets set secret = secret || '\x00'";
    world.change_database(&format!("{damage} where firm_id = '{}'", damaged.id)).await;
    assert_eq!(world.deliver().await, 2);
    assert_eq!(receiver.received().len(), 1);
    assert_eq!(receiver.received()[0].json()["form"]["id"], json!(sound.form));
}

/// E10: a data key that cannot be opened delays no other response.
#[tokio::test]
async fn e10_a_damaged_data_key_fails_alone() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let damaged = submit(&world, &firm, "x").await;
    submit(&world, &firm, "x").await;
    let damage = r"update data_keys set wrapped = wrapped || '\x00'";
    world.change_keyring(&format!("{damage} where subject_id = '{damaged}'")).await;
    assert_eq!(world.deliver().await, 2);
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_callers_get_the_same_key() {
    let world = World::new().await;
    let keyring = &world.service().keyring;
    let subject = |response_id| KeySubject { firm_id: Uuid::from_u128(1), subject_id: response_id };
    for _ in 0..20 {
        let subjects = [subject(world.id()), subject(world.id())];
        let reversed = [subjects[1], subjects[0], subjects[1]];
        let made = join_all((0..8).map(|n| {
            let subjects = if n % 2 == 0 { &subjects[..] } else { &reversed };
            keyring.make_keys(subjects, &SystemEntropy)
        }))
        .await;
        for subject in subjects {
            let sealed =
                made[0].as_ref().unwrap()[&subject].seal(b"x", b"text", &SystemEntropy).unwrap();
            for keys in &made {
                let key = &keys.as_ref().unwrap()[&subject];
                assert_eq!(key.open(b"x", &sealed).unwrap(), b"text");
            }
            let found = keyring.find_keys(&[subject]).await.unwrap();
            assert_eq!(found[&subject].open(b"x", &sealed).unwrap(), b"text");
        }
    }
}

/// The check at the start finds the other key.
#[tokio::test]
async fn another_wrapping_key_opens_nothing() {
    let world = World::new().await;
    let firm = world.firm().await;
    let response_id = submit(&world, &firm, "canary").await;
    let subjects = [KeySubject { firm_id: firm.id, subject_id: response_id }];
    let ours = &world.service().keyring;
    let theirs =
        Keyring::new(connect(world.database.keyring.clone(), 4), WrappingKey::new(&[8; 32]));
    for _ in 0..2 {
        ours.check_wrapping_key(&SystemEntropy).await.unwrap();
        assert!(theirs.check_wrapping_key(&SystemEntropy).await.is_err());
    }
    assert_eq!(ours.find_keys(&subjects).await.unwrap().len(), 1);
    assert!(theirs.find_keys(&subjects).await.unwrap().is_empty());
    assert!(
        theirs.make_keys(&subjects, &SystemEntropy).await.unwrap().is_empty(),
        "a key is never replaced"
    );
    let mut connection = world.pool().acquire().await.unwrap();
    let opened = secrets::read(&mut connection, theirs.wrapping_key(), &[firm.id]).await.unwrap();
    assert!(opened.is_empty());
}

/// A wrapped key is bound to its subject: moved to another row it does not open.
#[tokio::test]
async fn a_data_key_opens_one_subject_only() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (mine, theirs) = (submit(&world, &firm, "x").await, submit(&world, &firm, "y").await);
    let other = format!("select wrapped from data_keys where subject_id = '{theirs}'");
    let moved = format!("update data_keys set wrapped = ({other}) where subject_id = '{mine}'");
    world.change_keyring(&moved).await;
    let find = async |response_id| {
        let subject = KeySubject { firm_id: firm.id, subject_id: response_id };
        world.service().keyring.find_keys(&[subject]).await.is_ok_and(|keys| keys.len() == 1)
    };
    assert_eq!((find(mine).await, find(theirs).await), (false, true));
}

/// The data under a key is committed after the key. On one server the commit of the data flushes
/// the key, too. On two servers the key is flushed by itself.
#[tokio::test]
async fn one_server_flushes_key_and_data_together() {
    let world = World::new().await;
    let waits = [("synchronous_commit", "on")];
    let keyring = connect(world.database.keyring.clone().options(waits), 1);
    let note = "
        create table flushes (setting text);
        create function note() returns trigger language plpgsql as $$ begin
            insert into flushes values (current_setting('synchronous_commit'));
            return new;
        end $$;
        create trigger note before insert on data_keys for each row execute function note();";
    keyring.execute(note).await.unwrap();
    let cluster = own_cluster().await;
    let elsewhere = cluster.database().await.main;
    for (main, setting) in [(&world.database.main, "off"), (&elsewhere, "on")] {
        let life = LifeWatch::default();
        life.connect(main.clone(), 1).acquire().await.unwrap();
        let keys = Keyring::new(keyring.clone(), WrappingKey::new(&[7; 32]));
        let keys = keys.tied_to_main(life, KeyringHosts::Own);
        let subject = KeySubject { firm_id: world.id(), subject_id: world.id() };
        assert_eq!(keys.make_keys(&[subject], &SystemEntropy).await.unwrap().len(), 1);
        let noted = sqlx::query_scalar("delete from flushes returning setting");
        let noted: Vec<String> = noted.fetch_all(&keyring).await.unwrap();
        assert_eq!(noted, [setting]);
        let after: String = sqlx::query_scalar("select current_setting('synchronous_commit')")
            .fetch_one(&keyring)
            .await
            .unwrap();
        assert_eq!(after, "on", "no other statement is concerned");
    }
}

/// Two deliveries about one response, whose first attempts failed; each has a body of its own.
async fn two_bodies(world: &World, receiver: &Receiver) -> KeySubject {
    let firm = world.firm().await;
    for trigger in ["form_submitted", "report_approved"] {
        let hook = json!({"trigger": trigger, "target_url": receiver.url("/hook")});
        world.create_hook(&firm, hook).await.ok();
    }
    let response_id = submit(world, &firm, "x").await;
    let report_id = world.id();
    let created = json!({"report_id": report_id, "response_id": response_id, "title": "x",
                         "status": "draft", "review_url": "https://forms.test/x"});
    let approved = json!({"report_id": report_id, "at": "2026-11-01T11:00:00Z"});
    let reported = world
        .report(&[
            activity(firm.id, "report.created", created),
            activity(firm.id, "report.approved", approved),
        ])
        .await;
    assert_eq!(reported.status, 202, "{}", reported.text());
    receiver.reply([Reply::status(503), Reply::status(503)]);
    assert_eq!(world.deliver().await, 2);
    KeySubject { firm_id: firm.id, subject_id: response_id }
}

/// Encrypts the bodies of a response as the first builds did, without their ids.
async fn encrypt_as_before(world: &World, subject: KeySubject) {
    let keys = world.deliverer().keyring.find_keys(&[subject]).await.unwrap();
    let mut connection = world.pool().acquire().await.unwrap();
    let ids: Vec<Uuid> =
        sqlx::query_scalar("select body_id from bodies").fetch_all(&mut *connection).await.unwrap();
    for body in bodies::read(&mut connection, &keys, &ids).await.unwrap() {
        let sealed = keys[&subject].seal(b"body", &body.bytes, &SystemEntropy).unwrap();
        sqlx::query("update bodies set ciphertext = $2 where body_id = $1")
            .bind(body.body_id)
            .bind(sealed)
            .execute(&mut *connection)
            .await
            .unwrap();
    }
}

/// Swaps the bodies in the table, each with its digest.
async fn swap_bodies(world: &World) {
    let swapped = "update bodies a set ciphertext = b.ciphertext, sha256 = b.sha256
                     from bodies b where a.body_id <> b.body_id";
    let swapped = world.change_database(swapped).await;
    assert_eq!(swapped, 2);
}

/// Core 14 (b): two bodies of one response were swapped in the table and sent. All bodies had one
/// purpose, and no digest was computed again.
#[tokio::test]
async fn no_swapped_body_is_sent() {
    for encrypted_before in [false, true] {
        let world = World::new().await;
        let receiver = Receiver::start().await;
        let subject = two_bodies(&world, &receiver).await;
        if encrypted_before {
            encrypt_as_before(&world, subject).await;
        }
        swap_bodies(&world).await;
        world.pass(Duration::from_secs(60));
        assert_eq!(world.deliver().await, 2);
        assert_eq!(receiver.received().len(), 2, "only the first attempts: {encrypted_before}");
        let second = format!("{ATTEMPTS} where number = 2");
        let unsent = world.count(&format!("{second} and error = 'never_sent'")).await;
        assert_eq!((world.count(&second).await, unsent), (2, 2), "{encrypted_before}");
    }
}

#[tokio::test]
async fn no_body_with_another_digest_is_sent() {
    let world = World::new().await;
    let receiver = Receiver::start().await;
    two_bodies(&world, &receiver).await;
    let changed = "update bodies set sha256 = sha256(sha256)";
    world.change_database(changed).await;
    world.pass(Duration::from_secs(60));
    assert_eq!(world.deliver().await, 2);
    assert_eq!(receiver.received().len(), 2, "only the first attempts");
}

#[tokio::test]
async fn bodies_of_older_builds_are_sent_again() {
    let world = World::new().await;
    let receiver = Receiver::start().await;
    let subject = two_bodies(&world, &receiver).await;
    encrypt_as_before(&world, subject).await;
    world.pass(Duration::from_secs(60));
    assert_eq!(world.deliver().await, 2);
    let sent = receiver.received();
    let twice = |event: &str| sent.iter().filter(|one| one.json()["event"] == event).count();
    assert_eq!((twice("form_submitted"), twice("report_approved")), (2, 2));
}
