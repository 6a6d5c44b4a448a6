//! Tests of a subscription's target: sends a sample once, and shows the answer to the operator. The
//! order is recorded first. Neither sample nor answer is kept.

use domain::delivery::signature::SignedSample;
use domain::delivery::{EventPayload, Hop};
use domain::event::Actor;
use domain::subscription::{OrderedTest, TargetTestEvent, Trigger, shown_target};
use eventstore::NewEvent;
use projector::hooks::HookLife;
use projector::{firms, forms, hooks};
use serde::Serialize;
use uuid::Uuid;
use vault::secrets;

use super::parse_reason;
use crate::error::Error;
use crate::queries::samples::{self, SampleSource};
use crate::service::{SampleAnswer, SendingMode, Service};

/// An order to test a subscription's target.
#[derive(Debug, Clone, Copy)]
pub struct HookTest<'a> {
    /// The firm.
    pub firm_id: Uuid,
    /// The subscription.
    pub hook_id: Uuid,
    /// The operator.
    pub actor: Actor,
    /// The operator's reason.
    pub reason: &'a str,
}

/// A test that was sent, with its answer.
#[derive(Debug, Clone, Serialize)]
pub struct SentTest {
    /// The id in `X-Service-Delivery`. No delivery has it.
    pub id: Uuid,
    /// The subscription.
    pub hook_id: Uuid,
    /// The trigger.
    pub trigger: &'static str,
    /// The masked target.
    pub target: String,
    /// The final status, if one came.
    pub status: Option<u16>,
    /// The fault, if no status came.
    pub error: Option<&'static str>,
    /// The requests in order.
    pub hops: Vec<Hop>,
    /// The first KiB of the answer.
    pub answer: Option<String>,
}

/// Sends a sample to the target of a live subscription. Pauses do not hold it.
///
/// # Errors
/// `invalid_request` (the reason); `firm_not_found`; `firm_inactive`; `not_found`: no live
/// subscription; `unavailable`: this process sends nothing, or the keyring does not answer.
pub async fn send(service: &Service, order: HookTest<'_>) -> Result<SentTest, Error> {
    let HookTest { firm_id, hook_id, actor, .. } = order;
    let why = parse_reason(order.reason)?;
    if service.settings.sending == SendingMode::Held {
        return Err(Error::Unavailable("this process sends nothing (`--paused`)".to_owned()));
    }
    let pool = service.store.pool();
    if !firms::is_active(pool, firm_id).await?.ok_or(Error::FirmNotFound)? {
        return Err(Error::FirmInactive);
    }
    let hook = hooks::find_live(pool, firm_id, hook_id).await?.ok_or(Error::NotFound)?;
    let trigger: Trigger = hook.trigger.parse().map_err(|_| Error::UnknownTrigger)?;
    let signed = signed_sample(service, firm_id, &hook, trigger).await?;
    let id = signed.sample_id;
    let ordered = TargetTestEvent::TargetTestOrdered(OrderedTest { hook_id, trigger, reason: why });
    let context = service.context(firm_id, actor);
    let stream = id.to_string();
    service.store.append(NewEvent::number_after(0, &stream, &context, [ordered])).await?;
    let SampleAnswer { status, error, hops, text } = service.deliveries.samples.send(signed).await;
    let target = shown_target(&hook.target_url);
    Ok(SentTest { id, hook_id, trigger: trigger.key(), target, status, error, hops, answer: text })
}

async fn signed_sample(
    service: &Service,
    firm_id: Uuid,
    hook: &HookLife,
    trigger: Trigger,
) -> Result<SignedSample, Error> {
    let payload = sample_payload(service, firm_id, hook, trigger).await?;
    let body = serde_json::to_vec(&payload).map_err(|error| Error::Internal(error.to_string()))?;
    let mut connection = service.store.pool().acquire().await?;
    let mut secrets =
        secrets::read(&mut connection, service.keyring.wrapping_key(), &[firm_id]).await?;
    let secret = secrets.remove(&firm_id).ok_or_else(|| {
        Error::Internal("the firm has no signing secret that can be read".to_owned())
    })?;
    Ok(SignedSample {
        sample_id: service.entropy.new_id(),
        hook_id: hook.hook_id,
        trigger,
        target: hook.target_url.clone(),
        body,
        secret: secret.secret,
    })
}

async fn sample_payload(
    service: &Service,
    firm_id: Uuid,
    hook: &HookLife,
    trigger: Trigger,
) -> Result<EventPayload, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let form = match hook.form_id {
        // The subscriptions of a deleted form stay (ruling 14, forms).
        Some(form_id) => {
            let form = forms::find_all(&mut connection, &[(firm_id, form_id)]).await?.pop();
            Some(form.ok_or(Error::FormNotFound)?)
        }
        None => None,
    };
    let wanted = SampleSource { firm_id, trigger, form };
    let newest = wanted.newest_submissions(&mut connection).await?;
    drop(connection);
    let keys = samples::find_keys(service, &newest).await?;
    let mut connection = service.store.pool().acquire().await?;
    wanted.build_payload(&mut connection, newest, keys, service.clock.now()).await
}
