//! The environment of the process changes no send: cases C21 and C22. A test here runs itself
//! again in a process with another environment, and does its work there.

use std::process::Command;

use deliverer::outgoing::{DnsServers, OutgoingClient, OutgoingConfig};
use domain::delivery::{AttemptAnswer, NetworkError};

use crate::support::certificates::Authority;
use crate::support::name_server::NameServer;
use crate::support::receiver::Receiver;
use crate::support::{OK, client, client_asking, config, delivery};

/// Marks the process that does the work.
const INSIDE: &str = "OUTGOING_TEST_INSIDE";

fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs one test of this binary again, with these variables.
async fn run_inside(test: &'static str, variables: Vec<(&'static str, String)>) {
    let run = move || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test]).env(INSIDE, "1");
        command.env_remove("NO_PROXY").env_remove("no_proxy");
        command.envs(variables).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn c21_a_proxy_is_not_asked() {
    if is_inside() {
        return delivers_by_address_and_by_name().await;
    }
    let proxy = Receiver::saying(OK).await;
    let names =
        ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let variables = names.map(|name| (name, format!("http://{}", proxy.at)));
    run_inside("environment::c21_a_proxy_is_not_asked", variables.into()).await;
    assert_eq!(proxy.connections().await, 0);
}

async fn delivers_by_address_and_by_name() {
    let receiver = Receiver::saying(OK).await;
    let dns = NameServer::knowing(&["127.0.0.1"]).await;
    let named = format!("http://hooks.example:{}/in", receiver.at.port());
    for target in [receiver.url("/in"), named] {
        let exchange = client_asking(dns.at).send(delivery(target)).await;
        assert_eq!(exchange.answer, AttemptAnswer::Status(200));
    }
    assert!(receiver.seen().iter().all(|seen| seen.path() == "/in"));
}

/// The process goes on, and trusts its own roots.
#[tokio::test]
async fn c22_without_roots_no_receiver_is_proven() {
    if is_inside() {
        return trusts_nobody_but_its_own_roots().await;
    }
    let nowhere = || "/nonexistent".to_owned();
    let variables = vec![("SSL_CERT_FILE", nowhere()), ("SSL_CERT_DIR", nowhere())];
    let test = "environment::c22_without_roots_no_receiver_is_proven";
    run_inside(test, variables).await;
}

async fn trusts_nobody_but_its_own_roots() {
    let authority = Authority::new();
    let server = authority.server(&["127.0.0.1"]);
    let receiver = Receiver::answering_tls(server, |_| OK.to_owned()).await;
    let target = format!("https://{}/in", receiver.at);
    let exchange = client().send(delivery(&target)).await;
    assert_eq!(exchange.answer, NetworkError::Tls.into());
    let exchange = authority.client().send(delivery(target)).await;
    assert_eq!(exchange.answer, AttemptAnswer::Status(200));
}

/// The machine's own resolver, whatever it is: a name that cannot exist is a failed look-up.
#[tokio::test]
async fn the_system_resolver_fails_closed() {
    let client =
        OutgoingClient::new(OutgoingConfig { names: DnsServers::System, ..config() }).unwrap();
    let exchange = client.send(delivery("https://nowhere.invalid/")).await;
    assert_eq!(exchange.answer, NetworkError::Dns.into());
}
