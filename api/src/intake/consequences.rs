//! What follows at once from reports: who may not make keys any more loses them, a key that is
//! revoked takes its subscriptions along, and so does a firm that closes (contract, Authentication
//! 5 and 6; ruling 28). Each event names the one that led to it.

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::context::Context;
use domain::key::RevocationReason;
use domain::subscription::RemovalReason;
use eventstore::NewEvent;
use projector::hooks::LiveHook;
use projector::keys::ActiveKey;
use uuid::Uuid;

use super::plan::Plan;
use crate::commands::keys::{removal, revocation};

/// What is locked and must go.
#[derive(Debug, Default)]
pub(super) struct Condemned {
    /// Keys of members who do not manage.
    pub(super) keys: Vec<ActiveKey>,
    /// The live subscriptions of those keys.
    pub(super) hooks_of_keys: Vec<LiveHook>,
    /// The live subscriptions of closed firms.
    pub(super) hooks_of_firms: Vec<LiveHook>,
}

/// The plan's events, each followed by its consequences.
pub(super) fn with_consequences(
    plan: &mut Plan,
    condemned: &Condemned,
    context: &Context,
) -> Vec<NewEvent> {
    let mut consequences = Consequences { context, by_cause: HashMap::new() };
    consequences.revoke(&plan.unmanaging, condemned);
    consequences.close(&plan.closed, condemned);
    let mut by_cause = consequences.by_cause;
    std::mem::take(&mut plan.events)
        .into_iter()
        .flat_map(|event| {
            let following = by_cause.remove(&event.id()).unwrap_or_default();
            std::iter::once(event).chain(following)
        })
        .collect()
}

struct Consequences<'a> {
    context: &'a Context,
    by_cause: HashMap<Uuid, Vec<NewEvent>>,
}

impl Consequences<'_> {
    fn revoke(&mut self, unmanaging: &BTreeMap<(Uuid, Uuid), Uuid>, condemned: &Condemned) {
        for key in &condemned.keys {
            let Some(cause) = unmanaging.get(&(key.firm_id, key.member_id)) else {
                continue;
            };
            let context = self.context_of(key.firm_id, *cause);
            let hooks: Vec<LiveHook> = condemned
                .hooks_of_keys
                .iter()
                .filter(|hook| hook.key_id == key.key_id)
                .copied()
                .collect();
            let reason = RevocationReason::MemberNotManager;
            let revoked = revocation(&context, key.key_id, reason, &hooks);
            self.by_cause.entry(*cause).or_default().extend(revoked);
        }
    }

    /// A subscription goes once: those that go with their key are not removed again.
    fn close(&mut self, closed: &BTreeMap<Uuid, Uuid>, condemned: &Condemned) {
        let gone: HashSet<Uuid> = condemned.hooks_of_keys.iter().map(|hook| hook.hook_id).collect();
        for hook in condemned.hooks_of_firms.iter().filter(|hook| !gone.contains(&hook.hook_id)) {
            let Some(cause) = closed.get(&hook.firm_id) else {
                continue;
            };
            let context = self.context_of(hook.firm_id, *cause);
            let removed = removal(&context, hook, RemovalReason::FirmClosed);
            self.by_cause.entry(*cause).or_default().push(removed);
        }
    }

    fn context_of(&self, firm_id: Uuid, cause: Uuid) -> Context {
        Context { firm_id, ..self.context.caused_by(cause) }
    }
}

#[cfg(test)]
mod tests;
