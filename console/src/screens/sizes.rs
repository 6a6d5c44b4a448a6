//! Sizes of the tables, and their growth.

use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;

use crate::SharedState;
use crate::frame::PageContent;
use crate::parts;
use crate::visit::{PageAnswer, PageVisit};

/// Sizes of both databases.
#[derive(Debug, Deserialize)]
struct AllSizes {
    main: DatabaseSize,
    keyring: DatabaseSize,
}

/// Sizes of a database.
#[derive(Debug, Deserialize)]
struct DatabaseSize {
    bytes: i64,
    growth: Option<DailyGrowth>,
    tables: Vec<TableSize>,
}

/// Size of a table.
#[derive(Debug, Deserialize)]
struct TableSize {
    table: String,
    rows: i64,
    bytes: i64,
    growth: Option<DailyGrowth>,
}

/// Growth a day.
#[derive(Debug, Deserialize)]
struct DailyGrowth {
    rows_per_day: i64,
    bytes_per_day: i64,
    bytes_in_30_days: i64,
}

/// Shows the sizes.
pub(crate) async fn show(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let api = visit.api("/stats");
    visit.shown(&state, &api, content).await
}

fn content(found: &AllSizes) -> PageContent {
    let content = html! {
        (parts::section("main", "Main database", &database("Tables of the main database", &found.main)))
        (parts::section("keyring", "Keyring", &database("Tables of the keyring", &found.keyring)))
    };
    PageContent::new("Sizes", content).with_data()
}

fn database(caption: &str, found: &DatabaseSize) -> Markup {
    let rows = html! {
        @for table in &found.tables {
            tr {
                td { code { (table.table) } }
                td { (table.rows) }
                td { (parts::bytes(table.bytes)) }
                @match &table.growth {
                    Some(growth) => {
                        td { (growth.rows_per_day) }
                        td { (parts::bytes(growth.bytes_per_day)) }
                    },
                    None => { td { (parts::none()) } td { (parts::none()) } },
                }
            }
        }
    };
    html! {
        p { (parts::bytes(found.bytes))
            @if let Some(growth) = &found.growth {
                ", in 30 days " (parts::bytes(growth.bytes_in_30_days))
            } "." }
        (parts::table(caption, &["Table", "Rows", "Size", "Rows a day", "Size a day"], &rows))
    }
}
