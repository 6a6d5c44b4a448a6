//! What the database does by itself beside the service.

use eventstore::connect;
use sqlx::PgPool;
use tests::World;

/// Tables of which a delivery or a response makes rows, and that of the keyring.
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

/// For one to three seconds each, while no dead row of any table could go, and events waited for up to two. The column with
/// the largest sample counts, so one that is added has to have a small one, too.
#[tokio::test]
async fn analyze_of_tables_that_had_grown_read_30_000_pages() {
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
