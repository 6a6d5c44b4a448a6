//! Who is reported of: firms with an owner and a form, and subscriptions to every trigger.

use anyhow::ensure;
use api::Service;
use api::commands::keys;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::json;
use tower::ServiceExt;

use super::visits::TRIGGERS;
use crate::activity::Firm;
use crate::taking_in::take_in;

/// Firms that take turns.
const FIRMS: usize = 10;

/// Makes the firms, each with so many subscriptions to each trigger.
pub(super) async fn populate(service: &Service, subscriptions: usize) -> anyhow::Result<Vec<Firm>> {
    let firms: Vec<Firm> = (0..FIRMS).map(|_| Firm::new()).collect();
    for firm in &firms {
        take_in(service, &firm.opening()).await?;
        if subscriptions > 0 {
            subscribe(service, *firm, subscriptions).await?;
        }
    }
    Ok(firms)
}

async fn subscribe(service: &Service, firm: Firm, subscriptions: usize) -> anyhow::Result<()> {
    let key = keys::create(service, firm.id, firm.owner, "Bench")
        .await
        .map_err(|error| anyhow::anyhow!("making a key: {error}"))?;
    let door = api::public::router(service.clone());
    for trigger in TRIGGERS {
        for number in 0..subscriptions {
            let target = format!("http://127.0.0.1:8090/hooks/{trigger}/{number}");
            let hook = json!({"trigger": trigger.key(), "target_url": target});
            let request = Request::post("/api/v1/hooks")
                .header("x-api-key", key.key.as_str())
                .body(Body::from(hook.to_string()))?;
            let answer = door.clone().oneshot(request).await?;
            ensure!(answer.status() == StatusCode::CREATED, "POST /hooks: {}", answer.status());
        }
    }
    Ok(())
}
