//! The public door: the contract under `/api/v1`, and beside it the pages for people.
//!
//! Who calls is asked before anything is told: every handler, also of routes that do not exist,
//! takes a `Caller`, and one that does not cannot see the firm it would answer about (ruling 1).

mod caller;
mod client;
mod credentials;
mod forms;
mod hidden;
mod hooks;
pub(crate) mod layers;
mod links;
mod me;
mod path;
mod sample;
mod send;
mod triggers;
mod unsubscribe;
mod wrong_keys;

use axum::Router;
use axum::routing::{delete, get, post};

pub(crate) use caller::Caller;
pub use client::Peer;
pub use wrong_keys::WrongKeys;

use crate::Service;
use crate::error::Error;

/// The routes of the public door.
pub fn router(service: Service) -> Router {
    let contract = Router::new()
        .route("/me", get(me::show))
        .route("/triggers", get(triggers::list))
        .route("/triggers/{trigger}/sample", get(sample::show))
        .route("/forms", get(forms::list))
        .route("/forms/{id}", get(forms::show))
        .route("/forms/{id}/links", post(links::create))
        .route("/forms/{id}/send", post(send::create))
        .route("/hooks", get(hooks::list).post(hooks::create))
        .route("/hooks/{id}", delete(hooks::delete));
    let door = Router::new()
        .nest("/api/v1", contract)
        .route("/unsubscribe/{link}", get(unsubscribe::show).post(unsubscribe::act))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(service);
    layers::around(door)
}

async fn unknown_route(_: Caller) -> Error {
    Error::NotFound
}

async fn wrong_method(_: Caller) -> Error {
    Error::MethodNotAllowed
}

#[cfg(test)]
mod tests;
