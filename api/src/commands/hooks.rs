//! Making and removing subscriptions (contract, section POST /hooks; ruling 10).

use domain::address::AllowedTargets;
use domain::context::EventContext;
use domain::subscription::{
    RemovalReason, Subscription, SubscriptionCommand, SubscriptionRejection,
};
use domain::target::Target;
use domain::trigger::{FirmPlan, Trigger};
use eventstore::{AppendError, CommandError};
use projector::forms;
use projector::hooks::{self, HookRow};
use uuid::Uuid;

use super::no_longer_active;
use crate::Service;
use crate::error::Error;
use crate::public::Caller;

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
    let trigger = offered(&new.trigger, caller.plan)?;
    check_target(service, &new.target_url).await?;
    check_form(service, caller, new.form_id).await?;
    let context = caller.context(service);
    let hook_id = service.entropy.id();
    let create = SubscriptionCommand::Create {
        key_id: caller.key_id,
        trigger,
        target_url: new.target_url.clone(),
        form_id: new.form_id,
    };
    execute(service, hook_id, create, &context).await?;
    Ok(HookRow {
        hook_id,
        trigger: trigger.key().to_owned(),
        target_url: new.target_url,
        form_id: new.form_id,
        created_at: context.recorded_at.get(),
    })
}

/// Removes a subscription that was made with the caller's key.
pub(crate) async fn delete(service: &Service, caller: &Caller, hook_id: Uuid) -> Result<(), Error> {
    if !hooks::is_of_key(service.store.pool(), caller.key_id, hook_id).await? {
        return Err(Error::NotFound);
    }
    let remove = SubscriptionCommand::Remove { reason: RemovalReason::DeletedByKey };
    execute(service, hook_id, remove, &caller.context(service)).await
}

async fn execute(
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

fn offered(key: &str, plan: FirmPlan) -> Result<Trigger, Error> {
    key.parse()
        .ok()
        .filter(|trigger: &Trigger| trigger.offered_to(plan))
        .ok_or(Error::UnknownTrigger)
}

/// Checks a target as text, then by name. DNS refuses only on proof (ruling 17).
pub(super) async fn check_target(service: &Service, target_url: &str) -> Result<(), Error> {
    let target = parse_target(target_url, &service.allowed)?;
    if service.target_dns.prove_private(&target).await {
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
    use domain::quota::Quota;
    use domain::target::TargetRefusal;

    #[test]
    fn a6_a_trigger_must_exist_and_be_in_the_plan() {
        let all = FirmPlan { leads_in_full: true };
        assert_eq!(offered("lead_hot", all), Ok(Trigger::LeadHot));
        assert_eq!(offered("lead_hot", FirmPlan::default()), Err(Error::UnknownTrigger));
        assert_eq!(offered("form_submitted", FirmPlan::default()), Ok(Trigger::FormSubmitted));
        for unknown in ["", "Form_Submitted", "form_submitted ", "nothing"] {
            assert_eq!(offered(unknown, all), Err(Error::UnknownTrigger), "{unknown}");
        }
    }

    #[test]
    fn a_target_is_public_and_of_at_most_2_000_characters() {
        let check = |target: &str| parse_target(target, &AllowedTargets::default()).map(drop);
        let long = |chars: usize| format!("https://a.example/{}", "é".repeat(chars - 18));
        assert_eq!(check(&long(2_000)), Ok(()));
        assert_eq!(check(&long(2_001)), Err(Error::InvalidTarget(TargetRefusal::TooLong)));
        assert_eq!(check(""), Err(Error::InvalidTarget(TargetRefusal::NotHttps)));
        assert!(matches!(check("https://127.0.0.1/"), Err(Error::InvalidTarget(_))));
    }

    #[test]
    fn what_a_command_met_is_a_code() {
        let rejected = |rejection| not_done(CommandError::Rejected(rejection));
        assert_eq!(rejected(SubscriptionRejection::NotLive), Error::NotFound);
        assert!(matches!(rejected(SubscriptionRejection::Exists), Error::Internal(_)));
        let full = CommandError::Append(AppendError::QuotaFull(Quota::Hooks));
        assert_eq!(not_done(full), Error::TooManyHooks);
        let revoked = CommandError::Append(AppendError::ActorInactive);
        assert_eq!(not_done(revoked), Error::Unauthorized);
    }
}
