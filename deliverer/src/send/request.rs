//! The request of an attempt: the contract's headers, the signature and the POST.

use domain::answer::AttemptAnswer;
use domain::signature::{WebhookSecret, sign};
use domain::time::Timestamp;
use domain::workflow::StepMethod;
use eventstore::crash;

use crate::attempt::{CONNECT_WITHIN, ClaimedAttempt, DeliveryOrigin, FrozenBody};
use crate::outgoing::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use crate::outgoing::{Method, OutgoingExchange, OutgoingRequest};
use crate::settings::DelivererContext;

const EVENT: HeaderName = HeaderName::from_static("x-service-event");
const DELIVERY: HeaderName = HeaderName::from_static("x-service-delivery");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const HOOK: HeaderName = HeaderName::from_static("x-service-hook");
const TEST: HeaderName = HeaderName::from_static("x-service-test");
const SIGNATURE: HeaderName = HeaderName::from_static("x-service-signature");

/// Sends an attempt. A failure is an exchange like any other.
pub(super) async fn send(
    deliverer: &DelivererContext,
    claimed: &ClaimedAttempt,
) -> OutgoingExchange {
    let (Some(body), Some(secret)) = (&claimed.body, &claimed.secret) else {
        return never_sent();
    };
    let Some(headers) = headers(claimed, body, secret, deliverer.clock.now()) else {
        return never_sent();
    };
    crash::point("signed");
    let request = OutgoingRequest {
        target: claimed.target.to_string(),
        method: method(&claimed.origin),
        headers,
        body: body.bytes.clone(),
        connect_by: Some(claimed.claimed_instant + CONNECT_WITHIN),
    };
    deliverer.outgoing.send(request).await
}

const fn method(sender: &DeliveryOrigin) -> Method {
    match sender {
        DeliveryOrigin::Hook => Method::POST,
        DeliveryOrigin::Step(order, _) => match order.method {
            StepMethod::Post => Method::POST,
            StepMethod::Put => Method::PUT,
            StepMethod::Patch => Method::PATCH,
        },
    }
}

/// The contract's headers (section Events, Request sent to the target).
fn headers(
    claimed: &ClaimedAttempt,
    body: &FrozenBody,
    secret: &WebhookSecret,
    now: Timestamp,
) -> Option<HeaderMap> {
    let delivery_id = HeaderValue::try_from(claimed.delivery_id.to_string()).ok()?;
    let signature = sign(secret.as_str(), now.get().timestamp(), &body.bytes);
    let mut headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (EVENT, HeaderValue::from_static(claimed.trigger.key())),
        (DELIVERY, delivery_id.clone()),
        (SIGNATURE, HeaderValue::try_from(signature).ok()?),
    ]);
    match &claimed.origin {
        DeliveryOrigin::Hook => {
            headers.insert(HOOK, HeaderValue::try_from(claimed.lane_id.to_string()).ok()?);
            headers.insert(IDEMPOTENCY_KEY, delivery_id);
        }
        DeliveryOrigin::Step(order, extra) => {
            let key = HeaderValue::try_from(order.step.idempotency_key()).ok()?;
            headers.insert(IDEMPOTENCY_KEY, key);
            if order.test {
                headers.insert(TEST, HeaderValue::from_static("1"));
            }
            for (name, value) in extra {
                headers
                    .insert(HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?);
            }
        }
    }
    Some(headers)
}

fn never_sent() -> OutgoingExchange {
    OutgoingExchange {
        answer: AttemptAnswer::NeverSent,
        retry_after: None,
        hops: Vec::new(),
        snippet: Vec::new(),
        connected: false,
    }
}
