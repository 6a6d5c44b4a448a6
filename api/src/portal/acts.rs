//! Acts of a member. The log has each as done by the member.

use domain::delivery::DeliveryState;
use domain::ids::parse_id;
use domain::replay::ReplaySelection;
use domain::workflow::StepName;
use uuid::Uuid;

use super::{PortalSession, views};
use crate::commands::hook_tests::{self, HookTest, SentTest};
use crate::commands::keys::{self, CreatedKey};
use crate::commands::replays::{self, NewReplay};
use crate::commands::secrets::{self, RevealedSecret};
use crate::commands::steps::{self, StepCaller};
use crate::commands::targets::{self, TargetReveal};
use crate::error::Error;
use crate::service::Service;

/// The reason in the log of a look or a test for which the portal asks for none.
const IN_PORTAL: &str = "asked for in the portal";

/// Deliveries a second of a replay. The portal replays one delivery at a time.
const REPLAY_RATE: u32 = 1;

/// Makes a key of the member.
///
/// # Errors
/// `invalid_request`, `too_many_keys`, `not_a_manager`, `firm_inactive`.
pub async fn create_key(
    service: &Service,
    session: &PortalSession,
    name: &str,
) -> Result<CreatedKey, Error> {
    keys::create(service, session.firm_id(), session.member_id(), name).await
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

/// Gives the firm a new signing secret, and shows it.
///
/// # Errors
/// `invalid_request` (the reason); `not_a_manager`.
pub async fn rotate_secret(
    service: &Service,
    session: &PortalSession,
    reason: Option<&str>,
) -> Result<RevealedSecret, Error> {
    secrets::rotate(service, session.firm_id(), session.actor(), reason).await
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
    views::hook(service, session, hook_id).await?;
    let reveal =
        TargetReveal { firm_id: session.firm_id(), actor: session.actor(), reason: IN_PORTAL };
    targets::of_hook(service, reveal, hook_id).await
}

/// Sends a sample to the target of a live subscription.
///
/// # Errors
/// `not_found`, `unavailable`.
pub async fn test_hook(
    service: &Service,
    session: &PortalSession,
    hook_id: Uuid,
) -> Result<SentTest, Error> {
    let order =
        HookTest { firm_id: session.firm_id(), hook_id, actor: session.actor(), reason: IN_PORTAL };
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

/// Sends a failed delivery of a subscription once more (ruling 31).
///
/// # Errors
/// `delivery_not_found`; `not_failed`; `invalid_request` (the reason).
pub async fn replay_delivery(
    service: &Service,
    session: &PortalSession,
    order: DeliveryReplay<'_>,
) -> Result<Uuid, Error> {
    let found = views::delivery(service, session, order.delivery_id).await?;
    let new = NewReplay {
        firm_id: session.firm_id(),
        request_id: order.request_id,
        selection: ReplaySelection {
            delivery_ids: vec![order.delivery_id],
            ..ReplaySelection::default()
        },
        reason: order.reason.to_owned(),
        force: false,
        rate_per_second: REPLAY_RATE,
    };
    if let Some(begun) = replays::begun(service, &new).await? {
        return Ok(begun.row.replay_id);
    }
    if found.row.state != DeliveryState::Failed.name() {
        return Err(Error::NotFailed);
    }
    let selected = replays::select(service, &new).await?;
    if let Some((_, why)) = selected.skipped.first() {
        return Err(Error::invalid(format!("the delivery is not sent again: {}", why.name())));
    }
    replays::start(service, &new, &selected, session.actor()).await
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
