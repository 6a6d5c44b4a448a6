//! Calls of the internal door by holders of tokens, such as operators and auditors.

use api::commands::tokens::{self, HolderRole};
use axum::body::Body;
use axum::http::Request;
use serde_json::Value;

use crate::answer::Answer;
use crate::world::World;

impl World {
    /// Makes a token of this role, with the role's name.
    pub async fn new_token(&self, role: HolderRole) -> String {
        tokens::create(self.service(), role.name(), role).await.unwrap().token
    }

    /// Calls the internal door with a token, below `/internal/v1`; `null` sends no body.
    pub async fn call_internally(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Value,
    ) -> Answer {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(format!("/internal/v1{path}"))
            .header("authorization", format!("Bearer {token}"))
            .body(body)
            .unwrap();
        self.internal(request).await
    }

    /// Reads from the internal door with a token, below `/internal/v1`.
    pub async fn get_internally(&self, token: &str, path: &str) -> Answer {
        self.call_internally(token, "GET", path, Value::Null).await
    }

    /// Asks the process whether it is ready.
    pub async fn ask_readiness(&self) -> Answer {
        self.internal(Request::get("/readyz").body(Body::empty()).unwrap()).await
    }
}
