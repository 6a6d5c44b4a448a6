//! `stats`: sizes of the tables, their growth a day and a forecast.

use api::queries::stats;
use serde_json::{Value, json};
use service::StorageSettings;

use super::{list_field, text_field};
use crate::databases;
use crate::failure::terminal_error;
use crate::output::{Column, ListTable, OutputArgs, ReportArgs, print_json, print_note};

const SIZES: ListTable = ListTable::new(
    &[
        Column::text("database"),
        Column::id("table"),
        Column::number("rows"),
        Column::bytes("size"),
        Column::bytes("growth_a_day"),
        Column::bytes("in_30_days"),
        Column::bytes("in_365_days"),
    ],
    "no tables",
);

/// The row that sums a database up.
const ALL_TABLES: &str = "(all)";

pub(crate) async fn run(storage: &StorageSettings, how: ReportArgs) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let found = json!(stats::show(&system.service).await.map_err(terminal_error)?);
    if how.json {
        print_json(&found);
    } else {
        SIZES.print(OutputArgs::from(how), size_rows(&found));
        if found["main"]["growth"].is_null() {
            print_note("growth is known after a day");
        }
    }
    system.stop().await
}

/// Both databases with their tables.
fn size_rows(found: &Value) -> Vec<Value> {
    let mut rows = Vec::new();
    for name in ["main", "keyring"] {
        let database = &found[name];
        rows.push(table_row(name, ALL_TABLES, database));
        rows.extend(
            list_field(database, "tables")
                .map(|one| table_row(name, text_field(one, "table"), one)),
        );
    }
    rows
}

fn table_row(database: &str, table: &str, sizes: &Value) -> Value {
    let growth = &sizes["growth"];
    json!({
        "database": database, "table": table, "rows": sizes["rows"], "size": sizes["bytes"],
        "growth_a_day": growth["bytes_per_day"], "in_30_days": growth["bytes_in_30_days"],
        "in_365_days": growth["bytes_in_365_days"],
    })
}
