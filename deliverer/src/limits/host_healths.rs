//! The health of hosts, as this process's attempts show it, in memory.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use domain::delivery::pressure::HostCaps;
use domain::delivery::pressure::host_health::{HostHealth, HostStanding};

use crate::claim::UNRESPONSIVE_QUEUES;

/// Hosts that are remembered, at most. An entry takes some 100 bytes.
const HOSTS_MAX: usize = 100_000;

/// Recovered hosts that one claim asks for.
const RECOVERED_MAX: usize = 256;

/// The health of each host that this process has sent to.
#[derive(Debug, Default)]
pub(super) struct HostHealths(Mutex<KnownHosts>);

#[derive(Debug, Default)]
struct KnownHosts {
    healths: HashMap<String, HostHealth>,
    /// Queues of lanes whose hosts answer promptly again. Their lanes are parked until a claim
    /// takes them.
    recovered_queues: BTreeSet<String>,
    /// The last one that a claim has asked for.
    last_asked: String,
}

impl HostHealths {
    /// The health of these hosts. Unknown ones are left out.
    pub(super) fn known_healths<'a>(
        &self,
        hosts: impl Iterator<Item = &'a str>,
    ) -> HashMap<String, HostHealth> {
        let known = self.lock_hosts();
        hosts.filter_map(|host| Some((host.to_owned(), *known.healths.get(host)?))).collect()
    }

    /// Queues of hosts that have recovered, some at a time. The next ones follow after
    /// [`Self::note_asked`].
    pub(super) fn recovered_queues(&self) -> Vec<String> {
        let known = self.lock_hosts();
        let KnownHosts { recovered_queues, last_asked, .. } = &*known;
        let behind = (Bound::Excluded(last_asked.as_str()), Bound::Unbounded);
        let mut asked: Vec<String> =
            recovered_queues.range::<str, _>(behind).take(RECOVERED_MAX).cloned().collect();
        let before = (Bound::Unbounded, Bound::Included(last_asked.as_str()));
        let others = recovered_queues.range::<str, _>(before);
        asked.extend(others.take(RECOVERED_MAX - asked.len()).cloned());
        asked
    }

    /// Notes that a claim has asked for these queues, and forgets those that were empty.
    pub(super) fn note_asked(&self, asked: &[String], drained: &[String]) {
        let Some(last) = asked.last() else { return };
        let mut known = self.lock_hosts();
        last.clone_into(&mut known.last_asked);
        for queue in drained {
            known.recovered_queues.remove(queue);
        }
    }

    /// Names the visited queues of hosts that answer. Another process may have parked their lanes,
    /// or this one before its restart.
    pub(super) fn note_visited(&self, queues: &[String]) {
        let mut known = self.lock_hosts();
        let KnownHosts { healths, recovered_queues, .. } = &mut *known;
        let answers = |queue: &&String| {
            let host = queue.strip_prefix(UNRESPONSIVE_QUEUES).unwrap_or_default();
            healths.get(host).is_some_and(|health| health.standing == HostStanding::Responsive)
        };
        recovered_queues.extend(queues.iter().filter(answers).cloned());
    }

    pub(super) fn note_answer(
        &self,
        host: &str,
        began_at: Instant,
        ended_at: Instant,
        caps: HostCaps,
    ) {
        self.change_health(host, caps, |health| {
            health.note_answer(began_at, ended_at, caps.per_host);
        });
    }

    pub(super) fn note_silence(
        &self,
        host: &str,
        began_at: Instant,
        ended_at: Instant,
        caps: HostCaps,
    ) {
        self.change_health(host, caps, |health| health.note_silence(began_at, ended_at));
    }

    pub(super) fn note_retry(&self, host: &str, caps: HostCaps) {
        self.change_health(host, caps, HostHealth::note_retry);
    }

    /// Changes a host's health. If there are too many hosts, those that answer are forgotten,
    /// because they become known again with their next answer.
    fn change_health(&self, host: &str, caps: HostCaps, change: impl FnOnce(&mut HostHealth)) {
        let mut known = self.lock_hosts();
        let KnownHosts { healths, recovered_queues, .. } = &mut *known;
        if let Some(health) = healths.get_mut(host) {
            let before = health.standing;
            change(health);
            note_change(recovered_queues, host, before, health.standing);
            return;
        }
        if healths.len() >= HOSTS_MAX {
            healths.retain(|_, health| health.standing == HostStanding::Unresponsive);
        }
        if healths.len() >= HOSTS_MAX {
            healths.clear();
        }
        let mut health = HostHealth::unknown(caps.per_firm_and_host);
        change(&mut health);
        note_change(recovered_queues, host, HostStanding::Unknown, health.standing);
        healths.insert(host.to_owned(), health);
    }

    fn lock_hosts(&self) -> MutexGuard<'_, KnownHosts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names the queue of a host that has begun to answer. Its lanes may have been parked while it was
/// unknown.
fn note_change(
    recovered_queues: &mut BTreeSet<String>,
    host: &str,
    before: HostStanding,
    after: HostStanding,
) {
    let queue = || format!("{UNRESPONSIVE_QUEUES}{host}");
    match after {
        HostStanding::Responsive if before != after => {
            recovered_queues.insert(queue());
        }
        HostStanding::Unresponsive if before == HostStanding::Responsive => {
            recovered_queues.remove(&queue());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn too_many_hosts_are_forgotten() {
        let (known, caps) = (HostHealths::default(), HostCaps::default());
        let begin = Instant::now();
        known.note_silence("silent", begin, begin + Duration::from_secs(10), caps);
        for host in 1..=HOSTS_MAX {
            known.note_answer(&host.to_string(), begin, begin, caps);
        }
        assert!(known.known_healths(["silent"].into_iter()).contains_key("silent"));
        assert!(known.lock_hosts().healths.len() < HOSTS_MAX);
        for host in 0..=HOSTS_MAX {
            known.note_retry(&format!("{host}.example"), caps);
        }
        assert!(known.lock_hosts().healths.len() < HOSTS_MAX);
    }

    #[test]
    fn a_recovered_queue_is_named_until_empty() {
        let (known, caps) = (HostHealths::default(), HostCaps::default());
        let begin = Instant::now();
        let named = || known.recovered_queues();
        known.note_answer("a", begin, begin, caps);
        assert_eq!(named(), ["u:a"], "its lanes may have been parked while it was unknown");
        let late = begin + Duration::from_secs(11);
        known.note_silence("a", begin + Duration::from_secs(1), late, caps);
        assert!(named().is_empty());
        known.note_answer("a", late, late, caps);
        assert_eq!(named(), ["u:a"]);
        known.note_asked(&["u:a".to_owned()], &["u:a".to_owned()]);
        known.note_answer("a", late, late, caps);
        assert!(named().is_empty());
        known.note_visited(&["u:a".to_owned(), "u:b".to_owned()]);
        assert_eq!(named(), ["u:a"], "another process has parked its lanes");
    }

    #[test]
    fn many_recovered_hosts_take_turns() {
        let (known, caps) = (HostHealths::default(), HostCaps::default());
        let begin = Instant::now();
        for host in 0..=RECOVERED_MAX {
            known.note_answer(&format!("{host:03}"), begin, begin, caps);
        }
        let first = known.recovered_queues();
        assert_eq!(first, known.recovered_queues(), "nobody has asked for them yet");
        known.note_asked(&first, &[]);
        let second = known.recovered_queues();
        assert_eq!((first.len(), second.len()), (RECOVERED_MAX, RECOVERED_MAX));
        assert_eq!(second[..2], ["u:256", "u:000"]);
    }
}
