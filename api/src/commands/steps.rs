//! Webhooks of workflow steps: queued, shown, sent again after a failure (ruling 33).

use std::collections::HashMap;
use std::sync::Arc;

use domain::delivery::workflow::{StepMethod, StepName, StepOrder, StepTarget, check_headers};
use domain::delivery::{Delivery, DeliveryCommand, DeliveryRejection, DeliveryState};
use domain::event::Actor;
use domain::subscription::{TargetRefusal, Trigger, origin_of};
use eventstore::{AppendError, CommandError, NewEvent, RecordedEvent, StreamName, load_many};
use projector::as_of::DeliveryThen;
use projector::firms::{self, FirmStanding};
use projector::subjects::{self, SubjectId};
use sqlx::PgPool;
use uuid::Uuid;
use vault::step_headers::{self, Headers, StepHeadersKey, StepSecrets};
use vault::{DataKey, KeySubject, responses};

use super::hooks::check_target;
use crate::error::Error;
use crate::service::Service;
use crate::token_holder::TokenHolder;

/// A requested webhook of a step. Its shape is right; its words are the workflow engine's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewStep {
    /// The firm.
    pub(crate) firm_id: Uuid,
    /// The run and its step.
    pub(crate) name: StepName,
    /// HTTP method.
    pub(crate) method: StepMethod,
    /// Target URL.
    pub(crate) url: String,
    /// Extra headers.
    pub(crate) headers: Headers,
    /// The key of a trigger.
    pub(crate) trigger: String,
    /// The response that the step is about.
    pub(crate) response_id: Uuid,
    /// Whether the run is a test.
    pub(crate) test: bool,
}

/// A caller that asks for a step.
#[derive(Debug, Clone)]
pub(crate) struct StepCaller {
    /// The caller in the log.
    pub(crate) actor: Actor,
    /// The firms that the caller may reach; `None` for all.
    pub(crate) firm_ids: Option<Arc<[Uuid]>>,
}

impl StepCaller {
    fn reaches(&self, firm_id: Uuid) -> bool {
        self.firm_ids.as_ref().is_none_or(|firms| firms.contains(&firm_id))
    }
}

impl From<&TokenHolder> for StepCaller {
    fn from(holder: &TokenHolder) -> Self {
        Self { actor: holder.actor(), firm_ids: holder.firm_ids.clone() }
    }
}

/// Queues a step's webhook. A repeated request for the step changes nothing, unless the database
/// has lost the row of a pending step.
///
/// # Errors
/// `unknown_trigger`, `invalid_target`, `invalid_request` (the headers), `firm_not_found`,
/// `firm_inactive` (a closed firm), `response_not_found`.
pub(crate) async fn queue(
    service: &Service,
    new: NewStep,
    caller: &TokenHolder,
) -> Result<DeliveryThen, Error> {
    if !caller.reaches(new.firm_id) {
        return Err(Error::FirmNotFound);
    }
    let asking = StepCaller::from(caller);
    let told = read_stream(service, new.name, &asking).await?;
    if let Some(first) = told.first() {
        if first.context.firm_id != new.firm_id {
            return Err(Error::invalid("this step of this run is another firm's"));
        }
        let then = fold_step(&told)?;
        if then.row.state == DeliveryState::Pending.name() {
            queue_if_lost(service, then.row.delivery_id).await?;
        }
        return Ok(then);
    }
    check_target(service, &new.url).await?;
    check_headers(&new.headers).map_err(|fault| Error::invalid(fault.to_string()))?;
    let subject = KeySubject { firm_id: new.firm_id, subject_id: new.response_id };
    let mut keys = service.keyring.find_keys(&[subject]).await?;
    let name = new.name;
    append_step(service, new, subject, keys.remove(&subject), asking.actor).await?;
    show(service, name, &asking).await
}

async fn queue_if_lost(service: &Service, delivery_id: Uuid) -> Result<(), Error> {
    let mut appending = service.store.begin().await?;
    appending.queue_lost_step(delivery_id, service.clock.now()).await?;
    Ok(appending.commit().await?)
}

async fn append_step(
    service: &Service,
    new: NewStep,
    subject: KeySubject,
    key: Option<DataKey>,
    actor: Actor,
) -> Result<(), Error> {
    let mut appending = service.store.begin().await?;
    let connection = appending.connection();
    let standing = firms::hold_open(connection, new.firm_id).await?.ok_or(Error::FirmNotFound)?;
    let FirmStanding::Open(plan) = standing else {
        return Err(Error::FirmInactive);
    };
    let offered = |trigger: &Trigger| trigger.offered_to(plan);
    let trigger = new.trigger.parse().ok().filter(offered).ok_or(Error::UnknownTrigger)?;
    let form_id = responses::form_of(connection, subject).await?;
    let (Some(form_id), Some(key)) = (form_id, key) else {
        return Err(Error::ResponseNotFound);
    };
    let order = StepOrder {
        step: new.name,
        trigger,
        form_id,
        response_id: new.response_id,
        method: new.method,
        target: in_vault(service, &new)?,
        extra_headers: new.headers.len(),
        test: new.test,
    };
    let delivery_id = new.name.delivery_id();
    let context = service.context(new.firm_id, actor);
    let queued = Delivery::default().decide(&DeliveryCommand::QueueStep(order)).unwrap_or_default();
    let queued = NewEvent::number_after(0, &delivery_id.to_string(), &context, queued);
    let recorded = appending.append_new(queued).await?;
    if !recorded.is_empty() {
        let connection = appending.connection();
        let entropy = &*service.entropy;
        let kept = StepHeadersKey { delivery_id, subject, key: &key };
        let secrets = StepSecrets { headers: new.headers, url: Some(new.url) };
        step_headers::put(connection, &kept, &secrets, entropy).await?;
    }
    Ok(appending.commit().await?)
}

/// The target as the log keeps it. The vault gets the URL.
fn in_vault(service: &Service, new: &NewStep) -> Result<StepTarget, Error> {
    let origin = origin_of(&new.url).ok_or(Error::InvalidTarget(TargetRefusal::NotAUrl))?;
    let digest = hex::encode(service.inviter.identity.step_url(new.firm_id, &new.url));
    Ok(StepTarget::InVault { digest, origin })
}

/// Shows a step's webhook.
///
/// # Errors
/// `delivery_not_found`.
pub(crate) async fn show(
    service: &Service,
    name: StepName,
    caller: &StepCaller,
) -> Result<DeliveryThen, Error> {
    fold_step(&read_stream(service, name, caller).await?)
}

fn fold_step(events: &[RecordedEvent]) -> Result<DeliveryThen, Error> {
    let told = DeliveryThen::new(events).filter(|one| one.row.run_id.is_some());
    told.ok_or(Error::DeliveryNotFound)
}

/// These steps of a firm from their streams, by delivery.
pub(crate) async fn from_streams(
    service: &Service,
    firm_id: Uuid,
    delivery_ids: &[Uuid],
) -> Result<HashMap<Uuid, DeliveryThen>, Error> {
    let name = |id: &Uuid| StreamName {
        aggregate_type: <Delivery as cqrs_es::Aggregate>::TYPE,
        aggregate_id: id.to_string(),
    };
    let streams: Vec<StreamName> = delivery_ids.iter().map(name).collect();
    let mut connection = service.store.pool().acquire().await?;
    let events = load_many(&mut connection, &service.store.upcasters(), &streams).await;
    let mut by_stream: HashMap<String, Vec<RecordedEvent>> = HashMap::new();
    for event in events.map_err(AppendError::from)? {
        by_stream.entry(event.aggregate_id.clone()).or_default().push(event);
    }
    let of_firm = |events: &Vec<RecordedEvent>| {
        events.first().is_some_and(|first| first.context.firm_id == firm_id)
    };
    let told = by_stream.into_values().filter(of_firm).filter_map(|one| DeliveryThen::new(&one));
    Ok(told.map(|then| (then.row.delivery_id, then)).collect())
}

/// Reads the step's stream from the log, so that the caller sees its own change. A step of a firm
/// that the caller may not reach looks like a missing one.
async fn read_stream(
    service: &Service,
    name: StepName,
    caller: &StepCaller,
) -> Result<Vec<RecordedEvent>, Error> {
    let stream = StreamName {
        aggregate_type: <Delivery as cqrs_es::Aggregate>::TYPE,
        aggregate_id: name.delivery_id().to_string(),
    };
    let mut connection = service.store.pool().acquire().await?;
    let events = load_many(&mut connection, &service.store.upcasters(), &[stream]).await;
    let events = events.map_err(AppendError::from)?;
    let reached = events.first().is_none_or(|first| caller.reaches(first.context.firm_id));
    if reached { Ok(events) } else { Err(Error::DeliveryNotFound) }
}

/// Queues a failed step's webhook for another attempt.
///
/// # Errors
/// `delivery_not_found`; `not_failed`; `firm_inactive` (a closed firm); `body_purged`.
pub(crate) async fn retry(
    service: &Service,
    name: StepName,
    caller: &StepCaller,
) -> Result<DeliveryThen, Error> {
    let delivery_id = name.delivery_id();
    let pool = service.store.pool();
    let events = read_stream(service, name, caller).await?;
    let firm_id = events.first().ok_or(Error::DeliveryNotFound)?.context.firm_id;
    if firms::is_closed(pool, firm_id).await? {
        return Err(Error::FirmInactive);
    }
    let step = fold_step(&events)?.row;
    if step.state != DeliveryState::Failed.name() {
        return Err(Error::NotFailed);
    }
    refuse_purged(pool, delivery_id, (firm_id, step.response_id)).await?;
    let context = service.context(firm_id, caller.actor);
    service
        .store
        .execute::<Delivery>(&delivery_id.to_string(), DeliveryCommand::RetryStep, &context)
        .await
        .map_err(not_retried)?;
    show(service, name, caller).await
}

/// Refuses a step whose headers and URL were purged. An erased step is queued, and its cancellation
/// says why.
async fn refuse_purged(pool: &PgPool, delivery_id: Uuid, response: SubjectId) -> Result<(), Error> {
    if step_headers::is_kept(pool, delivery_id).await? {
        return Ok(());
    }
    let mut connection = pool.acquire().await?;
    let erased = subjects::erased_among(&mut connection, &[response]).await?;
    if erased.is_empty() { Err(Error::BodyPurged) } else { Ok(()) }
}

fn not_retried(error: CommandError<DeliveryRejection>) -> Error {
    match error {
        CommandError::Rejected(DeliveryRejection::NotAStep) => Error::DeliveryNotFound,
        CommandError::Rejected(DeliveryRejection::NotFailed) => Error::NotFailed,
        CommandError::Rejected(DeliveryRejection::NotPending | DeliveryRejection::OutOfOrder) => {
            Error::Internal(error.to_string())
        }
        CommandError::Append(error) => error.into(),
    }
}
