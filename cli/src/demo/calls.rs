//! Calls of the demo by HTTP, as an integrator and the product make them.

use anyhow::bail;
use deliverer::outgoing::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use deliverer::outgoing::{Method, OutgoingRequest};
use domain::delivery::AttemptAnswer;
use domain::subscription::Trigger;
use serde_json::{Value, json};
use service::System;
use uuid::Uuid;

/// A firm of the demo: its key and its signing secret.
#[derive(Debug, Clone)]
pub(super) struct DemoSubscriber {
    pub(super) firm_id: Uuid,
    pub(super) name: String,
    pub(super) key: String,
    pub(super) secret: String,
}

/// Subscribes a target; returns the answer.
pub(super) async fn subscribe_at(
    system: &System,
    subscriber: &DemoSubscriber,
    trigger: Trigger,
    target: &str,
) -> anyhow::Result<Value> {
    let call = DemoCall {
        url: format!("{}/hooks", system.service.settings.base_url),
        credential: ("x-api-key", subscriber.key.clone()),
        body: json!({"trigger": trigger.key(), "target_url": target}),
        status: 201,
    };
    call.post_to(system).await
}

/// A call of the demo by HTTP, and the status that it must get.
pub(super) struct DemoCall {
    pub(super) url: String,
    pub(super) credential: (&'static str, String),
    pub(super) body: Value,
    pub(super) status: u16,
}

impl DemoCall {
    /// Posts it; returns the answer.
    pub(super) async fn post_to(self, system: &System) -> anyhow::Result<Value> {
        let Self { url, credential: (name, value), body, status } = self;
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (HeaderName::from_static(name), HeaderValue::try_from(value)?),
        ]);
        let request = OutgoingRequest {
            target: url.clone(),
            method: Method::POST,
            headers,
            body: body.to_string().into(),
            connect_by: None,
        };
        let exchange = system.deliverer.outgoing.send(request).await;
        if exchange.answer != AttemptAnswer::Status(status) {
            bail!("POST {url}: {}", exchange.answer);
        }
        Ok(serde_json::from_slice(&exchange.snippet)?)
    }
}
