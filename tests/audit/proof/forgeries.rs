//! The forgeries that a superuser can make where no signed byte helps by itself: below the first
//! position, far above the last, in a hole of an index, in a table that is in no chain. Each case
//! has its statements, and the answer of `firmforms audit verify`.

use std::fs;
use std::time::Duration;

use rstest::rstest;
use serde_json::Value;
use tests::{Firm, TestDatabase, World};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::tampering::{VERIFY, follow, tamper, tamper_with};
use super::{audit, audit_of, read_often};
use tests::process::{data_dir, firmforms};

/// Computes the digest of the event that a forger has just written or changed.
const DIGEST_AGAIN: &str = r#"update events set digest = sha256(convert_to(format(
    '{"aggregate_id":%s,"aggregate_type":%s,"event_type":%s,"event_version":%s,"firm_id":%s,"metadata":%s,"payload":%s,"recorded_at":"%s","sequence":%s}',
    to_json(aggregate_id), to_json(aggregate_type), to_json(event_type), to_json(event_version),
    to_json(firm_id), metadata, payload,
    to_char(recorded_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), sequence), 'utf8'))"#;

/// An event with a right digest, in a stream of its own, at `POSITION`.
const FORGED_EVENT: &str = "insert into events overriding system value
    select POSITION, aggregate_type, gen_random_uuid()::text, 1, event_type, event_version, payload,
           metadata, firm_id, recorded_at, digest
      from events where event_type = 'OccurrenceRecorded' order by position limit 1";

/// An event that has an entry, is sealed, and is signed.
const READING: &str = "position = 500";

/// An event without an entry in a sealed block.
const FORM: &str = "position = 3";

/// An event without an entry, after the last whole block and before the signed checkpoint.
const OCCURRENCE: &str = "event_type = 'OccurrenceRecorded'";

/// A log with a whole block, an open block, a removed subscription, and a signed checkpoint.
async fn world() -> (World, Firm) {
    let world = World::new().await;
    let firm = world.firm().await;
    world.subscribe(&firm, "https://hooks.example.com/a?token=secret").await;
    let removed = world.subscribe(&firm, "https://hooks.example.com/b").await;
    let answer = world.call(&firm.key, "DELETE", &format!("/hooks/{removed}"), Value::Null).await;
    assert!(answer.status.is_success(), "{}", answer.body);
    read_often(&world, &firm, 1_100).await;
    world.submit(&firm).await;
    follow(&world).await;
    let (code, text) = audit(&world, &["audit", "checkpoint"]).await;
    assert_eq!(code, 0, "{text}");
    (world, firm)
}

/// The databases that each case forges a copy of.
static SIGNED: OnceCell<TestDatabase> = OnceCell::const_new();

/// Copies of the databases of [`world`], with the keys and checkpoints beside them.
async fn copied() -> TestDatabase {
    let signed = SIGNED.get_or_init(async || world().await.0.database.for_the_run()).await;
    let copy = signed.copy().await;
    for folder in ["audit-keys", "checkpoints"] {
        let to = data_dir(&copy).join(folder);
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(data_dir(signed).join(folder)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    copy
}

/// Runs `audit verify`, and refuses to wait for it for long.
async fn verify(database: &TestDatabase) -> (i32, String) {
    let answer = timeout(Duration::from_secs(60), audit_of(database, &VERIFY)).await;
    answer.expect("the verification ends, whatever the positions are")
}

/// Changes events, and computes the digests again.
fn rewritten(change: &str, which: &str) -> Vec<String> {
    vec![format!("update events set {change} where {which}"), DIGEST_AGAIN.to_owned()]
}

/// A range for positions that have none.
const RANGE_OF_ALL: &str = "create table ranges.forged partition of ranges.log_traffic default";

fn at(position: &str) -> Vec<String> {
    vec![
        "alter table events drop constraint events_position_check".to_owned(),
        RANGE_OF_ALL.to_owned(),
        FORGED_EVENT.replace("POSITION", position),
        format!("{DIGEST_AGAIN} where position = {position}"),
    ]
}

fn plain(statements: &[&str]) -> Vec<String> {
    statements.iter().map(|statement| (*statement).to_owned()).collect()
}

async fn found(statements: Vec<String>, code: i32, says: &str) -> String {
    let database = copied().await;
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    tamper_with(&database, &statements).await;
    let (there, text) = verify(&database).await;
    assert!(there == code && text.contains(says), "{there}: {text}");
    text
}

#[rstest]
#[case::below_the_first(at("-1"), "event at position -1: positions begin at 1")]
#[case::at_zero(at("0"), "event at position 0: positions begin at 1")]
#[case::at_the_lowest_there_is(
    at("-9223372036854775808"),
    "event at position -9223372036854775808: positions begin at 1"
)]
#[case::far_above_the_end(
    at("9000000000000000000"),
    "event at position 9000000000000000000: no transaction has drawn its position"
)]
#[case::at_the_highest_there_is(
    at("9223372036854775807"),
    "event at position 9223372036854775807: no transaction has drawn its position"
)]
#[case::at_a_position_that_is_taken(
    [plain(&["alter table ranges.log_traffic_0 drop constraint log_traffic_0_position_key"]), at("700")].concat(),
    "position 700"
)]
#[case::without_a_position(
    plain(&[
        "update pg_attribute set attnotnull = false
          where attrelid = 'events'::regclass and attname = 'position'",
        "create table ranges.forged partition of events default",
        &FORGED_EVENT.replace("POSITION", "null"),
    ]),
    "table events: it has 1109 rows, and 1108 of them have a position"
)]
#[tokio::test]
async fn g2_no_position_hides_a_forged_event(#[case] statements: Vec<String>, #[case] says: &str) {
    found(statements, 1, says).await;
}

#[rstest]
#[case::recorded_a_millisecond_later(
    rewritten("recorded_at = recorded_at + interval '1 millisecond'", READING),
    "(position 500): its bytes are not what its event says"
)]
#[case::of_another_firm(
    rewritten("firm_id = gen_random_uuid()", READING),
    "(position 500): what is there is entry"
)]
#[case::moved(
    plain(&["alter table events alter position set generated by default",
            "update events set position = 100000 where position = 500"]),
    "(position 500): no event in the log has led to it"
)]
#[case::without_an_entry_in_a_sealed_block(
    rewritten("recorded_at = recorded_at + interval '1 millisecond'", FORM),
    "seal 1: the events in its block"
)]
#[case::without_an_entry_in_the_open_block(
    rewritten("recorded_at = recorded_at + interval '1 millisecond'", OCCURRENCE),
    "checkpoint 1: the log up to position"
)]
#[case::of_an_unknown_kind_with_an_entry(
    rewritten("event_type = 'HookSold', payload = '{\"HookSold\":{}}'", READING),
    "(position 500): its bytes are not what its event says"
)]
#[case::a_removal_of_an_unknown_kind(
    rewritten(
        "event_type = 'HookSold', payload = '{\"HookSold\":{}}'",
        "event_type = 'SubscriptionRemoved'",
    ),
    "its bytes are not what its event says"
)]
#[case::a_creation_of_an_unknown_kind(
    rewritten(
        "event_type = 'HookSold', payload = '{\"HookSold\":{}}'",
        "event_type = 'SubscriptionCreated'",
    ),
    "its bytes are not what its event says"
)]
#[case::of_an_unknown_kind_in_a_sealed_block(
    rewritten("event_type = 'FormSold', payload = '{\"FormSold\":{}}'", FORM),
    "seal 1: the events in its block"
)]
#[case::of_an_unknown_kind_in_the_open_block(
    rewritten("event_type = 'FormSold', payload = '{\"FormSold\":{}}'", OCCURRENCE),
    "checkpoint 1: the log up to position"
)]
#[case::of_an_unknown_version(
    rewritten("event_version = '9.9'", READING),
    "(position 500): its bytes are not what its event says"
)]
#[tokio::test]
async fn g2_no_digest_hides_a_changed_event(#[case] statements: Vec<String>, #[case] says: &str) {
    found(statements, 1, says).await;
}

#[rstest]
#[case::an_entry_below_the_first(
    plain(&[
        "alter table audit_log drop constraint audit_log_position_check",
        "insert into audit_log
            select firm_id, 5000, -1, at, action, actor_kind, actor_id, subject_kind, subject_id,
                   reason, evidence, entry, previous_hash, hash
              from audit_log where sequence = 9",
    ]),
    "(position -1): no event in the log has led to it"
)]
#[case::an_entry_far_above_the_end(
    plain(&[
        "insert into audit_log
            select firm_id, 5000, 9223372036854775807, at, action, actor_kind, actor_id,
                   subject_kind, subject_id, reason, evidence, entry, previous_hash, hash
              from audit_log where sequence = 9",
    ]),
    "(position 9223372036854775807): no event in the log has led to it"
)]
#[case::all_entries_deleted_with_their_heads_and_the_follower_set_back(
    plain(&[
        "truncate audit_log, audit_heads",
        "update checkpoints set position = 0 where name = 'audit_log'",
    ]),
    "checkpoint 1: the audit log up to position"
)]
#[case::a_head_of_no_firm(
    plain(&["insert into audit_heads select gen_random_uuid(), sequence, hash, frontier
               from audit_heads"]),
    "the kept end of the chain is not where its entries end"
)]
#[case::the_tree_of_a_head(
    plain(&["update audit_heads set frontier = set_byte(frontier, 0, get_byte(frontier, 0) # 1)"]),
    "the kept end of the chain is not where its entries end"
)]
#[case::a_seal_of_half_a_block(
    plain(&["insert into seals select number + 1, last_position + 512, 0, root, hash, root
               from seals"]),
    "seal 2: it is one too many: the log is sealed up to position 1024"
)]
#[case::a_seal_of_a_block_to_come(
    plain(&["insert into seals select number + 1, last_position + 1024, 0, root, hash, root
               from seals"]),
    "seal 2: it is one too many: the log is sealed up to position 1024"
)]
#[case::a_seal_far_above_the_end(
    plain(&["insert into seals select 9000, 9000000000000000000, 0, root, hash, root from seals"]),
    "seal 9000: it is one too many"
)]
#[case::a_seal_below_the_first(
    plain(&["insert into seals select 0, -1024, 0, root, hash, root from seals"]),
    "seal 0: no block of the log ends at position -1024"
)]
#[case::a_seal_within_a_sealed_block(
    plain(&["insert into seals select 7, 512, 0, root, hash, root from seals"]),
    "seal 7: no block of the log ends at position 512"
)]
#[case::the_count_of_a_seal(
    plain(&["update seals set events = events + 1"]),
    "seal 1: it does not follow the seal before"
)]
#[case::a_seal_deleted(plain(&["delete from seals"]), "seal 1: it is missing")]
#[case::seals_deleted_and_an_event_rewritten(
    [
        plain(&["delete from seals", "update checkpoints set position = 0 where name = 'seals'"]),
        rewritten("recorded_at = recorded_at + interval '1 millisecond'", FORM),
    ]
    .concat(),
    "checkpoint 1: the log up to position"
)]
#[case::a_follower_ahead_of_the_log(
    plain(&["update checkpoints set position = 9000000000000000000 where name = 'audit_log'"]),
    "follower audit_log: it is at position 9000000000000000000, and the highest drawn is"
)]
#[case::sealing_ahead_of_the_log(
    plain(&["update checkpoints set position = 9000000000000000000 where name = 'seals'"]),
    "follower seals: it is at position 9000000000000000000"
)]
#[case::sealing_within_a_block(
    plain(&["update checkpoints set position = 512 where name = 'seals'"]),
    "follower seals: it is at position 512, where no block ends"
)]
#[case::the_followers_deleted(plain(&["delete from checkpoints"]), "no event in the log has led to it")]
#[case::a_view_in_the_place_of_the_log(
    plain(&[
        "alter table events rename to forged",
        "create view events as select * from forged where position <= 1000",
    ]),
    "table events: it is no plain table"
)]
#[case::a_rule_on_the_audit_log(
    plain(&["create rule forged as on insert to audit_log do instead nothing"]),
    "table audit_log: it has rules"
)]
#[case::a_table_that_gives_its_rows_to_the_seals(
    plain(&["create table forged () inherits (seals)"]),
    "table seals: it inherits rows"
)]
#[tokio::test]
async fn g2_a_forged_proof_is_found(#[case] statements: Vec<String>, #[case] says: &str) {
    found(statements, 1, says).await;
}

#[rstest]
#[case::a_key_by_hand(
    "insert into key_auth select gen_random_uuid(), firm_id, member_id, name, prefix, sha256('x'),
            created_at from key_auth",
    "it is there, and the log does not know it"
)]
#[case::the_hash_of_a_key("update key_auth set sha256 = sha256('x')", "its sha256 is not what")]
#[case::the_end_of_a_key(
    "update key_auth set revoked_at = created_at",
    "its revoked_at is not what"
)]
#[case::a_key_deleted(
    "delete from key_auth",
    "table key_auth: it has 0 rows, and the log leads to 1"
)]
#[case::a_target(
    "update hooks set target_url = 'https://evil.example/'",
    "its target_url is not what the log says"
)]
#[case::a_removal_taken_back(
    "update hooks set removed_at = null, removed_position = null, removal_reason = null
      where removed_at is not null",
    "its removed_at is not what the log says"
)]
#[case::a_subscription_by_hand(
    "insert into hooks select gen_random_uuid(), firm_id, key_id, trigger, target_url, form_id,
            created_at, created_position from hooks where removed_at is null",
    "it is there, and the log does not know it"
)]
#[case::a_subscription_deleted(
    "delete from hooks where removed_at is not null",
    "table hooks: it has 1 rows, and the log leads to 2"
)]
#[case::a_lane_that_is_open_again(
    "update lanes set cancel_cause = null where cancel_cause is not null",
    "its cancel_cause is not what the log says"
)]
#[case::the_host_of_a_lane(
    "update lanes set host = 'evil.example'",
    "its firm or host is not that of its subscription"
)]
#[case::a_lane_that_sleeps("update lanes set paused_at = now()", "its paused_at is not what")]
#[case::a_lane_deleted(
    "delete from lanes where cancel_cause is null",
    "a live subscription has no lane"
)]
#[case::an_older_secret(
    "update webhook_secrets set rotated_at = rotated_at - interval '1 day'",
    "it is not as old as the log says"
)]
#[case::a_secret_of_no_firm(
    "insert into webhook_secrets select gen_random_uuid(), secret, rotated_at from webhook_secrets",
    "it is there, and the log does not know its firm"
)]
#[tokio::test]
async fn g2_a_forged_deciding_row_is_found(#[case] statement: &str, #[case] says: &str) {
    // The sequence of a forged subscription has no default.
    let statement = statement.replace(
        "created_position from hooks",
        "created_position, null, null, null, sequence from hooks",
    );
    found(vec![statement], 1, says).await;
}

/// A forged key whose row was not in the index opened the door, and the verification did not count
/// the key.
#[rstest]
#[case::among_few_keys("analyze key_auth", "two rows have this id")]
#[case::among_many_keys(
    "update pg_class set reltuples = 1000000, relpages = 1 where oid = 'key_auth'::regclass",
    "table key_auth: it has 2 rows, and an index leads to 1 of them"
)]
#[case::where_the_database_prefers_indexes(
    "do $$ begin execute format('alter database %I set enable_seqscan = off',
                                current_database()); end $$",
    "key_auth"
)]
#[tokio::test]
async fn an_index_hides_no_forged_key(#[case] statement: &str, #[case] says: &str) {
    let ready = |is: &str| {
        format!(
            "update pg_index set indisready = {is} where indexrelid = 'key_auth_pkey'::regclass"
        )
    };
    let copy = "insert into key_auth select key_id, firm_id, member_id, name, prefix, sha256('x'),
                       created_at from key_auth";
    let statements = [&ready("false"), copy, &ready("true"), statement];
    found(plain(&statements), 1, says).await;
}

/// These changes are outside of the proof, as docs/explanation/proof.md says.
#[rstest]
#[case::an_event_deleted_and_put_back(
    &["create table kept as select * from events where position = 500",
      "delete from events where position = 500",
      "insert into events overriding system value select * from kept"],
    "intact: 1108 events"
)]
#[case::the_seals_deleted_and_the_worker_set_back(
    &["delete from seals", "update checkpoints set position = 0 where name = 'seals'"],
    "the seals are 1 blocks behind"
)]
#[case::an_event_far_above_the_end_with_the_sequence(
    &[RANGE_OF_ALL, "select setval('events_position_seq', 9000000000000000000)",
      "insert into events overriding system value
          select 9000000000000000000, aggregate_type, gen_random_uuid()::text, 1, event_type,
                 event_version, payload, metadata, firm_id, recorded_at, digest
            from events where event_type = 'OccurrenceRecorded'",
      DIGEST_AGAIN],
    "the audit log is 1 events behind, and lacks 0 entries"
)]
#[case::a_read_model_of_names(&["update firms set name = 'Harrow'"], "intact: 1108 events")]
#[case::a_token_by_hand(
    &["insert into tokens values (gen_random_uuid(), 'n', 'operator', sha256('x'), now())"],
    "not proved: the table of tokens of the internal API"
)]
#[case::a_schema_before_ours(
    &["create schema forged",
      "create table forged.events (like public.events including all)",
      "do $$ begin execute format('alter database %I set search_path = forged, public',
                                  current_database()); end $$"],
    "intact: 1108 events"
)]
#[tokio::test]
async fn g2_changes_outside_the_proof_are_intact(#[case] statements: &[&str], #[case] says: &str) {
    let text = found(plain(statements), 0, says).await;
    assert!(text.contains("1 keys, 2 subscriptions, 2 lanes and the age of 1 signing"), "{text}");
}

/// The event stands after all that is proved. Nothing contradicts it: only a newer build can tell.
#[rstest]
#[case::an_unknown_kind("'OccurrenceSold'", "event_version", "'{\"OccurrenceSold\":{}}'")]
#[case::an_unknown_version("event_type", "'9.9'", "payload")]
#[tokio::test]
async fn an_unknown_event_makes_the_verdict_incomplete(
    #[case] event_type: &str,
    #[case] version: &str,
    #[case] payload: &str,
) {
    let database = copied().await;
    let insert = format!(
        "insert into events (aggregate_type, aggregate_id, sequence, event_type, event_version,
                             payload, metadata, firm_id, recorded_at, digest)
         select aggregate_type, gen_random_uuid()::text, 1, {event_type}, {version}, {payload},
                metadata, firm_id, recorded_at, digest
           from events where event_type = 'OccurrenceRecorded'"
    );
    let digest = format!("{DIGEST_AGAIN} where position = (select max(position) from events)");
    tamper_with(&database, &[&insert, &digest]).await;
    let (code, text) = verify(&database).await;
    assert!(code == 2 && text.contains("INCOMPLETE: an event of another build"), "{code}: {text}");
}

/// The verdict stays intact, and says that the audit log is behind.
#[tokio::test]
async fn verify_lists_entries_deleted_after_the_checkpoint() {
    let (world, firm) = world().await;
    tamper(
        &world,
        &["create table kept as table audit_heads", "create table reached as table checkpoints"],
    )
    .await;
    read_often(&world, &firm, 12).await;
    follow(&world).await;
    let (code, text) = verify(&world.database).await;
    assert!(code == 0 && !text.contains("behind"), "{text}");
    tamper(
        &world,
        &[
            "delete from audit_log a using reached r
              where r.name = 'audit_log' and a.position > r.position",
            "truncate audit_heads",
            "insert into audit_heads table kept",
            "update checkpoints c set position = r.position from reached r where r.name = c.name",
        ],
    )
    .await;
    let (code, text) = verify(&world.database).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("the audit log is 12 events behind, and lacks 12 entries"), "{text}");
    assert_eq!(text.matches(": audit_read of firm").count(), 10, "{text}");
}

/// A signed head that is not the last entry would contradict the true history for good.
#[rstest]
#[case::its_hash("hash = sha256(hash)")]
#[case::its_place("sequence = sequence + 1, frontier = frontier")]
#[tokio::test]
async fn no_checkpoint_signs_a_forged_head(#[case] forged: &str) {
    let (world, firm) = world().await;
    let update = format!("update audit_heads set {forged}");
    tamper(&world, &["create table kept as table audit_heads", &update]).await;
    nothing_is_signed(&world.database, &format!("head of firm {}", firm.id)).await;
    tamper(&world, &["truncate audit_heads"]).await;
    nothing_is_signed(&world.database, "heads: the kept end of a chain is missing").await;
    tamper(&world, &["insert into audit_heads table kept"]).await;
    assert_eq!(audit(&world, &["audit", "checkpoint"]).await.0, 0);
    let (code, text) = verify(&world.database).await;
    assert!(code == 0 && text.contains("2 checkpoints"), "{text}");
}

#[rstest]
#[case::a_seal_within_a_block(
    "insert into seals select 7, 1030, 0, root, hash, root from seals",
    "seal 7: it is not the seal of the last block"
)]
#[case::a_view_in_the_place_of_the_log(
    "alter table events rename to forged; create view events as select * from forged",
    "table events: it is no plain table"
)]
#[case::an_event_far_above_the_end(
    "create table ranges.forged partition of ranges.log_traffic default;
     insert into events overriding system value
        select 9000000000000000000, aggregate_type, gen_random_uuid()::text, 1, event_type,
               event_version, payload, metadata, firm_id, recorded_at, digest
          from events where position = 500;
     update checkpoints set position = 9000000000000000000 where name = 'audit_log'",
    "event at position 9000000000000000000: no transaction has drawn its position"
)]
#[case::an_event_far_above_the_end_with_the_sequence(
    "create table ranges.forged partition of ranges.log_traffic default;
     insert into events overriding system value
        select 9000000000000000000, aggregate_type, gen_random_uuid()::text, 1, event_type,
               event_version, payload, metadata, firm_id, recorded_at, digest
          from events where position = 500;
     select setval('events_position_seq', 9000000000000000000);
     update checkpoints set position = 9000000000000000000 where name = 'audit_log'",
    "follower seals: it is too far behind the log"
)]
#[tokio::test]
async fn no_checkpoint_signs_a_contradictory_log(#[case] statement: &str, #[case] says: &str) {
    let database = copied().await;
    tamper_with(&database, &[statement]).await;
    nothing_is_signed(&database, says).await;
}

async fn nothing_is_signed(database: &TestDatabase, says: &str) {
    let taken =
        timeout(Duration::from_secs(60), audit_of(database, &["audit", "checkpoint"])).await;
    let (code, text) = taken.unwrap();
    assert!(code == 1 && text.contains(says) && text.contains("Nothing is signed"), "{text}");
    let folder = data_dir(database).join("checkpoints");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let checkpoints = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    assert_eq!(checkpoints.count(), 1);
}

/// Neither proof walks through the gap below a forged position, which would take for ever.
#[tokio::test]
async fn verify_deliveries_ends_despite_a_distant_event() {
    let database = copied().await;
    let statements = at("9000000000000000000");
    tamper_with(&database, &statements.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut command = firmforms(&database);
    let ended = timeout(Duration::from_secs(60), command.args(["verify", "deliveries"]).output());
    let output = ended.await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
