//! The content of the database at a moment.

use serde::Serialize;
use sqlx::{FromRow, PgPool};

/// Tables that must not grow: queues, and counters of fixed sets.
const HELD: &str = "
select 'outbox' as name, (select count(*) from outbox) as rows,
       pg_total_relation_size('outbox') as bytes
union all select 'lanes', (select count(*) from lanes), pg_total_relation_size('lanes')
union all select 'key_calls', (select count(*) from key_calls), pg_total_relation_size('key_calls')
union all select 'quotas', (select count(*) from quotas), pg_total_relation_size('quotas')";

/// Sizes that grow with each delivery: tables with their indexes, and with values that are too long
/// for a row.
const GROWING: &str = "
select (select sum(pg_total_relation_size(relid))::bigint from pg_partition_tree('events')) as log_bytes,
       (select coalesce(sum(pg_total_relation_size(relid)), 0)::bigint
          from pg_partition_tree('deliveries')) as history_bytes,
       pg_database_size(current_database()) as database_bytes,
       pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint as wal_bytes";

/// A table that must not grow.
#[derive(Debug, Clone, Serialize, FromRow)]
pub(super) struct Held {
    pub(super) name: String,
    pub(super) rows: i64,
    pub(super) bytes: i64,
}

#[derive(Debug, Clone, Copy, FromRow)]
pub(super) struct Growing {
    log_bytes: i64,
    history_bytes: i64,
    database_bytes: i64,
    wal_bytes: i64,
}

/// The bytes that each delivery left.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Grown {
    pub(super) log_bytes: f64,
    pub(super) history_bytes: f64,
    /// Log, history, and the delivery's part of the vault.
    pub(super) database_bytes: f64,
    pub(super) wal_bytes: f64,
}

/// Both.
pub(super) struct Sample {
    pub(super) held: Vec<Held>,
    growing: Growing,
}

impl Sample {
    pub(super) async fn look(pool: &PgPool) -> Result<Self, sqlx::Error> {
        let held = sqlx::query_as(HELD).fetch_all(pool).await?;
        let growing = sqlx::query_as(GROWING).fetch_one(pool).await?;
        Ok(Self { held, growing })
    }

    pub(super) const fn since(&self, before: &Self) -> Growing {
        let (now, before) = (&self.growing, &before.growing);
        Growing {
            log_bytes: now.log_bytes - before.log_bytes,
            history_bytes: now.history_bytes - before.history_bytes,
            database_bytes: now.database_bytes - before.database_bytes,
            wal_bytes: now.wal_bytes - before.wal_bytes,
        }
    }
}

impl Growing {
    pub(super) fn each(self, deliveries: usize) -> Grown {
        let each = |bytes: i64| bytes as f64 / deliveries.max(1) as f64;
        Grown {
            log_bytes: each(self.log_bytes),
            history_bytes: each(self.history_bytes),
            database_bytes: each(self.database_bytes),
            wal_bytes: each(self.wal_bytes),
        }
    }
}
