//! `access`: members, keys, tokens, users and operators of a firm on a day.

use api::commands::readings;
use api::queries::access;
use clap::Args;
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use explain::moment::AskedAccess;
use serde_json::{Value, json};
use service::StorageSettings;

use super::{list_field, text_field};
use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable, OutputArgs, print_json, print_note};

const ACCESS: ListTable = ListTable::new(
    &[
        Column::text("kind"),
        Column::id("id"),
        Column::state("state"),
        Column::text("name"),
        Column::text("rights"),
        Column::time("since"),
        Column::age("last_used_at"),
    ],
    "nobody had access then",
);

/// The arguments of `access`.
#[derive(Debug, Args)]
pub(crate) struct AccessArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    firm: String,
    /// The end of this day in UTC (2026-03-14, yesterday), an instant (2026-03-14T12:00:00Z) or a
    /// distance (2h), by what was recorded by then; by default now.
    #[arg(long, value_name = "DAY")]
    as_of: Option<AskedAccess>,
    #[command(flatten)]
    json: OutputArgs,
}

pub(crate) async fn run(storage: &StorageSettings, asked: AccessArgs) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let service = &system.service;
    let firm_id = names::find_id(system.main_pool(), NamedKind::Firm, &asked.firm).await?;
    let now = service.clock.now();
    let moment = asked.as_of.map(|as_of| as_of.moment(now));
    let found = access::of_firm(service, None, firm_id, moment).await;
    let found = serde_json::to_value(found.map_err(terminal_error)?)?;
    let look = ReadingDetails::at(ReadingSubject::Access, ReadAs::Page);
    readings::record(service, firm_id, service.operator(), look).await.map_err(terminal_error)?;
    if asked.json.json {
        print_json(&found);
    } else {
        if asked.json.is_text() {
            print_note(&format!("{} at {}", text_field(&found, "firm"), text_field(&found, "at")));
        }
        ACCESS.print(asked.json, access_rows(&found));
    }
    system.stop().await
}

/// One row for each holder of rights.
fn access_rows(found: &Value) -> Vec<Value> {
    let members = list_field(found, "members").map(member_row);
    let keys = list_field(found, "keys").map(key_row);
    let tokens = list_field(found, "tokens").map(token_row);
    let users = list_field(found, "users").map(user_row);
    let operators = list_field(found, "operators").map(operator_row);
    members.chain(keys).chain(tokens).chain(users).chain(operators).collect()
}

fn member_row(one: &Value) -> Value {
    let state = match (one["active"].as_bool(), one["role"].is_null()) {
        (Some(true), _) => "active",
        (_, true) => "left",
        (_, false) => "disabled",
    };
    let manages = if one["manages"] == true { ", makes keys" } else { "" };
    json!({
        "kind": "member", "id": one["id"], "state": state, "since": one["since"],
        "rights": format!("{}{manages}", text_field(one, "role")),
    })
}

fn key_row(one: &Value) -> Value {
    json!({
        "kind": "key", "id": one["id"], "since": one["created_at"],
        "name": format!("{} ({}…)", text_field(one, "name"), text_field(one, "prefix")),
        "state": if one["revoked_at"].is_null() { "active" } else { "revoked" },
        "rights": format!("acts for member {}", text_field(one, "member_id")),
        "last_used_at": one["last_used_at"],
    })
}

fn token_row(one: &Value) -> Value {
    json!({
        "kind": "token", "id": one["id"], "name": one["name"], "state": "active",
        "rights": role_and_firms(one), "since": one["created_at"], "last_used_at": one["last_used_at"],
    })
}

fn user_row(one: &Value) -> Value {
    json!({
        "kind": "user", "id": one["user_id"], "name": one["name"], "state": "signed in",
        "rights": role_and_firms(one), "since": one["signed_in_at"],
    })
}

/// The role and the firms of a token or a user.
fn role_and_firms(one: &Value) -> String {
    let reach = match &one["firm_ids"] {
        Value::Array(firms) if firms.len() == 1 => "for this firm alone".to_owned(),
        Value::Array(firms) => format!("for {} firms", firms.len()),
        _ => "for all firms".to_owned(),
    };
    format!("{} {reach}", text_field(one, "role"))
}

fn operator_row(one: &Value) -> Value {
    let terminal = &one["terminal"];
    let place = ["user", "host", "login"].map(|part| text_field(terminal, part));
    let [user, host, login] = place;
    json!({
        "kind": "operator", "id": one["name"], "state": "seen", "since": one["first_at"],
        "rights": format!("at a terminal: {user} on {host}, {login} at the database"),
        "last_used_at": one["last_at"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_holder_of_rights_is_a_row() {
        let found = json!({
            "members": [
                {"id": "m1", "role": "owner", "active": true, "manages": true, "since": "t"},
                {"id": "m2", "role": null, "active": false, "manages": false, "since": "t"},
                {"id": "m3", "role": "admin", "active": false, "manages": false, "since": "t"},
            ],
            "keys": [{"id": "k", "name": "Zapier", "prefix": "ffk_a", "member_id": "m1",
                      "created_at": "t", "revoked_at": "u", "last_used_at": null}],
            "tokens": [{"id": "t", "name": "back end", "role": "product", "firm_ids": ["f"],
                        "created_at": "t", "last_used_at": "u"}],
            "users": [{"user_id": "u", "name": "Eve", "role": "auditor", "firm_ids": null,
                       "signed_in_at": "t"}],
            "operators": [{"name": "ann", "first_at": "t", "last_at": "u",
                           "terminal": {"host": "h", "login": "l", "user": "u"}}],
        });
        let rows = access_rows(&found);
        let of = |field: &str| rows.iter().map(|row| text_field(row, field)).collect::<Vec<_>>();
        assert_eq!(of("id"), ["m1", "m2", "m3", "k", "t", "u", "ann"]);
        let states = ["active", "left", "disabled", "revoked", "active", "signed in", "seen"];
        assert_eq!(of("state"), states);
        assert_eq!(of("rights")[0], "owner, makes keys");
        assert_eq!(of("rights")[4], "product for this firm alone");
        assert_eq!(of("rights")[5], "auditor for all firms");
        assert_eq!(of("name")[3], "Zapier (ffk_a…)");
    }
}
