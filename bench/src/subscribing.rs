//! How a run gets tokens, keys and subscriptions: by the commands that make tokens and keys, and by
//! `POST /hooks`.

use ::service::System;
use anyhow::ensure;
use api::Service;
use api::commands::keys;
use api::commands::tokens::{self, HolderRole as TokenRole};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use domain::subscription::Trigger;
use serde_json::json;
use tower::ServiceExt;

use crate::activity::Firm;

/// Makes a key for the firm's owner.
pub(crate) async fn make_key(service: &Service, firm: Firm, name: &str) -> anyhow::Result<String> {
    let made = keys::create(service, firm.id, firm.owner, name).await;
    let made = made.map_err(|error| anyhow::anyhow!("making a key: {error}"))?;
    Ok(made.key.as_str().to_owned())
}

/// Makes a token of the product.
pub(crate) async fn make_token(system: &System) -> anyhow::Result<String> {
    let created = tokens::create(&system.service, "Bench", TokenRole::Product).await;
    Ok(created.map_err(|error| anyhow::anyhow!("making a token: {error}"))?.token)
}

/// Subscribes a target.
pub(crate) async fn subscribe(
    door: &Router,
    key: &str,
    (trigger, target): (Trigger, String),
) -> anyhow::Result<()> {
    let hook = json!({"trigger": trigger.key(), "target_url": target});
    let request = Request::post("/api/v1/hooks")
        .header("x-api-key", key)
        .body(Body::from(hook.to_string()))?;
    let answer = door.clone().oneshot(request).await?;
    ensure!(answer.status() == StatusCode::CREATED, "POST /hooks: {}", answer.status());
    Ok(())
}
