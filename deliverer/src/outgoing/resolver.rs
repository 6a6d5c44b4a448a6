//! The addresses of a name that may be dialled (ruling 16, public address; ruling 18, at delivery).
//!
//! The resolver fails closed: without an answer there is no address. The machine's hosts file comes
//! first, as in the system's own resolver. A name in that file never reaches DNS.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use domain::delivery::NetworkError;
use domain::subscription::AllowedTargets;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
    ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver};

use super::config::DnsServers;

/// Addresses of one host that are dialled, at most (case C13).
const MAX_ADDRESSES: usize = 8;

/// Repeats of a look-up while its time lasts.
const LOOKUP_REPEATS_MAX: u32 = 2;

/// The longest time for which an answer is kept, whatever its time to live. A name that has become
/// private is noticed within this time.
const TTL_MAX: Duration = Duration::from_secs(300);

/// The longest time for which a missing answer is kept. A new name is noticed within this time.
const NEGATIVE_TTL_MAX: Duration = Duration::from_secs(30);

/// Finds the addresses of names, and drops those that may not be dialled.
pub(super) struct VettingResolver {
    hosts: Hosts,
    /// `None` on a machine without resolver configuration. Only look-ups fail there.
    dns: Option<TokioResolver>,
    within: Duration,
}

impl VettingResolver {
    pub(super) fn new(names: DnsServers, within: Duration) -> Self {
        Self {
            hosts: Hosts::from_system().unwrap_or_default(),
            dns: dns_resolver(names, within),
            within,
        }
    }

    /// The addresses of a name that may be dialled, in their order.
    ///
    /// # Errors
    /// No answer in time, or an answer without an address that may be dialled.
    pub(super) async fn vetted_addresses(
        &self,
        name: &str,
        allowed: &AllowedTargets,
    ) -> Result<Vec<IpAddr>, NetworkError> {
        vet_addresses(self.look_up(name).await.ok_or(NetworkError::Dns)?, allowed)
    }

    async fn look_up(&self, name: &str) -> Option<Vec<IpAddr>> {
        let mut name = Name::from_ascii(name).ok()?;
        // Fully qualified, because the machine's search domains are not the receiver's.
        name.set_fqdn(true);
        let written = self.in_hosts_file(&name);
        if !written.is_empty() {
            return Some(written);
        }
        let answer = tokio::time::timeout(self.within, self.dns.as_ref()?.lookup_ip(name)).await;
        Some(answer.ok()?.ok()?.iter().collect())
    }

    fn in_hosts_file(&self, name: &Name) -> Vec<IpAddr> {
        [RecordType::A, RecordType::AAAA]
            .into_iter()
            .filter_map(|kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind)))
            .flat_map(|found| {
                found
                    .answers()
                    .iter()
                    .filter_map(|record| record.data.ip_addr())
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

/// Drops private addresses (ruling 18, at delivery).
fn vet_addresses(
    mut answers: Vec<IpAddr>,
    allowed: &AllowedTargets,
) -> Result<Vec<IpAddr>, NetworkError> {
    if answers.is_empty() {
        return Err(NetworkError::Dns);
    }
    answers.retain(|ip| allowed.permits(*ip));
    answers.truncate(MAX_ADDRESSES);
    if answers.is_empty() { Err(NetworkError::TargetRefusedByDns) } else { Ok(answers) }
}

fn dns_resolver(names: DnsServers, within: Duration) -> Option<TokioResolver> {
    let builder = match names {
        DnsServers::System => TokioResolver::builder_tokio(),
        DnsServers::Nameserver(at) => Ok(TokioResolver::builder_with_config(
            ResolverConfig::from_name_servers(vec![name_server(at)]),
            TokioRuntimeProvider::default(),
        )),
    };
    let built = builder.and_then(|mut builder| {
        set_options(builder.options_mut(), within);
        builder.build()
    });
    built
        .inspect_err(|error| tracing::warn!(%error, "no resolver: names cannot be delivered to"))
        .ok()
}

fn name_server(at: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = at.port();
        connection
    });
    NameServerConfig::new(at.ip(), true, connections.into())
}

fn set_options(options: &mut ResolverOpts, within: Duration) {
    options.timeout = within / (LOOKUP_REPEATS_MAX + 1);
    options.attempts = LOOKUP_REPEATS_MAX as usize;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Never;
    options.positive_max_ttl = Some(TTL_MAX);
    options.negative_max_ttl = Some(NEGATIVE_TTL_MAX);
    // At this limit hickory asks again in a loop that never yields. So the limit is one that is
    // never reached.
    options.max_active_requests = usize::from(u16::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A resolver that knows this hosts file and asks no name server.
    fn knowing(hosts_file: &str) -> VettingResolver {
        let mut hosts = Hosts::default();
        hosts.read_hosts_conf(hosts_file.as_bytes()).unwrap();
        VettingResolver { hosts, dns: None, within: Duration::ZERO }
    }

    async fn vetted(resolver: &VettingResolver, name: &str) -> Result<Vec<IpAddr>, NetworkError> {
        resolver.vetted_addresses(name, &AllowedTargets::default()).await
    }

    #[tokio::test]
    async fn addresses_of_the_hosts_file_are_vetted() {
        let resolver = knowing("9.9.9.9 a.example\n2620:fe::fe a.example\n127.0.0.1 b.example\n");
        let both = ["9.9.9.9".parse().unwrap(), "2620:fe::fe".parse().unwrap()];
        assert_eq!(vetted(&resolver, "a.example").await, Ok(both.into()));
        let refused = Err(NetworkError::TargetRefusedByDns);
        assert_eq!(vetted(&resolver, "b.example").await, refused);
    }

    #[tokio::test]
    async fn without_a_name_server_look_ups_fail() {
        assert_eq!(vetted(&knowing(""), "a.example").await, Err(NetworkError::Dns));
    }

    #[test]
    fn only_the_first_eight_addresses_are_kept() {
        let all: Vec<IpAddr> = (1..=100).map(|n| [9, 9, 9, n].into()).collect();
        let kept = vet_addresses(all.clone(), &AllowedTargets::default()).unwrap();
        assert_eq!(kept, all[..MAX_ADDRESSES]);
    }
}
