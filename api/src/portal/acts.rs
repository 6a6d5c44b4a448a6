//! Acts of a member. The log has each as done by the member.

use domain::delivery::DeliveryState;
use domain::delivery::replay::{ReplaySelection, ReplaySkip};
use domain::delivery::workflow::StepName;
use domain::values::{AsOf, Timestamp, parse_id};
use uuid::Uuid;

use super::{PortalSession, views};
use crate::commands::hook_tests::{self, HookTest, SentTest};
use crate::commands::keys::{self, CreatedKey};
use crate::commands::replays::{self, NewReplay};
use crate::commands::secrets::{self, RevealedSecret, RotationOrder, RotationOutcome};
use crate::commands::steps::{self, StepCaller};
use crate::commands::targets::{self, TargetReveal};
use crate::error::Error;
use crate::queries::as_of;
use crate::service::Service;

/// The reason in the log of a look or a test for which the portal asks for none.
const IN_PORTAL: &str = "asked for in the portal";

/// Deliveries a second of a replay. The portal replays one delivery at a time.
const REPLAY_RATE: u32 = 1;

/// The outcome of a form that makes a key.
#[derive(Debug)]
pub enum KeyOutcome {
    /// The key was made, and its text is shown this once.
    Made(CreatedKey),
    /// The form was sent before, and its key was made then.
    Earlier,
}

/// Makes a key of the member, once for each request id.
///
/// # Errors
/// `invalid_request`, `too_many_keys`, `not_a_manager`, `firm_inactive`.
pub async fn create_key(
    service: &Service,
    session: &PortalSession,
    request_id: Uuid,
    name: &str,
) -> Result<KeyOutcome, Error> {
    let firm_id = session.firm_id();
    let key_id = Uuid::new_v5(&firm_id, request_id.as_bytes());
    let made = keys::create_with_id(service, firm_id, session.member_id(), key_id, name).await;
    match made {
        Ok(made) => Ok(KeyOutcome::Made(made)),
        Err(why) if has_key(service, firm_id, key_id).await? => {
            tracing::debug!(%why, "a form for a key was sent again");
            Ok(KeyOutcome::Earlier)
        }
        Err(why) => Err(why),
    }
}

async fn has_key(service: &Service, firm_id: Uuid, key_id: Uuid) -> Result<bool, Error> {
    Ok(keys::list(service, firm_id).await?.iter().any(|key| key.key_id == key_id))
}

/// Revokes a key, and removes its subscriptions. Returns their number.
///
/// # Errors
/// `not_found`.
pub async fn revoke_key(
    service: &Service,
    session: &PortalSession,
    key_id: Uuid,
) -> Result<usize, Error> {
    keys::revoke(service, session.firm_id(), key_id, session.actor()).await
}

/// Shows the signing secret.
///
/// # Errors
/// `not_a_manager`.
pub async fn reveal_secret(
    service: &Service,
    session: &PortalSession,
) -> Result<RevealedSecret, Error> {
    secrets::reveal(service, session.firm_id(), session.actor()).await
}

/// The time since which the secret signs. A form for a rotation names it.
///
/// # Errors
/// None but the database's and the keyring's.
pub async fn secret_since(service: &Service, session: &PortalSession) -> Result<Timestamp, Error> {
    secrets::rotated_at(service, session.firm_id()).await
}

/// Gives the firm a new signing secret, and shows it, unless the secret has changed since then.
///
/// # Errors
/// `invalid_request` (the reason); `not_a_manager`.
pub async fn rotate_secret(
    service: &Service,
    session: &PortalSession,
    since: Timestamp,
    reason: Option<&str>,
) -> Result<RotationOutcome, Error> {
    let order = RotationOrder {
        firm_id: session.firm_id(),
        actor: session.actor(),
        reason,
        since: Some(since),
    };
    secrets::rotate_by(service, order).await
}

/// Shows the whole target of a subscription (ruling 44).
///
/// # Errors
/// `not_found`.
pub async fn reveal_target(
    service: &Service,
    session: &PortalSession,
    hook_id: Uuid,
) -> Result<String, Error> {
    views::require_hook(service, session, hook_id).await?;
    let reveal =
        TargetReveal { firm_id: session.firm_id(), actor: session.actor(), reason: IN_PORTAL };
    targets::of_hook(service, reveal, hook_id).await
}

/// Sends a sample to the target of a live subscription. A firm has one test under way at a time.
///
/// # Errors
/// `not_found`, `unavailable`, `rate_limited`.
pub async fn test_hook(
    service: &Service,
    session: &PortalSession,
    hook_id: Uuid,
) -> Result<SentTest, Error> {
    let order =
        HookTest { firm_id: session.firm_id(), hook_id, actor: session.actor(), reason: IN_PORTAL };
    let _open =
        service.admission.portal_rates.begin_test(session.firm_id(), service.clock.now())?;
    hook_tests::send(service, order).await
}

/// An order to send a failed delivery again.
#[derive(Debug, Clone)]
pub struct DeliveryReplay<'a> {
    /// The delivery.
    pub delivery_id: Uuid,
    /// The id of the request. A repeat begins no second replay.
    pub request_id: Uuid,
    /// The member's reason.
    pub reason: &'a str,
}

/// The outcome of a form that sends a delivery again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// The delivery is sent again.
    Begun,
    /// The delivery cannot be sent again.
    Skipped(ReplaySkip),
}

/// Sends a failed delivery of a subscription once more (ruling 31).
///
/// # Errors
/// `delivery_not_found`; `not_failed`; `invalid_request` (the reason).
pub async fn replay_delivery(
    service: &Service,
    session: &PortalSession,
    order: DeliveryReplay<'_>,
) -> Result<ReplayOutcome, Error> {
    let found = as_of::delivery(service, session.firm_id(), order.delivery_id, AsOf::NOW).await?.0;
    let new = order.new_replay(session);
    if replays::find_begun(service, &new).await?.is_some() {
        return Ok(ReplayOutcome::Begun);
    }
    if found.row.state != DeliveryState::Failed.name() {
        return Err(Error::NotFailed);
    }
    if let Some(why) = views::replay_skip(service, order.delivery_id).await? {
        return Ok(ReplayOutcome::Skipped(why));
    }
    let selected = replays::select(service, &new).await?;
    if let Some((_, why)) = selected.skipped.first() {
        return Ok(ReplayOutcome::Skipped(*why));
    }
    replays::start(service, &new, &selected, session.actor()).await?;
    Ok(ReplayOutcome::Begun)
}

impl DeliveryReplay<'_> {
    fn new_replay(&self, session: &PortalSession) -> NewReplay {
        NewReplay {
            firm_id: session.firm_id(),
            request_id: self.request_id,
            selection: ReplaySelection {
                delivery_ids: vec![self.delivery_id],
                ..ReplaySelection::default()
            },
            reason: self.reason.to_owned(),
            force: false,
            rate_per_second: REPLAY_RATE,
        }
    }
}

/// Gives a failed workflow step five new tries (ruling 33).
///
/// # Errors
/// `delivery_not_found`; `not_failed`; `body_purged`.
pub async fn retry_step(
    service: &Service,
    session: &PortalSession,
    name: StepName,
) -> Result<(), Error> {
    let caller = StepCaller { actor: session.actor(), firm_ids: Some([session.firm_id()].into()) };
    steps::retry(service, name, &caller).await.map(drop)
}

/// The name of a step by the ids of its run and itself.
#[must_use]
pub fn step_name(run_id: &str, step_id: &str) -> Option<StepName> {
    Some(StepName { run_id: parse_id(run_id)?, step_id: parse_id(step_id)? })
}
