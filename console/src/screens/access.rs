//! Access to a firm at a moment: members, keys, tokens, users of the provider, and operators at
//! terminals.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::SharedState;
use crate::frame::PageContent;
use crate::parts::{self, ListFilter};
use crate::visit::{FirmVisit, PageAnswer};

/// Access at a moment.
#[derive(Debug, Deserialize)]
struct FirmAccess {
    at: Timestamp,
    members: Vec<MemberAccess>,
    keys: Vec<KeyAccess>,
    tokens: Vec<Value>,
    users: Vec<UserAccess>,
    operators: Vec<OperatorAccess>,
}

/// A member at the moment.
#[derive(Debug, Deserialize)]
struct MemberAccess {
    id: Uuid,
    role: Option<String>,
    active: bool,
    manages: bool,
    since: Timestamp,
}

/// A key at the moment.
#[derive(Debug, Deserialize)]
struct KeyAccess {
    id: Uuid,
    name: String,
    prefix: String,
    member_id: Uuid,
    created_at: Timestamp,
    revoked_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

/// A user of the provider with an open session.
#[derive(Debug, Deserialize)]
struct UserAccess {
    user_id: Uuid,
    name: String,
    role: String,
    signed_in_at: Timestamp,
    ends_at: Timestamp,
}

/// An operator who had given commands at a terminal.
#[derive(Debug, Deserialize)]
struct OperatorAccess {
    name: String,
    first_at: Timestamp,
    last_at: Timestamp,
    entries: i64,
}

/// Shows the access.
pub(crate) async fn show(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    visit.show_answer(&state, "/access", |found: &FirmAccess| access_content(&visit, found)).await
}

fn access_content(at: &FirmVisit, found: &FirmAccess) -> PageContent {
    let content = html! {
        (parts::filter_form(&at.visit, &[ListFilter::Text("as_of", "2026-03-14")]))
        p { "At " (parts::time(found.at, at.visit.now)) "." }
        (parts::section("members", "Members", &member_table(at, &found.members)))
        (parts::section("keys", "Keys", &key_table(at, &found.keys)))
        (parts::section("tokens", "Tokens", &token_table(at, &found.tokens)))
        @if !found.users.is_empty() {
            (parts::section("users", "Users of the provider", &user_table(at, &found.users)))
        }
        (parts::section("operators", "Operators at terminals", &operator_table(at, &found.operators)))
    };
    PageContent::new("Access", content).with_data()
}

fn member_table(at: &FirmVisit, members: &[MemberAccess]) -> Markup {
    let rows = html! {
        @for member in members {
            tr {
                td { (parts::id_link(&at.firm_page(&format!("/audit?actor={}", member.id)), &member.id)) }
                td { (member.role.as_deref().unwrap_or("left")) }
                td { (parts::state(if member.active { "active" } else { "inactive" })) }
                td { (if member.manages { "yes" } else { "no" }) }
                td { (parts::time(member.since, at.visit.now)) }
            }
        }
    };
    parts::table("Members", &["Member", "Role", "State", "Manages", "Since"], &rows)
}

fn key_table(at: &FirmVisit, keys: &[KeyAccess]) -> Markup {
    let rows = html! {
        @for key in keys {
            tr {
                td { (parts::id_link(&at.firm_page(&format!("/keys/{}", key.id)), &key.id)) }
                td { (parts::foreign_text(&key.name)) " " code { (key.prefix) } }
                td { (parts::plain_id(&key.member_id)) }
                td { (parts::time(key.created_at, at.visit.now)) }
                td { (parts::time_or_none(key.last_used_at, at.visit.now)) }
                td { (parts::time_or_none(key.revoked_at, at.visit.now)) }
            }
        }
    };
    parts::table("Keys", &["Key", "Name", "Member", "Made", "Last call", "Revoked"], &rows)
}

fn token_table(at: &FirmVisit, tokens: &[Value]) -> Markup {
    let text = |token: &Value, name: &str| token[name].as_str().unwrap_or("none").to_owned();
    let moment = |token: &Value, name: &str| {
        let at_time: Option<Timestamp> = token[name].as_str().and_then(|text| text.parse().ok());
        parts::time_or_none(at_time, at.visit.now)
    };
    let rows = html! {
        @for token in tokens {
            tr {
                td { (parts::plain_id(&text(token, "id"))) }
                td { (parts::foreign_text(&text(token, "name"))) }
                td { (text(token, "role")) }
                td { (moment(token, "created_at")) }
                td { (moment(token, "last_used_at")) }
                td { (moment(token, "expires_at")) }
            }
        }
    };
    parts::table("Tokens", &["Token", "Name", "Role", "Made", "Last use", "Expires"], &rows)
}

fn user_table(at: &FirmVisit, users: &[UserAccess]) -> Markup {
    let rows = html! {
        @for user in users {
            tr {
                td { (parts::id_link(&at.firm_page(&format!("/audit?actor={}", user.user_id)), &user.user_id)) }
                td { (parts::foreign_text(&user.name)) }
                td { (user.role) }
                td { (parts::time(user.signed_in_at, at.visit.now)) }
                td { (parts::time(user.ends_at, at.visit.now)) }
            }
        }
    };
    parts::table("Users", &["User", "Name", "Role", "Signed in", "Until"], &rows)
}

fn operator_table(at: &FirmVisit, operators: &[OperatorAccess]) -> Markup {
    let rows = html! {
        @for one in operators {
            tr {
                td { (parts::foreign_text(&one.name)) }
                td { (one.entries) }
                td { (parts::time(one.first_at, at.visit.now)) }
                td { (parts::time(one.last_at, at.visit.now)) }
            }
        }
    };
    parts::table("Operators", &["Operator", "Entries", "First", "Last"], &rows)
}
