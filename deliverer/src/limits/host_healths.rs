//! The health of hosts, as this process's attempts show it, in memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::pressure::HostCaps;
use domain::pressure::host_health::{HostHealth, HostStanding};

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
}

impl HostHealths {
    /// The health of these hosts. Unknown ones are left out.
    pub(super) fn read<'a>(
        &self,
        hosts: impl Iterator<Item = &'a str>,
    ) -> HashMap<String, HostHealth> {
        let known = self.lock();
        hosts.filter_map(|host| Some((host.to_owned(), *known.healths.get(host)?))).collect()
    }

    /// Queues of hosts that have recovered.
    pub(super) fn recovered_queues(&self) -> Vec<String> {
        self.lock().recovered_queues.iter().take(RECOVERED_MAX).cloned().collect()
    }

    /// Forgets these queues.
    pub(super) fn forget_drained(&self, queues: &[String]) {
        if !queues.is_empty() {
            self.lock().recovered_queues.retain(|queue| !queues.contains(queue));
        }
    }

    pub(super) fn note_answer(&self, host: &str, took: Duration, caps: HostCaps) {
        self.change(host, caps, |health| health.note_answer(took, caps.per_host));
    }

    pub(super) fn note_silence(
        &self,
        host: &str,
        began_at: Instant,
        ended_at: Instant,
        caps: HostCaps,
    ) {
        self.change(host, caps, |health| health.note_silence(began_at, ended_at));
    }

    pub(super) fn note_retry(&self, host: &str, caps: HostCaps) {
        self.change(host, caps, HostHealth::note_retry);
    }

    /// Changes a host's health. If there are too many hosts, those that answer are forgotten,
    /// because they become known again with their next answer.
    fn change(&self, host: &str, caps: HostCaps, change: impl FnOnce(&mut HostHealth)) {
        let mut known = self.lock();
        let KnownHosts { healths, recovered_queues } = &mut *known;
        if let Some(health) = healths.get_mut(host) {
            let was = health.standing;
            change(health);
            match (was, health.standing) {
                (HostStanding::Unresponsive, HostStanding::Responsive) => {
                    recovered_queues.insert(unresponsive_queue(host));
                }
                (HostStanding::Responsive, HostStanding::Unresponsive) => {
                    recovered_queues.remove(&unresponsive_queue(host));
                }
                _ => {}
            }
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
        healths.insert(host.to_owned(), health);
    }

    fn lock(&self) -> MutexGuard<'_, KnownHosts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queue of parked lanes of an unresponsive host.
fn unresponsive_queue(host: &str) -> String {
    format!("u:{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_hosts_are_forgotten() {
        let (known, caps) = (HostHealths::default(), HostCaps::default());
        let begin = Instant::now();
        known.note_silence("silent", begin, begin + Duration::from_secs(10), caps);
        for host in 1..=HOSTS_MAX {
            known.note_answer(&host.to_string(), Duration::ZERO, caps);
        }
        assert!(known.read(["silent"].into_iter()).contains_key("silent"));
        assert!(known.lock().healths.len() < HOSTS_MAX);
        for host in 0..=HOSTS_MAX {
            known.note_retry(&format!("{host}.example"), caps);
        }
        assert!(known.lock().healths.len() < HOSTS_MAX);
    }

    #[test]
    fn a_host_that_answers_again_is_named_until_its_queue_is_empty() {
        let (known, caps) = (HostHealths::default(), HostCaps::default());
        let begin = Instant::now();
        known.note_answer("a", Duration::ZERO, caps);
        assert!(known.recovered_queues().is_empty());
        let fall_silent = || known.note_silence("a", begin, begin + Duration::from_secs(10), caps);
        fall_silent();
        known.note_answer("a", Duration::ZERO, caps);
        assert_eq!(known.recovered_queues(), ["u:a"]);
        fall_silent();
        assert!(known.recovered_queues().is_empty());
        known.note_answer("a", Duration::ZERO, caps);
        known.forget_drained(&["u:a".to_owned()]);
        assert!(known.recovered_queues().is_empty());
    }
}
