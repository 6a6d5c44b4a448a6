//! The portal: pages of the public door under `/portal` for a firm's owners and admins (ruling 48).
//!
//! A page asks `api::portal`, which takes the session and so knows the firm and the member. The
//! pages are in the firm's colour, in three languages, and run no script at all.
//!
//! - `entrance` turns a link into a session; `visit` is a call with a session.
//! - `look` is the frame of all pages with their headers, and `words` their words.
//! - The other files are the pages with their commands.

mod audit;
mod deliveries;
mod entrance;
mod home;
mod hooks;
mod keys;
mod look;
mod paging;
mod refusal;
mod secret;
mod state;
mod steps;
mod visit;
mod words;

use std::sync::Arc;

use api::Service;
use axum::Router;
use axum::middleware::map_response;
use axum::routing::{any_service, get, post};

use self::state::{PortalState, SharedPortal};
use crate::assets;

/// The portal, for the public door. There is none if the base URL has a path before `/api/v1`.
pub fn portal(service: Service) -> Router {
    if !api::portal::links::is_served(&service) {
        return Router::new();
    }
    let state = Arc::new(PortalState { service });
    let pages = Router::new()
        .nest("/portal", page_routes())
        .route("/portal/", get(entrance::without_slash))
        .fallback(entrance::no_page)
        .method_not_allowed_fallback(entrance::wrong_method)
        .layer(map_response(look::add_headers))
        .with_state(Arc::clone(&state));
    let pages = api::public::around_pages(pages, &state.service);
    Router::new()
        .route("/portal", any_service(pages.clone()))
        .route("/portal/", any_service(pages.clone()))
        .route("/portal/{*page}", any_service(pages))
}

fn page_routes() -> Router<SharedPortal> {
    Router::new()
        .route("/", get(home::show))
        .route("/enter", get(entrance::enter))
        .route("/leave", post(entrance::leave))
        .route("/lang", post(entrance::set_lang))
        .route("/style.css", get(look::style))
        .route("/icon.svg", get(assets::icon))
        .route("/brand/{color}", get(look::brand_style))
        .route("/keys", get(keys::list).post(keys::create))
        .route("/keys/{id}", get(keys::show))
        .route("/keys/{id}/revoke", post(keys::revoke))
        .route("/secret", get(secret::show))
        .route("/secret/reveal", post(secret::reveal))
        .route("/secret/rotate", post(secret::rotate))
        .route("/hooks", get(hooks::list))
        .route("/hooks/{id}", get(hooks::show))
        .route("/hooks/{id}/test", post(hooks::send_test))
        .route("/hooks/{id}/target", post(hooks::reveal))
        .route("/deliveries", get(deliveries::list))
        .route("/deliveries/{id}", get(deliveries::show))
        .route("/deliveries/{id}/replay", post(deliveries::replay))
        .route("/steps", get(steps::list))
        .route("/runs/{id}", get(steps::run))
        .route("/runs/{id}/retry", post(steps::retry))
        .route("/audit", get(audit::list))
}
