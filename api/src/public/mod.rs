//! The public API: the contract under `/api/v1`, its description, and the unsubscribe pages. The
//! crate `console` has the pages of the portal, which the same door serves.
//!
//! A handler takes a `Caller`, also on unknown routes, so every call is admitted before it is
//! answered. Without a `Caller` a handler does not know a firm to answer about (ruling 1).

pub(crate) mod caller;
mod client;
mod credentials;
mod forms;
mod hidden;
mod hooks;
mod idempotency;
mod key_rate;
pub(crate) mod layers;
mod links;
mod me;
mod path;
mod sample;
mod send;
mod similar_route;
mod triggers;
mod unsubscribe;
pub(crate) mod wrong_keys;

use std::sync::Arc;

use axum::Router;
use axum::http::Uri;
use axum::routing::{MethodRouter, delete, get, post};

pub use crate::batching::key_batcher::KeyBatchers;
pub(crate) use caller::{Caller, ReadingCaller};
pub(crate) use client::client_behind_proxies;
pub use client::{PeerAddress, client_address};
pub use wrong_keys::WrongKeys;

use self::similar_route::similar_route;
use crate::Service;
use crate::docs::ServedDocs;
use crate::error::Error;

/// The routes of the public API.
pub fn router(service: Service) -> Router {
    let ids = service.request_ids();
    let contract = contract_routes().into_iter().fold(Router::new(), |routes, (path, methods)| {
        routes.route(&format!("{}{path}", similar_route::PREFIX), methods)
    });
    let door = contract
        .merge(
            ServedDocs::for_service(&service.settings.base_url, &service.settings.egress).routes(),
        )
        .route("/unsubscribe/{link}", get(unsubscribe::show).post(unsubscribe::act))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::new(service));
    layers::around_public(door, ids)
}

/// Puts the layers of the public API around pages that the public door serves.
pub fn around_pages(pages: Router, service: &Service) -> Router {
    layers::around_public(pages, service.request_ids())
}

/// The contract's routes that need a key. A test compares them with the description.
pub(crate) fn contract_routes() -> [(&'static str, MethodRouter<Arc<Service>>); 9] {
    [
        ("/me", get(me::show)),
        ("/triggers", get(triggers::list)),
        ("/triggers/{trigger}/sample", get(sample::show)),
        ("/forms", get(forms::list)),
        ("/forms/{id}", get(forms::show)),
        ("/forms/{id}/links", post(links::create)),
        ("/forms/{id}/send", post(send::create)),
        ("/hooks", get(hooks::list).post(hooks::create)),
        ("/hooks/{id}", delete(hooks::delete)),
    ]
}

async fn unknown_route(_: Caller, uri: Uri) -> Error {
    let contract = contract_routes();
    let routes = contract.iter().map(|(path, _)| *path);
    similar_route(uri.path(), routes).map_or(Error::NotFound, Error::DidYouMean)
}

async fn wrong_method(_: Caller) -> Error {
    Error::MethodNotAllowed
}

#[cfg(test)]
mod tests;
