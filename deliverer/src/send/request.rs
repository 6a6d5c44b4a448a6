//! The request of an attempt: the contract's headers, the signature and the POST.

use domain::delivery::signature::{SignedSample, WebhookSecret, sign_body};
use domain::delivery::workflow::StepMethod;
use domain::delivery::{AttemptAnswer, clean_answer};
use domain::values::Timestamp;
use eventstore::crash;
use tokio::time::Instant;
use uuid::Uuid;

use crate::attempt::{CONNECT_WITHIN, ClaimedAttempt, DeliveryOrigin, FrozenBody};
use crate::outgoing::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use crate::outgoing::{Method, OutgoingClient, OutgoingExchange, OutgoingRequest};
use crate::settings::DelivererContext;

const EVENT: HeaderName = HeaderName::from_static("x-service-event");
const DELIVERY: HeaderName = HeaderName::from_static("x-service-delivery");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const HOOK: HeaderName = HeaderName::from_static("x-service-hook");
const TEST: HeaderName = HeaderName::from_static("x-service-test");
const SIGNATURE: HeaderName = HeaderName::from_static("x-service-signature");

/// The content type of a notice.
const CLOUD_EVENT: HeaderValue = HeaderValue::from_static("application/cloudevents+json");

/// Sends an attempt. A failure is an exchange like any other.
pub(super) async fn send_attempt(
    deliverer: &DelivererContext,
    claimed: &ClaimedAttempt,
) -> OutgoingExchange {
    let (Some(body), Some(secret)) = (&claimed.body, &claimed.secret) else {
        return never_sent();
    };
    let Some(headers) = request_headers(claimed, body, secret, deliverer.clock.now()) else {
        return never_sent();
    };
    crash::point("signed");
    let request = OutgoingRequest {
        target: claimed.target.to_string(),
        method: request_method(&claimed.origin),
        headers,
        body: body.bytes.clone(),
        connect_by: Some(claimed.claimed_instant + CONNECT_WITHIN),
    };
    deliverer.outgoing.send(request).await
}

const fn request_method(sender: &DeliveryOrigin) -> Method {
    match sender {
        DeliveryOrigin::Hook | DeliveryOrigin::Notice(_) => Method::POST,
        DeliveryOrigin::Step(order, _) => match order.method {
            StepMethod::Post => Method::POST,
            StepMethod::Put => Method::PUT,
            StepMethod::Patch => Method::PATCH,
        },
    }
}

/// The contract's headers (section Events, Request sent to the target).
fn request_headers(
    claimed: &ClaimedAttempt,
    body: &FrozenBody,
    secret: &WebhookSecret,
    now: Timestamp,
) -> Option<HeaderMap> {
    let signature = sign_body(secret.as_str(), now.get().timestamp(), &body.bytes);
    let event = match &claimed.origin {
        DeliveryOrigin::Hook | DeliveryOrigin::Step(..) => claimed.trigger?.key(),
        DeliveryOrigin::Notice(sent) => sent.kind.name(),
    };
    let mut headers = common_headers(event, claimed.delivery_id, &signature)?;
    match &claimed.origin {
        DeliveryOrigin::Hook => name_hook(&mut headers, claimed.lane_id, claimed.delivery_id)?,
        DeliveryOrigin::Notice(_) => {
            headers.insert(CONTENT_TYPE, CLOUD_EVENT);
            let key = HeaderValue::try_from(claimed.delivery_id.to_string()).ok()?;
            headers.insert(IDEMPOTENCY_KEY, key);
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

/// The headers of every request.
fn common_headers(event: &'static str, delivery_id: Uuid, signature: &str) -> Option<HeaderMap> {
    Some(HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (EVENT, HeaderValue::from_static(event)),
        (DELIVERY, HeaderValue::try_from(delivery_id.to_string()).ok()?),
        (SIGNATURE, HeaderValue::try_from(signature).ok()?),
    ]))
}

/// Adds the headers of a subscription's request.
fn name_hook(headers: &mut HeaderMap, hook_id: Uuid, delivery_id: Uuid) -> Option<()> {
    headers.insert(HOOK, HeaderValue::try_from(hook_id.to_string()).ok()?);
    headers.insert(IDEMPOTENCY_KEY, HeaderValue::try_from(delivery_id.to_string()).ok()?);
    Some(())
}

/// The answer to a sample.
pub struct SampleExchange {
    /// The exchange.
    pub exchange: OutgoingExchange,
    /// The first KiB of the answer, cleaned.
    pub text: Option<String>,
}

/// Sends a sample once, marked as a test and with the limits of an attempt. The stored target is
/// checked again. Nothing is recorded.
pub async fn send_sample(
    outgoing: &OutgoingClient,
    sample: SignedSample,
    now: Timestamp,
) -> SampleExchange {
    let Some(headers) = sample_headers(&sample, now) else {
        return SampleExchange { exchange: never_sent(), text: None };
    };
    let request = OutgoingRequest {
        target: sample.target,
        method: Method::POST,
        headers,
        body: sample.body.into(),
        connect_by: Some(Instant::now() + CONNECT_WITHIN),
    };
    let exchange = outgoing.send(request).await;
    let heard = (!exchange.snippet.is_empty())
        .then(|| clean_answer(&exchange.snippet, &[sample.secret.as_str()]));
    SampleExchange { exchange, text: heard }
}

fn sample_headers(sample: &SignedSample, now: Timestamp) -> Option<HeaderMap> {
    let signature = sign_body(sample.secret.as_str(), now.get().timestamp(), &sample.body);
    let mut headers = common_headers(sample.trigger.key(), sample.sample_id, &signature)?;
    name_hook(&mut headers, sample.hook_id, sample.sample_id)?;
    headers.insert(TEST, HeaderValue::from_static("1"));
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
