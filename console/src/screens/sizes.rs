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
    let api = visit.api_path("/stats");
    visit.show_answer(&state, &api, sizes_content).await
}

fn sizes_content(found: &AllSizes) -> PageContent {
    let content = html! {
        (parts::section("main", "Main database", &database_table("Tables of the main database", &found.main)))
        (parts::section("keyring", "Keyring", &database_table("Tables of the keyring", &found.keyring)))
    };
    PageContent::new("Sizes", content).with_data()
}

fn database_table(caption: &str, found: &DatabaseSize) -> Markup {
    let rows = html! {
        @for table in &found.tables {
            tr {
                td { code { (table.table) } }
                td { (table.rows) }
                td { (parts::bytes_text(table.bytes)) }
                @match &table.growth {
                    Some(growth) => {
                        td { (growth.rows_per_day) }
                        td { (parts::bytes_text(growth.bytes_per_day)) }
                    },
                    None => { td { (parts::no_value()) } td { (parts::no_value()) } },
                }
            }
        }
    };
    html! {
        p { (parts::bytes_text(found.bytes))
            @if let Some(growth) = &found.growth {
                ", in 30 days " (parts::bytes_text(growth.bytes_in_30_days))
            } "." }
        (parts::table(caption, &["Table", "Rows", "Size", "Rows a day", "Size a day"], &rows))
    }
}
