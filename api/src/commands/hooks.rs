//! Making and removing subscriptions (contract, section POST /hooks; ruling 10).

use domain::access::IdempotencyKey;
use domain::event::EventContext;
use domain::subscription::{
    AllowedTargets, FirmPlan, RemovalReason, Subscription, SubscriptionCommand,
    SubscriptionRejection, Target, Trigger,
};
use eventstore::{AppendError, CommandError, NewEvent, retry_conflicts};
use projector::forms;
use projector::hook_requests::{self, HookRequest, RememberedRequest};
use projector::hooks::{self, HookRow};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::no_longer_active;
use crate::Service;
use crate::error::Error;
use crate::public::caller::Caller;

/// A requested subscription. Its shape is right; its words are the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewHook {
    /// Where deliveries go.
    pub(crate) target_url: String,
    /// The key of a trigger.
    pub(crate) trigger: String,
    /// The form whose events are sent, or all forms.
    pub(crate) form_id: Option<Uuid>,
}

/// Makes a subscription, and answers its row as `GET /hooks` shows it.
pub(crate) async fn create(
    service: &Service,
    caller: &Caller,
    new: NewHook,
) -> Result<HookRow, Error> {
    let checked = CheckedHook::new(service, caller, new).await?;
    execute_command(service, checked.hook_id, checked.create_command(caller), &checked.context)
        .await?;
    Ok(checked.listed_row())
}

/// Makes the subscription of a request that the caller may repeat (ruling 40). A repeated request
/// answers the subscription that the first one made, while it lives.
pub(crate) async fn create_once(
    service: &Service,
    caller: &Caller,
    new: NewHook,
    key: IdempotencyKey,
) -> Result<HookRow, Error> {
    let request = HookRequest {
        firm_id: caller.firm_id,
        key_id: caller.key_id,
        idempotency_sha256: key.sha256,
        body_sha256: new.meaning_sha256()?,
    };
    for _ in 0..TRIES_MAX {
        let now = service.clock.now().get();
        let replaces = match hook_requests::find(service.store.pool(), &request, now).await? {
            RememberedRequest::Made(row) => return Ok(row),
            RememberedRequest::Other => return Err(Error::IdempotencyConflict),
            RememberedRequest::Free { replaces } => replaces,
        };
        let checked = CheckedHook::new(service, caller, new.clone()).await?;
        if checked.create_with_request(service, caller, &request, replaces).await? {
            return Ok(checked.listed_row());
        }
    }
    Err(Error::Unavailable("a repeated request lost every race".to_owned()))
}

/// Most tries of a request that races with itself. A try is lost to a call that made the
/// subscription. The next look finds that subscription, unless it is removed already.
const TRIES_MAX: u32 = 3;

impl NewHook {
    /// SHA-256 of the request's meaning. A body that differs only in ignored properties, or names
    /// the trigger as `event`, is the same request.
    fn meaning_sha256(&self) -> Result<[u8; 32], Error> {
        let meaning = (&self.trigger, &self.target_url, self.form_id);
        let meaning =
            serde_json::to_vec(&meaning).map_err(|error| Error::Internal(error.to_string()))?;
        Ok(Sha256::digest(meaning).into())
    }
}

/// A requested subscription that may be made.
struct CheckedHook {
    hook_id: Uuid,
    trigger: Trigger,
    target_url: String,
    form_id: Option<Uuid>,
    context: EventContext,
}

impl CheckedHook {
    async fn new(service: &Service, caller: &Caller, new: NewHook) -> Result<Self, Error> {
        let trigger = offered_trigger(&new.trigger, caller.plan)?;
        check_target(service, &new.target_url).await?;
        check_form(service, caller, new.form_id).await?;
        let NewHook { target_url, form_id, .. } = new;
        let context = caller.context(service);
        Ok(Self { hook_id: service.entropy.new_id(), trigger, target_url, form_id, context })
    }

    fn create_command(&self, caller: &Caller) -> SubscriptionCommand {
        SubscriptionCommand::Create {
            key_id: caller.key_id,
            trigger: self.trigger,
            target_url: self.target_url.clone(),
            form_id: self.form_id,
        }
    }

    /// Makes the subscription and remembers its request, in one transaction. Returns false if
    /// another call with this request was first.
    async fn create_with_request(
        &self,
        service: &Service,
        caller: &Caller,
        request: &HookRequest,
        replaces: Option<Uuid>,
    ) -> Result<bool, Error> {
        let events = Subscription::default().decide(&self.create_command(caller));
        let events = events.map_err(|rejection| not_done(CommandError::Rejected(rejection)))?;
        let id = self.hook_id.to_string();
        let context = &self.context;
        let made = retry_conflicts(context.correlation_id, async || {
            let mut appending = service.store.begin().await?;
            let connection = appending.connection();
            let now = context.recorded_at.get();
            let free =
                hook_requests::remember(connection, request, self.hook_id, replaces, now).await?;
            if !free {
                appending.rollback().await?;
                return Ok(false);
            }
            appending.append(NewEvent::number_after(0, &id, context, events.clone())).await?;
            appending.commit().await?;
            Ok(true)
        });
        match made.await {
            Err(AppendError::ActorInactive) => {
                Err(no_longer_active(service, context.firm_id).await)
            }
            made => Ok(made?),
        }
    }

    /// The row as `GET /hooks` shows it.
    fn listed_row(self) -> HookRow {
        HookRow {
            hook_id: self.hook_id,
            trigger: self.trigger.key().to_owned(),
            target_url: self.target_url,
            form_id: self.form_id,
            created_at: self.context.recorded_at.get(),
        }
    }
}

/// Removes a subscription that was made with the caller's key.
pub(crate) async fn delete(service: &Service, caller: &Caller, hook_id: Uuid) -> Result<(), Error> {
    if !hooks::is_of_key(service.store.pool(), caller.key_id, hook_id).await? {
        return Err(Error::NotFound);
    }
    let remove = SubscriptionCommand::Remove { reason: RemovalReason::DeletedByKey };
    execute_command(service, hook_id, remove, &caller.context(service)).await
}

async fn execute_command(
    service: &Service,
    hook_id: Uuid,
    command: SubscriptionCommand,
    context: &EventContext,
) -> Result<(), Error> {
    match service.store.execute::<Subscription>(&hook_id.to_string(), command, context).await {
        Ok(()) => Ok(()),
        Err(CommandError::Append(AppendError::ActorInactive)) => {
            Err(no_longer_active(service, context.firm_id).await)
        }
        Err(error) => Err(not_done(error)),
    }
}

fn offered_trigger(key: &str, plan: FirmPlan) -> Result<Trigger, Error> {
    key.parse()
        .ok()
        .filter(|trigger: &Trigger| trigger.offered_to(plan))
        .ok_or(Error::UnknownTrigger)
}

/// Checks a target as text, then by name. DNS refuses only on proof (ruling 17).
pub(super) async fn check_target(service: &Service, target_url: &str) -> Result<(), Error> {
    let target = parse_target(target_url, &service.settings.allowed)?;
    if service.deliveries.target_dns.prove_private(&target).await {
        return Err(Error::PrivateTarget);
    }
    Ok(())
}

fn parse_target(target_url: &str, allowed: &AllowedTargets) -> Result<Target, Error> {
    Target::parse(target_url, allowed).map_err(Error::InvalidTarget)
}

async fn check_form(
    service: &Service,
    caller: &Caller,
    form_id: Option<Uuid>,
) -> Result<(), Error> {
    let Some(form_id) = form_id else {
        return Ok(());
    };
    forms::find(service.store.pool(), caller.firm_id, form_id)
        .await?
        .map(drop)
        .ok_or(Error::FormNotFound)
}

fn not_done(error: CommandError<SubscriptionRejection>) -> Error {
    match error {
        // Another call removed the subscription between the look-up and the command.
        CommandError::Rejected(SubscriptionRejection::NotLive) => Error::NotFound,
        // Two random ids are never the same.
        CommandError::Rejected(SubscriptionRejection::Exists) => Error::Internal(error.to_string()),
        CommandError::Append(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::event::Quota;
    use domain::subscription::TargetRefusal;

    #[test]
    fn a6_the_plan_must_offer_the_trigger() {
        let all = FirmPlan { leads_in_full: true };
        assert_eq!(offered_trigger("lead_hot", all), Ok(Trigger::LeadHot));
        assert_eq!(offered_trigger("lead_hot", FirmPlan::default()), Err(Error::UnknownTrigger));
        assert_eq!(
            offered_trigger("form_submitted", FirmPlan::default()),
            Ok(Trigger::FormSubmitted)
        );
        for unknown in ["", "Form_Submitted", "form_submitted ", "nothing"] {
            assert_eq!(offered_trigger(unknown, all), Err(Error::UnknownTrigger), "{unknown}");
        }
    }

    #[test]
    fn a_target_is_public_and_short() {
        let check = |target: &str| parse_target(target, &AllowedTargets::default()).map(drop);
        let long = |chars: usize| format!("https://a.example/{}", "é".repeat(chars - 18));
        assert_eq!(check(&long(2_000)), Ok(()));
        assert_eq!(check(&long(2_001)), Err(Error::InvalidTarget(TargetRefusal::TooLong)));
        assert_eq!(check(""), Err(Error::InvalidTarget(TargetRefusal::NotHttps)));
        assert!(matches!(check("https://127.0.0.1/"), Err(Error::InvalidTarget(_))));
    }

    #[test]
    fn a_failed_command_becomes_a_code() {
        let rejected = |rejection| not_done(CommandError::Rejected(rejection));
        assert_eq!(rejected(SubscriptionRejection::NotLive), Error::NotFound);
        assert!(matches!(rejected(SubscriptionRejection::Exists), Error::Internal(_)));
        let full = CommandError::Append(AppendError::QuotaFull(Quota::Hooks));
        assert_eq!(not_done(full), Error::TooManyHooks);
        let revoked = CommandError::Append(AppendError::ActorInactive);
        assert_eq!(not_done(revoked), Error::Unauthorized);
    }
}
