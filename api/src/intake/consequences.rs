//! Consequences of activities. A member who may not make keys any more loses them. A revoked key
//! takes its subscriptions along, and so does a closed firm (contract, Authentication 5 and 6;
//! ruling 28). Each consequence names its cause.

use std::collections::{HashMap, HashSet};

use domain::access::RevocationReason;
use domain::event::EventContext;
use domain::subscription::RemovalReason;
use eventstore::NewEvent;
use projector::hooks::LiveHook;
use projector::keys::ActiveKey;
use uuid::Uuid;

use super::plan::BatchPlan;
use crate::commands::keys::{removal_event, revocation_events};

/// Locked keys to revoke, and subscriptions to remove.
#[derive(Debug, Default)]
pub(super) struct EndedAccess {
    /// Keys of members who do not manage.
    pub(super) keys: Vec<ActiveKey>,
    /// Live subscriptions of the keys in `keys`.
    pub(super) hooks_of_keys: Vec<LiveHook>,
    /// The live subscriptions of closed firms.
    pub(super) hooks_of_firms: Vec<LiveHook>,
}

/// The plan's events, each followed by its consequences. A subscription is removed once, by the
/// first event that removes it. The result is as if each activity had come alone.
pub(super) fn with_consequences(plan: &mut BatchPlan, ended: &EndedAccess) -> Vec<NewEvent> {
    let events = std::mem::take(&mut plan.events);
    let mut consequences = ConsequenceBuilder { ended, removed: HashSet::new() };
    let unmanaging: HashMap<Uuid, _> =
        plan.unmanaging.iter().map(|(who, by)| (*by, *who)).collect();
    let closed: HashSet<Uuid> = plan.closed.values().copied().collect();
    if unmanaging.is_empty() && closed.is_empty() {
        return events;
    }
    let mut all = Vec::with_capacity(events.len());
    for event in events {
        let id = event.id();
        let caused = event.context.caused_by(id);
        all.push(event);
        if let Some((firm_id, member_id)) = unmanaging.get(&id) {
            consequences.revoke_keys(*firm_id, *member_id, &caused, &mut all);
        }
        if closed.contains(&id) {
            consequences.close_firm(&caused, &mut all);
        }
    }
    all
}

struct ConsequenceBuilder<'a> {
    ended: &'a EndedAccess,
    /// Subscriptions that are removed already.
    removed: HashSet<Uuid>,
}

impl ConsequenceBuilder<'_> {
    fn revoke_keys(
        &mut self,
        firm_id: Uuid,
        member_id: Uuid,
        context: &EventContext,
        events: &mut Vec<NewEvent>,
    ) {
        let of_member = |key: &&ActiveKey| key.firm_id == firm_id && key.member_id == member_id;
        for key in self.ended.keys.iter().filter(of_member) {
            let of_key = |hook: &LiveHook| hook.key_id == key.key_id;
            let hooks = self.take_remaining(&self.ended.hooks_of_keys, of_key);
            let reason = RevocationReason::MemberNotManager;
            events.extend(revocation_events(context, key.key_id, reason, &hooks));
        }
    }

    fn close_firm(&mut self, context: &EventContext, events: &mut Vec<NewEvent>) {
        let of_firm = |hook: &LiveHook| hook.firm_id == context.firm_id;
        let hooks = self.take_remaining(&self.ended.hooks_of_firms, of_firm);
        let removal = |hook: &LiveHook| removal_event(context, hook, RemovalReason::FirmClosed);
        events.extend(hooks.iter().map(removal));
    }

    /// Subscriptions that match `which` and are not removed yet. They count as removed afterwards.
    fn take_remaining(
        &mut self,
        hooks: &[LiveHook],
        which: impl Fn(&LiveHook) -> bool,
    ) -> Vec<LiveHook> {
        let removed = &mut self.removed;
        hooks.iter().filter(|hook| which(hook) && removed.insert(hook.hook_id)).copied().collect()
    }
}

#[cfg(test)]
mod tests;
