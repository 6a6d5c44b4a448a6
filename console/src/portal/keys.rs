//! API keys: listed, created with a single look at the text, and revoked with what goes along.

use api::portal::acts::{self, KeyOutcome};
use api::portal::views::{self, KeyFilter, KeyRow, KeyWithHooks, KeysWithHooks};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use domain::values::Timestamp;
use maud::{Markup, html};
use uuid::Uuid;

use super::paging::page_links;
use super::visit::{PortalAnswer, PortalForm, PortalVisit};
use super::words::Words;
use super::{SharedPortal, hooks, look};
use crate::parts;

/// Lists the keys, with a form for a new one.
pub(super) async fn list(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let which = match visit.query_value("revoked") {
        None => KeyFilter::Active,
        Some("true") => KeyFilter::Revoked,
        Some(_) => return Err(visit.not_accepted("revoked")),
    };
    let after = visit.asked_id("after")?;
    let found =
        visit.or_refusal(views::keys(&state.service, &visit.session, which, after).await)?;
    let KeysWithHooks { page, hooks: of_key } = found;
    let words = visit.words;
    let heads = [
        words.name,
        words.prefix,
        words.member,
        words.state,
        words.created,
        words.last_call,
        words.hooks,
    ];
    let hooks_of = |key: &KeyRow| of_key.get(&key.key_id).copied().unwrap_or_default();
    let rows = html! { @for key in &page.rows { (key_row(&visit, key, hooks_of(key))) } };
    let tab = |revoked: Option<&str>, name: &str| {
        let here = (revoked == visit.query_value("revoked")).then_some("page");
        html! { a href=(visit.link_with("revoked", revoked)) aria-current=[here] { (name) } " " }
    };
    let content = html! {
        p { (tab(None, words.active_keys)) (tab(Some("true"), words.revoked_keys)) }
        (parts::table(words.keys, &heads, &rows))
        @if page.rows.is_empty() { p.none { (words.empty) } }
        (page_links(&visit, page.next.map(|next| next.to_string()).as_deref()))
        (parts::section("new", words.new_key, &html! {
            form.stacked method="post" action="/portal/keys" {
                (look::token_field(&visit))
                (parts::hidden_field("request_id", &visit.request_id))
                label { (words.key_name) " "
                    input name="name" required maxlength="100" autocomplete="off"; }
                button { (words.create_key) }
            }
        }))
    };
    Ok(visit.page(words.keys, content))
}

fn key_row(visit: &PortalVisit, key: &KeyRow, hooks: usize) -> Markup {
    let words = visit.words;
    html! {
        tr {
            td { a href=(format!("/portal/keys/{}", key.key_id)) { (parts::foreign_text(&key.name)) } }
            td { code { (key.prefix) "…" } }
            td { (member_name(visit, key.member_id)) }
            td { (state_of(words, key)) }
            td { (parts::plain_time(key.created_at.into())) }
            td { @if let Some(at) = key.last_used_at { (parts::plain_time(at.into())) }
                @else { span.none { (words.none) } } }
            td { (hooks) }
        }
    }
}

fn member_name(visit: &PortalVisit, member_id: Uuid) -> Markup {
    let is_you = member_id == visit.session.member_id();
    html! { @if is_you { (visit.words.you) } @else { (parts::plain_id(&member_id)) } }
}

fn state_of(words: &Words, key: &KeyRow) -> Markup {
    let state = if key.revoked_at.is_some() { "revoked" } else { "active" };
    parts::state_named(state, words.state_of(state))
}

/// Creates a key of the member, and shows its text this once. The same form sent again makes no
/// second key.
pub(super) async fn create(State(state): State<SharedPortal>, form: PortalForm) -> PortalAnswer {
    let PortalForm { visit, .. } = &form;
    let name = form.required_text("name")?;
    let request_id = form.request_id()?;
    let made = acts::create_key(&state.service, &visit.session, request_id, name).await;
    let KeyOutcome::Made(made) = visit.or_refusal(made)? else {
        return Err(visit.refusal_page(StatusCode::CONFLICT, visit.words.key_made));
    };
    let words = visit.words;
    let content = html! {
        p.done role="status" { (words.copy_key) }
        p { (words.name) ": " (parts::foreign_text(&made.name)) }
        pre.shown tabindex="0" { (made.key.as_str()) }
        p { a href="/portal/keys" { (words.keys) } }
    };
    Ok(visit.page(words.new_key, content))
}

/// Shows a key and the subscriptions that go with it.
pub(super) async fn show(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let found =
        visit.or_refusal(views::key(&state.service, &visit.session, visit.path_id()?).await)?;
    let key = &found.key;
    let words = visit.words;
    let time = |at: Timestamp| parts::plain_time(at);
    let content = html! {
        (parts::fact_list(&[
            (words.name, parts::foreign_text(&key.name)),
            (words.prefix, html! { code { (key.prefix) "…" } }),
            (words.member, member_name(&visit, key.member_id)),
            (words.state, state_of(words, key)),
            (words.created, time(key.created_at.into())),
            (words.last_call, html! {
                @if let Some(at) = key.last_used_at { (time(at.into())) } @else { (words.none) }
            }),
        ]))
        @if key.revoked_at.is_none() { (revocation_form(&visit, &found)) }
    };
    Ok(visit.page(words.key, content))
}

fn revocation_form(visit: &PortalVisit, found: &KeyWithHooks) -> Markup {
    let words = visit.words;
    let content = html! {
        @if found.hooks.is_empty() { p { (words.nothing_goes) } } @else {
            p { (words.goes_along) }
            (hooks::short_list(words, &found.hooks))
        }
        form.stacked method="post" action=(format!("{}/revoke", visit.path)) {
            (look::token_field(visit))
            label { (words.write_prefix) " " code { (found.key.prefix) } " "
                input name="prefix" required autocomplete="off" spellcheck="false"; }
            button { (words.revoke) }
        }
    };
    parts::section("revoke", words.revoke, &content)
}

/// Revokes a key whose start the member has repeated.
pub(super) async fn revoke(State(state): State<SharedPortal>, form: PortalForm) -> PortalAnswer {
    let PortalForm { visit, .. } = &form;
    let id = visit.path_id()?;
    let found = visit.or_refusal(views::key(&state.service, &visit.session, id).await)?;
    if form.required_text("prefix")? != found.key.prefix {
        return Err(visit.refusal_page(StatusCode::BAD_REQUEST, visit.words.wrong_prefix));
    }
    visit.or_refusal(acts::revoke_key(&state.service, &visit.session, id).await)?;
    Ok(form.redirect_done("/portal/keys", "revoked").into_response())
}
