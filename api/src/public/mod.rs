//! The public door: the contract under `/api/v1`, and nothing else.
//!
//! Who calls is asked before anything is told: every handler, also of routes that do not exist,
//! takes a `Caller`, and one that does not cannot see the firm it would answer about (ruling 1).

mod caller;
mod credentials;
mod forms;
mod hooks;
pub(crate) mod layers;
mod me;
mod path;
mod triggers;

use axum::Router;
use axum::routing::{delete, get};

pub(crate) use caller::Caller;

use crate::Service;
use crate::error::Error;

/// The routes of the public door.
pub fn router(service: Service) -> Router {
    let contract = Router::new()
        .route("/me", get(me::show))
        .route("/triggers", get(triggers::list))
        .route("/forms", get(forms::list))
        .route("/forms/{id}", get(forms::show))
        .route("/hooks", get(hooks::list).post(hooks::create))
        .route("/hooks/{id}", delete(hooks::delete));
    let door = Router::new()
        .nest("/api/v1", contract)
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
