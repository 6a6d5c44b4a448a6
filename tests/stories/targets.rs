//! A target between the door and the wire: cases C11, C12 and C15.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::{DeliveryBridge, Service, TargetDns as Asked};
use deliverer::outgoing::{AttemptBudget, DnsServers, OutgoingClient, OutgoingConfig};
use domain::subscription::{AllowedTargets, Target};
use domain::values::AsOf;
use futures::future::BoxFuture;
use projector::as_of;
use serde_json::{Value, json};
use tests::{Firm, Receiver, World, make_request};
use tower::ServiceExt;
use uuid::Uuid;

use crate::name_server::{NameServer, Reply, parsed};

/// A client that asks this name server, and for which 127.0.0.1 alone is open.
fn asking(dns: &NameServer) -> OutgoingClient {
    let allowed = AllowedTargets::new(vec!["127.0.0.1/32".parse().unwrap()]).with_http();
    let budget = AttemptBudget { dns: Duration::from_millis(500), ..AttemptBudget::default() };
    let names = DnsServers::Nameserver(dns.at);
    OutgoingClient::new(OutgoingConfig { names, budget, ..OutgoingConfig::new(allowed) }).unwrap()
}

/// URLs and error of a delivery's last attempt, as history shows them.
async fn last_try(world: &World, firm: &Firm, delivery_id: Uuid) -> (Vec<String>, String) {
    let mut connection = world.pool().acquire().await.unwrap();
    let shown = as_of::find_delivery(&mut connection, firm.id, delivery_id, AsOf::NOW, &[]).await;
    let tries = shown.unwrap().unwrap().attempts;
    let last = tries.last().unwrap();
    let urls = last.hops.iter().filter_map(|hop| hop.url.clone()).collect();
    (urls, last.error.clone().unwrap_or_default())
}

/// C11: the fragment is echoed, and history shows the name in punycode.
#[tokio::test]
async fn c11_a_fragment_is_never_sent() {
    let dns = NameServer::knowing(&["127.0.0.1"]).await;
    let mut world = World::new().await;
    world.system.deliverer.outgoing = asking(&dns);
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let port = receiver.address().port();
    let target = format!("http://\u{430}pple.example:{port}/%0d%0aX:%20y?a=%23b#part");
    let body = json!({"target_url": target, "trigger": "form_submitted"});
    let made = world.create_hook(&firm, body).await;
    assert_eq!((made.status.as_u16(), &made.body["target_url"]), (201, &json!(target)));
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);

    let sent = receiver.received().remove(0);
    assert_eq!(sent.uri.to_string(), "/%0d%0aX:%20y?a=%23b");
    assert_eq!(sent.header("host"), format!("xn--pple-43d.example:{port}"));
    assert!(sent.headers.get("x").is_none());
    let id = sent.header("x-service-delivery").parse().unwrap();
    let shown = format!("http://xn--pple-43d.example:{port}/…");
    assert_eq!(last_try(&world, &firm, id).await, (vec![shown], String::new()));
}

/// The client that would deliver, asked by the door.
struct Door(OutgoingClient);

impl Asked for Door {
    fn prove_private<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, bool> {
        Box::pin(self.0.is_proven_private(target))
    }
}

/// The answer of `POST /hooks` when names are looked up here.
async fn subscribed(world: &World, firm: &Firm, dns: &NameServer) -> (u16, String) {
    let names = Arc::new(Door(asking(dns)));
    let service = world.service().clone();
    let deliveries = DeliveryBridge { target_dns: names, ..service.deliveries.clone() };
    let door = api::public::router(Service { deliveries, ..service });
    let body = json!({"target_url": "https://hooks.example/in", "trigger": "form_submitted"});
    let headers = [("x-api-key", &*firm.key)];
    let request = make_request("POST", "/api/v1/hooks", &headers, body.to_string());
    let answer = door.oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let bytes = axum::body::to_bytes(answer.into_body(), 65_536).await.unwrap();
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn c12_only_proof_refuses_a_subscription() {
    let world = World::new().await;
    let firm = world.firm().await;
    let private = Reply::Addresses(parsed(&["10.0.0.1", "fd00::1", "169.254.169.254"]));
    let refused = subscribed(&world, &firm, &NameServer::always(private).await).await;
    assert_eq!(refused, (400, "invalid_target".to_owned()));
    for proves_nothing in [
        Reply::Addresses(parsed(&["10.0.0.1", "9.9.9.9"])),
        Reply::Addresses(Vec::new()),
        Reply::ServFail,
        Reply::NxDomain,
        Reply::Silence,
    ] {
        let dns = NameServer::always(proves_nothing.clone()).await;
        let made = subscribed(&world, &firm, &dns).await;
        assert_eq!(made, (201, String::new()), "{proves_nothing:?}");
    }
}

/// C15: each attempt is refused, and nothing goes to the private address. The delivery arrives when
/// the name is public again.
#[tokio::test]
async fn c15_a_name_turned_private_is_refused() {
    let turned = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&turned);
    let dns = NameServer::start(move |_, _| {
        let address = ["127.0.0.1", "127.0.0.2"][now.load(Ordering::Relaxed)];
        Reply::Addresses(parsed(&[address]))
    })
    .await;
    let mut world = World::new().await;
    world.system.deliverer.outgoing = asking(&dns);
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let port = receiver.address().port();
    let private = TcpListener::bind(("127.0.0.2", port)).unwrap();
    private.set_nonblocking(true).unwrap();
    world.subscribe(&firm, &format!("http://hooks.example:{port}/in")).await;
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);
    assert_eq!(receiver.received().len(), 1, "public at first");

    turned.store(1, Ordering::Relaxed);
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);
    let id = sqlx::query_scalar("select delivery_id from deliveries where state = 'pending'");
    let id: Uuid = id.fetch_one(world.pool()).await.unwrap();
    for minutes in [1, 2, 4] {
        assert_eq!(last_try(&world, &firm, id).await.1, "target_refused");
        world.pass(Duration::from_secs(minutes * 60 - 1));
        assert_eq!(world.deliver().await, 0, "before {minutes} minutes have passed");
        world.pass(Duration::from_secs(1));
        assert_eq!(world.deliver().await, 1, "after {minutes} minutes");
    }
    assert_eq!(receiver.received().len(), 1);
    assert_eq!(private.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody came");

    turned.store(0, Ordering::Relaxed);
    world.pass(Duration::from_secs(8 * 60));
    assert_eq!(world.deliver().await, 1);
    let outcomes = ["retry", "retry", "retry", "retry", "delivered"].map(str::to_owned);
    assert_eq!(world.history(id).await, ("delivered".to_owned(), outcomes.to_vec()));
}
