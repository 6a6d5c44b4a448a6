//! Upkeep that the database does by itself beside the service.

use eventstore::connect;
use sqlx::PgPool;
use tests::World;

/// Tables of the main database in which a delivery or a response makes rows.
const GROWING: [&str; 11] = [
    "events",
    "deliveries",
    "answers",
    "bodies",
    "responses",
    "response_people",
    "subjects",
    "reports",
    "bookings",
    "activity_seen",
    "audit_log",
];
const KEYS: [&str; 1] = ["data_keys"];

/// `analyze` of a grown table read 30,000 pages, for one to three seconds. Meanwhile no dead row of
/// any table could go, and events waited for up to two seconds. The column with the largest sample
/// counts, so a new column has to have a small one, too.
#[tokio::test]
async fn growing_tables_have_small_analyze_samples() {
    let world = World::new().await;
    let keyring = connect(world.database.keyring.clone(), 1);
    let large = [
        with_a_large_sample(world.pool(), &GROWING).await,
        with_a_large_sample(&keyring, &KEYS).await,
    ];
    assert!(large.concat().is_empty(), "`set statistics 10` is missing: {large:?}");
}

async fn with_a_large_sample(pool: &PgPool, tables: &[&str]) -> Vec<String> {
    sqlx::query_scalar(
        "select attrelid::regclass || '.' || attname from pg_attribute
          where attrelid = any ($1::text[]::regclass[]) and attnum > 0 and not attisdropped
            and attstattarget is distinct from 10",
    )
    .bind(tables)
    .fetch_all(pool)
    .await
    .unwrap()
}
