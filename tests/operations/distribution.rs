//! Tables and keys that would hinder a distribution by `firm_id` (docs/explanation/scaling.md).
//! Each table should name the firm of its rows, and each key should contain the firm. Exceptions
//! are listed here with their reasons. A new table or key without the firm fails until somebody has
//! decided about it.

use std::collections::BTreeMap;

use sqlx::PgPool;
use tests::{TestDatabase, World};

/// Tables without a firm's rows, and their content. Each cell has its own.
const OF_NO_FIRM: [(&str, &str); 22] = [
    ("_sqlx_migrations", "the schema"),
    ("cell", "this installation's number"),
    ("checkpoints", "how far each follower of this log is"),
    ("lost_tails", "the losses of this log"),
    ("history_drops", "months of history that have left this cell"),
    ("erased_up_to", "one mark in this installation's log"),
    ("identity_check", "one word under this installation's key"),
    ("identity_key", "this installation's key"),
    ("installation", "this installation's id"),
    ("last_backup", "the last backup of this database"),
    ("last_signature", "the last checkpoint that was signed here"),
    ("last_verification", "the last verification of this log"),
    ("rebuilds", "when each read model was made anew here"),
    ("receiver_hours", "attempts to a host, over all firms of this cell"),
    ("receivers", "attempts to a host, over all firms of this cell"),
    ("seals", "blocks of this log's positions"),
    ("sign_ins", "sessions of operators and auditors"),
    ("table_sizes", "sizes of the tables of this cell"),
    ("tokens", "of the product and of operators"),
    ("users", "operators and auditors, as their provider names them"),
    ("wrapping_check", "one word under this installation's key"),
    ("wrong_keys", "counters that addresses share; a wrong key is no firm's"),
];

/// Tables with a firm's rows that do not name the firm, and how the firm would be known.
const NAMELESS: [(&str, &str); 5] = [
    ("key_calls", "by its key, which is read in the same statement"),
    ("lane_wakes", "by its lane, which is locked with it"),
    ("pauses", "operators hold a firm, a host or all: a few rows, copied to every node"),
    ("places", "by the event at its position"),
    ("replay_items", "by its replay, which is locked with them"),
];

/// Keys without the firm in them, on tables of firms' rows, and why no two firms meet in one. With
/// `firm_id` put first each of them stays as unique as it is, but for those of [`ACROSS_FIRMS`].
const WITHOUT_FIRM: [(&str, &str); 22] = [
    ("answers_pkey", "a delivery's id, made of its firm's"),
    ("bodies_pkey", "a random id"),
    ("hook_episodes_pkey", "a random id, the subscription's"),
    ("hooks_pkey", "a random id"),
    ("key_auth_pkey", "a random id"),
    ("key_calls_pkey", "a random id, the key's"),
    ("lane_wakes_pkey", "a number of its own, which nobody refers to"),
    ("lanes_pkey", "a subscription's random id, or made of the firm's and a host"),
    ("log_traffic_0_pkey", "an occurrence's or a delivery's id, made of the firm's"),
    ("mails_pkey", "a random id"),
    ("notices_pkey", "made of a subscription's, a key's or a firm's random id"),
    ("open_invites_pkey", "a random id"),
    ("outbox_pkey", "made of the occurrence's id, which is made of the firm's"),
    ("pauses_pkey", "a random id"),
    ("places_pkey", "an occurrence's or a delivery's id, made of the firm's"),
    ("portal_sessions_cookie_key", "the digest of a random cookie"),
    ("portal_sessions_pkey", "the digest of a random code"),
    ("replay_items_delivery_key", "the replay's random id"),
    ("replay_items_pkey", "the replay's random id"),
    ("replays_pkey", "a random id"),
    ("step_headers_pkey", "a delivery's id, made of its firm's"),
    ("waiting_facts_pkey", "an occurrence's id, made of the firm's"),
];

/// Keys that decide between firms: they hold within a cell, and would not fit a distributed table.
const ACROSS_FIRMS: [(&str, &str); 5] = [
    ("audit_log_position_key", "places in the one log"),
    ("key_auth_sha256_key", "who calls is looked up before it is known whose key it is"),
    (
        "log_state_pkey",
        "a form's stream is named by the product: two firms cannot have one of the same id",
    ),
    ("log_state_position_key", "the one log's order, which all followers go by"),
    ("log_traffic_0_position_key", "the same order"),
];

/// Each table, and whether its rows name their firm.
async fn tables(pool: &PgPool) -> BTreeMap<String, bool> {
    sqlx::query_as(
        "select t.relname::text, coalesce(a.attnotnull and a.atttypid = 'uuid'::regtype, false)
           from pg_class t
           left join pg_attribute a on a.attrelid = t.oid and a.attname = 'firm_id'
          where t.relnamespace = 'public'::regnamespace and t.relkind in ('r', 'p')",
    )
    .fetch_all(pool)
    .await
    .unwrap()
    .into_iter()
    .collect()
}

/// Every unique index of a table, and whether the firm is in it. The first range of the log stands
/// for all of them.
async fn keys(pool: &PgPool) -> Vec<(String, String, bool)> {
    sqlx::query_as(
        "select t.relname::text, i.relname::text,
                exists (select from pg_attribute a
                         where a.attrelid = t.oid and a.attname = 'firm_id'
                           and a.attnum = any(x.indkey::smallint[]))
           from pg_index x
           join pg_class t on t.oid = x.indrelid
           join pg_class i on i.oid = x.indexrelid
          where (t.relnamespace = 'public'::regnamespace
                 or t.relname in ('log_state', 'log_traffic_0')) and x.indisunique
          order by 2",
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

async fn both_databases() -> [PgPool; 2] {
    let world = World::on(TestDatabase::new().await).await;
    let keyring = eventstore::connect(world.database.keyring.clone(), 1);
    [world.pool().clone(), keyring]
}

fn listed(lists: &[&[(&str, &str)]]) -> Vec<String> {
    let mut names: Vec<String> =
        lists.concat().into_iter().map(|(name, _)| name.to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

#[tokio::test]
async fn tables_have_the_firm_or_are_listed() {
    let mut without = Vec::new();
    for pool in both_databases().await {
        let tables = tables(&pool).await;
        without.extend(tables.into_iter().filter(|(_, named)| !named).map(|(table, _)| table));
    }
    without.sort();
    without.dedup();
    assert_eq!(without, listed(&[&OF_NO_FIRM, &NAMELESS]));
}

#[tokio::test]
async fn keys_have_the_firm_or_are_listed() {
    let mut without = Vec::new();
    for pool in both_databases().await {
        let keys = keys(&pool).await;
        let of_firms = |table: &str| OF_NO_FIRM.iter().all(|(name, _)| *name != table);
        without.extend(
            keys.into_iter()
                .filter(|(table, _, named)| of_firms(table) && !named)
                .map(|(_, key, _)| key),
        );
    }
    without.sort();
    assert_eq!(without, listed(&[&WITHOUT_FIRM, &ACROSS_FIRMS]));
}

/// PostgreSQL would have to check such keys between nodes. Exclusion constraints and partial unique
/// indexes count, too.
#[tokio::test]
async fn no_foreign_keys_or_expression_keys_exist() {
    for pool in both_databases().await {
        let between: Vec<String> = sqlx::query_scalar(
            "select conname::text from pg_constraint where contype in ('f', 'x')
              union all
             select i.relname::text from pg_index x join pg_class i on i.oid = x.indexrelid
              where i.relnamespace = 'public'::regnamespace and x.indisunique
                and (x.indexprs is not null or x.indpred is not null)",
        )
        .fetch_all(&pool)
        .await
        .unwrap();
        assert!(between.is_empty(), "{between:?}");
    }
}
