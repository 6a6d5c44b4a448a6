//! Target URLs of subscriptions. A subscription's target never changes, so it is read once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use projector::hooks;
use sqlx::PgConnection;
use uuid::Uuid;

/// Targets that are remembered, at most. With long URLs they take some megabytes.
const TARGETS_MAX: usize = 10_000;

/// By subscription.
pub(crate) type TargetsByHook = HashMap<Uuid, Arc<str>>;

/// The targets that this process has read.
#[derive(Debug, Default)]
pub struct KnownTargets(Mutex<TargetsByHook>);

impl KnownTargets {
    /// The targets of these subscriptions.
    pub(crate) async fn read_for_hooks(
        &self,
        connection: &mut PgConnection,
        mut hook_ids: HashSet<Uuid>,
    ) -> Result<TargetsByHook, sqlx::Error> {
        let mut targets = self.known_targets(&hook_ids);
        hook_ids.retain(|hook| !targets.contains_key(hook));
        let new: Vec<Uuid> = hook_ids.into_iter().collect();
        if !new.is_empty() {
            let read = hooks::target_urls(connection, &new).await?;
            let read: TargetsByHook =
                read.into_iter().map(|(hook, url)| (hook, url.into())).collect();
            self.remember_targets(&read);
            targets.extend(read);
        }
        Ok(targets)
    }

    fn known_targets(&self, hook_ids: &HashSet<Uuid>) -> TargetsByHook {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hook_ids.iter().filter_map(|hook| Some((*hook, Arc::clone(known.get(hook)?)))).collect()
    }

    /// Remembers new targets, and forgets all others if there are too many.
    fn remember_targets(&self, read: &TargetsByHook) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + read.len() > TARGETS_MAX {
            known.clear();
        }
        known.extend(read.iter().map(|(hook, url)| (*hook, Arc::clone(url))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_targets_make_room() {
        let known = KnownTargets::default();
        let target = |n: usize| (Uuid::from_u128(n as u128), Arc::from("https://a.test/"));
        known.remember_targets(&(0..TARGETS_MAX).map(target).collect());
        assert_eq!(known.known_targets(&[Uuid::from_u128(7)].into()).len(), 1);
        known.remember_targets(&TargetsByHook::from([target(TARGETS_MAX)]));
        let both = [7, TARGETS_MAX].map(|n| Uuid::from_u128(n as u128));
        assert_eq!(known.known_targets(&both.into()).into_keys().collect::<Vec<_>>(), [both[1]]);
    }
}
