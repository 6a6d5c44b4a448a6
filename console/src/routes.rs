//! The routes of the console.

use std::sync::Arc;

use api::Service;
use api::internal::InnerDoor;
use api::sessions::TokenUse;
use axum::middleware::{from_fn, map_request, map_response};
use axum::routing::{MethodRouter, any_service, get, post};
use axum::{Extension, Router};

use crate::refusal::Refusal;
use crate::{
    ConsoleState, SharedState, acts, assets, cookie, data, document, provider, screens, sign_in,
};

/// The console, for the internal door.
pub fn router(service: Service) -> Router {
    let state = Arc::new(ConsoleState { door: InnerDoor::new(service.clone()), service });
    let pages = Router::new()
        .nest("/console", installation_routes().merge(firm_routes()).merge(command_routes()))
        .fallback(async || Refusal::no_page())
        .method_not_allowed_fallback(async || Refusal::no_page())
        .layer(from_fn(cookie::keep_session))
        .layer(map_response(document::add_headers))
        .with_state(Arc::clone(&state));
    let pages = api::internal::around_pages(pages, &state.service);
    // The end of a path is taken off before the path is looked up.
    let pages = Router::new().fallback_service(pages).layer(map_request(data::take_suffix));
    Router::new()
        .route("/console", any_service(pages.clone()))
        .route("/console/{*page}", any_service(pages))
}

/// Pages about the installation.
fn installation_routes() -> Router<SharedState> {
    Router::new()
        .route("/", get(screens::home::show))
        .route("/sign-in", get(sign_in::ask).post(sign_in::sign_in))
        .route("/sign-in/provider", get(provider::leave))
        .route("/sign-in/return", get(provider::come_back))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/style.css", get(assets::style))
        .route("/console.js", get(assets::script))
        .route("/icon.svg", get(assets::icon))
        .route("/find", get(screens::find::show).post(screens::find::begin))
        .route("/firms", get(screens::firms::list))
        .route("/receivers", get(screens::receivers::list))
        .route("/pauses", get(screens::pauses::list))
        .route("/replays", get(screens::replays::list))
        .route("/replays/{id}", get(screens::replay::show))
        .route("/log", get(screens::log::list))
        .route("/log/{id}", get(screens::event::show))
        .route("/proof", get(screens::proof::show))
        .route("/tokens", get(screens::tokens::list))
        .route("/sizes", get(screens::sizes::show))
}

/// Pages about a firm.
fn firm_routes() -> Router<SharedState> {
    let pages = Router::new()
        .route("/", get(screens::firm::show))
        .route("/deliveries", get(screens::deliveries::list))
        .route("/deliveries/export", get(screens::deliveries::export))
        .route("/deliveries/newer", unnoticed_route(get(screens::deliveries::newer)))
        .route("/deliveries/{id}", get(screens::delivery::show))
        .route("/hooks", get(screens::hooks::list))
        .route("/hooks/{id}", get(screens::hook::show))
        .route("/audit", get(screens::audit::list))
        .route("/audit/export", get(screens::audit::export))
        .route("/audit/{id}", get(screens::entry::show))
        .route("/keys", get(screens::keys::list))
        .route("/keys/{id}", get(screens::key::show))
        .route("/access", get(screens::access::show))
        .route("/person", get(screens::person::ask).post(screens::person::show))
        .route("/replay", get(acts::replay::ask).post(acts::replay::order));
    Router::new().nest("/firms/{firm}", pages)
}

/// A route that a page asks by itself, which is no use of a token.
fn unnoticed_route(route: MethodRouter<SharedState>) -> MethodRouter<SharedState> {
    route.layer(Extension(TokenUse::Unnoted))
}

/// Commands.
fn command_routes() -> Router<SharedState> {
    let firm = Router::new()
        .route("/deliveries/{id}/reveal", post(acts::reveal::of_delivery))
        .route("/deliveries/{id}/reissue", post(acts::deliveries::reissue))
        .route("/hooks/{id}/reveal", post(acts::reveal::of_hook))
        .route("/hooks/{id}/test", post(acts::hooks::send_test))
        .route("/keys/{id}/revoke", post(acts::keys::revoke));
    Router::new()
        .route("/pauses/begin", post(acts::pauses::begin))
        .route("/pauses/{id}/end", post(acts::pauses::end))
        .route("/replays/{id}/change", post(acts::replay::change))
        .nest("/firms/{firm}", firm)
}
