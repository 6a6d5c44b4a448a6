//! Sizes of the tables, their growth a day and a forecast.

use std::collections::HashMap;

use chrono::TimeDelta;
use projector::table_sizes::{self, PastTableSize};
use serde::Serialize;

use super::growth::{GROWTH_DAYS_MAX, TableGrowth, TableSize};
use crate::error::Error;
use crate::service::Service;

/// Sizes of both databases.
#[derive(Debug, Serialize)]
pub struct Stats {
    /// The main database.
    main: DatabaseStats,
    /// The keyring. Nobody notes its past sizes, because it grows with the responses.
    keyring: DatabaseStats,
}

/// Sizes of a database.
#[derive(Debug, Serialize)]
struct DatabaseStats {
    #[serde(flatten)]
    size: TableSize,
    /// The growth of all tables. `None` before the second day.
    growth: Option<TableGrowth>,
    /// The tables, largest first.
    tables: Vec<TableStats>,
}

/// Size and growth of a table.
#[derive(Debug, Serialize)]
struct TableStats {
    table: String,
    #[serde(flatten)]
    size: TableSize,
    /// `None` for a table of which no earlier day is known.
    growth: Option<TableGrowth>,
}

/// Shows the sizes. Growth is measured over the last 30 days, or as many as are known.
///
/// # Errors
/// None but the databases'.
pub async fn show(service: &Service) -> Result<Stats, Error> {
    let pool = service.store.pool();
    let today = service.clock.now().get().date_naive();
    let since = today - TimeDelta::days(GROWTH_DAYS_MAX);
    let past = table_sizes::oldest_since(pool, since).await?;
    let past: HashMap<String, PastTableSize> =
        past.into_iter().map(|past| (past.table_name.clone(), past)).collect();
    let growth = |table: &str, size: TableSize| {
        let past = past.get(table)?;
        let then = TableSize { rows: past.rows, bytes: past.bytes };
        size.growth_since(then, (today - past.day).num_days())
    };
    let main = table_sizes::counted_sizes(&mut *pool.acquire().await?).await?;
    let keyring = table_sizes::counted_sizes(&mut *service.keyring.pool().acquire().await?).await?;
    Ok(Stats {
        main: DatabaseStats::new(main, growth),
        keyring: DatabaseStats::new(keyring, |_, _| None),
    })
}

impl DatabaseStats {
    fn new(
        rows: Vec<table_sizes::TableSizeRow>,
        growth: impl Fn(&str, TableSize) -> Option<TableGrowth>,
    ) -> Self {
        let stats = |row: table_sizes::TableSizeRow| {
            let size = TableSize { rows: row.rows, bytes: row.bytes };
            TableStats { growth: growth(&row.table_name, size), table: row.table_name, size }
        };
        let tables: Vec<TableStats> = rows.into_iter().map(stats).collect();
        let size = tables.iter().fold(TableSize::default(), |sum, one| sum.combined_with(one.size));
        Self { size, growth: total_growth(&tables), tables }
    }
}

/// The growth of all tables whose growth is known.
fn total_growth(tables: &[TableStats]) -> Option<TableGrowth> {
    tables.iter().filter_map(|one| one.growth).reduce(TableGrowth::combined_with)
}
