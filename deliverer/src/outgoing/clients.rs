//! One client per origin and vetted address, so that the checked address is the dialled one. A kept
//! connection is reused only for the address it leads to (ruling 18, at delivery).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::subscription::{Target, TargetHost};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, retry};
use rustls::ClientConfig;
use tokio::time::Instant;

/// Clients that are kept, at most. The client that was idle longest is dropped first.
const MAX_CLIENTS: usize = 1_024;

/// Idle time of a client. A client that was idle longer is dropped when another client is made.
const CLIENT_IDLE: Duration = Duration::from_secs(90);

/// Idle time of a connection. Common receivers close theirs after five seconds, and a close that
/// crosses a request costs an attempt.
const CONNECTION_IDLE: Duration = Duration::from_secs(4);

/// Idle connections per origin: as many as may be in flight to one host (ruling 34, limits in
/// flight).
const MAX_IDLE_CONNECTIONS: usize = 256;

/// The clients that are kept.
pub(super) struct ClientCache {
    tls: ClientConfig,
    connect: Duration,
    egress: EgressAddresses,
    kept: Mutex<HashMap<ClientKey, CachedClient>>,
}

#[derive(PartialEq, Eq, Hash)]
struct ClientKey {
    https: bool,
    /// `None` if the target has an address instead of a name.
    name: Option<String>,
    at: SocketAddr,
}

struct CachedClient {
    client: Client,
    used: Instant,
}

impl ClientCache {
    pub(super) fn new(tls: ClientConfig, connect: Duration, egress: EgressAddresses) -> Self {
        Self { tls, connect, egress, kept: Mutex::default() }
    }

    /// The client that dials this address for this target, and no other address.
    ///
    /// # Errors
    /// None in practice: every client is made from the same parts.
    pub(super) fn client_dialling(
        &self,
        target: &Target,
        address: IpAddr,
    ) -> reqwest::Result<Client> {
        let key = ClientKey::new(target, address);
        let now = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.get_mut(&key) {
            found.used = now;
            return Ok(found.client.clone());
        }
        let client = self.make_client(key.at)?;
        make_room(&mut kept, now);
        kept.insert(key, CachedClient { client: client.clone(), used: now });
        Ok(client)
    }

    /// Whether a connection to this address may leave from here.
    pub(super) fn can_reach(&self, address: IpAddr) -> bool {
        self.egress.can_reach(address)
    }

    /// Drops all clients with their idle connections. Requests under way keep theirs.
    pub(super) fn forget_all(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    #[expect(clippy::disallowed_methods, reason = "this is deliverer::outgoing")]
    fn make_client(&self, at: SocketAddr) -> reqwest::Result<Client> {
        Client::builder()
            .dns_resolver(PinnedAddress(at))
            .local_address(self.egress.for_client(at.ip()))
            .no_proxy()
            .redirect(Policy::none())
            .retry(retry::never())
            .referer(false)
            .http1_only()
            .tls_backend_preconfigured(self.tls.clone())
            .connect_timeout(self.connect)
            .pool_idle_timeout(CONNECTION_IDLE)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .build()
    }
}

/// The addresses that connections leave from. Clients of one family use them in turn.
pub(super) struct EgressAddresses {
    bound: Vec<IpAddr>,
    next: AtomicUsize,
}

impl EgressAddresses {
    pub(super) fn new(bound: Vec<IpAddr>) -> Self {
        Self { bound, next: AtomicUsize::new(0) }
    }

    fn of_family(&self, to: IpAddr) -> impl Iterator<Item = IpAddr> {
        self.bound.iter().copied().filter(move |from| from.is_ipv4() == to.is_ipv4())
    }

    fn can_reach(&self, to: IpAddr) -> bool {
        self.bound.is_empty() || self.of_family(to).next().is_some()
    }

    /// The address of a new client. `None` stands for any.
    fn for_client(&self, to: IpAddr) -> Option<IpAddr> {
        let count = self.of_family(to).count();
        let turn = self.next.fetch_add(1, Ordering::Relaxed).checked_rem(count)?;
        self.of_family(to).nth(turn)
    }
}

impl ClientKey {
    fn new(target: &Target, address: IpAddr) -> Self {
        let name = match target.host() {
            TargetHost::Name(name) => Some(name),
            TargetHost::Ip(_) => None,
        };
        let https = target.url().scheme() == "https";
        Self { https, name, at: SocketAddr::new(address, target.port()) }
    }
}

fn make_room(kept: &mut HashMap<ClientKey, CachedClient>, now: Instant) {
    kept.retain(|_, client| now.duration_since(client.used) < CLIENT_IDLE);
    if kept.len() < MAX_CLIENTS {
        return;
    }
    if let Some(oldest) = kept.values().map(|client| client.used).min() {
        kept.retain(|_, client| client.used > oldest);
    }
}

/// Answers every name with the one vetted address, so that the client can dial no other.
struct PinnedAddress(SocketAddr);

impl Resolve for PinnedAddress {
    fn resolve(&self, _: Name) -> Resolving {
        let only: Addrs = Box::new(std::iter::once(self.0));
        Box::pin(std::future::ready(Ok(only)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients() -> ClientCache {
        ClientCache::new(
            super::super::tls::config(&[]).unwrap(),
            Duration::from_secs(5),
            EgressAddresses::new(Vec::new()),
        )
    }

    /// Each client takes an address of its family.
    #[test]
    fn clients_take_turns_at_egress_addresses() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let bound = ["203.0.113.1", "2001:db8::1", "203.0.113.2"].map(ip);
        let egress = EgressAddresses::new(bound.to_vec());
        let from: Vec<_> = (0..3).map(|_| egress.for_client(ip("9.9.9.9")).unwrap()).collect();
        assert_eq!(from, [bound[0], bound[2], bound[0]]);
        assert_eq!(egress.for_client(ip("2620::9")), Some(bound[1]));
        let only_v4 = EgressAddresses::new(vec![bound[0]]);
        assert!(only_v4.can_reach(ip("9.9.9.9")) && !only_v4.can_reach(ip("2620::9")));
        let any = EgressAddresses::new(Vec::new());
        assert!(any.can_reach(ip("2620::9")) && any.for_client(ip("2620::9")).is_none());
    }

    fn key(port: u16) -> ClientKey {
        let at = SocketAddr::from(([9, 9, 9, 9], port));
        ClientKey { https: true, name: None, at }
    }

    #[tokio::test]
    async fn the_oldest_client_makes_room() {
        let client = clients().make_client(key(0).at).unwrap();
        let start = Instant::now();
        let mut kept = HashMap::new();
        for port in 0..=MAX_CLIENTS as u16 {
            let used = start + Duration::from_millis(port.into());
            make_room(&mut kept, used);
            kept.insert(key(port), CachedClient { client: client.clone(), used });
        }
        assert_eq!(kept.len(), MAX_CLIENTS);
        assert!(!kept.contains_key(&key(0)) && kept.contains_key(&key(1)));

        make_room(&mut kept, start + CLIENT_IDLE + Duration::from_millis(500));
        assert!(!kept.contains_key(&key(500)) && kept.contains_key(&key(501)));
    }
}
