//! How much is in flight at once, and whose turn it is (ruling 34), over all processes.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use deliverer::attempt::ClaimedAttempt;
use deliverer::claim::{claim_due, next_due};
use deliverer::{DelivererContext, SendLimits};
use domain::delivery::pressure::HostCaps;
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Firm, Receiver, World, activity, later};
use uuid::Uuid;

const CAPS: HostCaps = HostCaps { per_firm_and_host: 5, per_host: 8 };

fn deliverer(world: &World, caps: HostCaps) -> DelivererContext {
    let mut deliverer = world.deliverer().clone();
    deliverer.settings.caps = caps;
    deliverer
}

/// A firm with so many subscriptions to one host, and so many responses.
async fn busy_firm(world: &World, host: &str, hooks: usize, responses: usize) -> Firm {
    let firm = world.firm().await;
    for hook in 0..hooks {
        world.subscribe(&firm, &format!("http://{host}:7777/{hook}")).await;
    }
    submit(world, &firm, responses).await;
    firm
}

fn by_firm(claimed: &[ClaimedAttempt]) -> HashMap<Uuid, usize> {
    let mut counts = HashMap::new();
    for one in claimed {
        *counts.entry(one.firm_id).or_default() += 1;
    }
    counts
}

/// Claims by many tasks of a process at once, until nothing is due that there is room for.
async fn race(deliverer: &DelivererContext, limits: &SendLimits) -> Vec<ClaimedAttempt> {
    let mut all = Vec::new();
    loop {
        let claims = join_all((0..6).map(|_| claim_due(deliverer, limits))).await;
        let got: Vec<ClaimedAttempt> = claims.into_iter().flat_map(Result::unwrap).collect();
        let now = deliverer.clock.now().get();
        let due = next_due(deliverer, limits).await.unwrap().is_some_and(|due_at| due_at <= now);
        if got.is_empty() && !due {
            return all;
        }
        all.extend(got);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_claims_keep_the_hosts_limits() {
    let world = World::new().await;
    let deliverer = deliverer(&world, CAPS);
    let limits = SendLimits::alone(deliverer.settings);
    for _ in 0..8 {
        note_answer(&limits, "127.0.0.1");
    }
    let mut firms = Vec::new();
    for _ in 0..3 {
        firms.push(busy_firm(&world, "127.0.0.1", 2, 12).await.id);
    }
    firms.push(busy_firm(&world, "127.0.0.2", 1, 12).await.id);
    for round in 0..8 {
        let claimed = race(&deliverer, &limits).await;
        let counts = by_firm(&claimed);
        let of = |firm: &Uuid| counts.get(firm).copied().unwrap_or_default();
        let to_first: usize = firms[..3].iter().map(of).sum();
        assert_eq!(to_first, CAPS.per_host, "round {round}");
        assert!(firms[..3].iter().all(|firm| of(firm) <= CAPS.per_firm_and_host));
        assert_eq!(of(&firms[3]), if round < 2 { 5 } else { 2 * usize::from(round == 2) });
        // They are answered, and leave their places.
        drop(claimed);
    }
}

/// Ruling 42: after a kill, new deliveries once waited for the leases of the dead process to end.
/// Its own deliveries are sent again when the leases end.
#[tokio::test]
async fn a_dead_process_holds_no_slots() {
    let world = World::new().await;
    let deliverer = deliverer(&world, CAPS);
    let firm = busy_firm(&world, "127.0.0.1", 1, 8).await;
    let dead = SendLimits::alone(deliverer.settings);
    let held = claim_due(&deliverer, &dead).await.unwrap();
    assert_eq!(by_firm(&held), HashMap::from([(firm.id, 5)]));
    assert!(claim_due(&deliverer, &dead).await.unwrap().is_empty());
    assert_eq!(next_due(&deliverer, &dead).await.unwrap(), None, "full, so nothing is due");

    let restarted = SendLimits::alone(deliverer.settings);
    let new = claim_due(&deliverer, &restarted).await.unwrap();
    assert_eq!(new.len(), 3, "it has all its places");
    drop(new);
    world.pass(Duration::from_secs(121));
    world.end_leases().await;
    let again = claim_due(&deliverer, &restarted).await.unwrap();
    assert_eq!(again.len(), 5);
    assert!(again.iter().all(|one| one.number == 2));
}

/// F3: the firm with the most work leaves a quarter of the permits to the others.
#[tokio::test]
async fn f3_a_busy_firm_leaves_spare_permits() {
    let world = World::new().await;
    let deliverer = deliverer(&world, HostCaps::default());
    let limits = responsive(&world, 16);
    let hog = world.firm().await;
    for host in ["127.0.0.1", "127.0.0.2"] {
        world.subscribe(&hog, &format!("http://{host}:7777/")).await;
    }
    submit(&world, &hog, 16).await;
    let held = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(by_firm(&held), HashMap::from([(hog.id, 12)]));
    assert!(claim_due(&deliverer, &limits).await.unwrap().is_empty());
    let other = busy_firm(&world, "127.0.0.3", 1, 8).await;
    let claimed = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(by_firm(&claimed), HashMap::from([(other.id, 2)]), "two are for other hosts");
}

/// The limits of a process to which the hosts of these tests have answered.
fn responsive(world: &World, permits: usize) -> SendLimits {
    let limits = world.limits(permits);
    for host in 1..=9 {
        note_answer(&limits, &format!("127.0.0.{host}"));
    }
    limits
}

fn note_answer(limits: &SendLimits, host: &str) {
    let now = Instant::now();
    limits.note_answer(host, now, now);
}

/// The host has not answered in so many rounds.
fn note_silence(limits: &SendLimits, host: &str, rounds: u32) {
    let mut began_at = Instant::now();
    for _ in 0..rounds {
        let ended_at = began_at + Duration::from_secs(10);
        limits.note_silence(host, began_at, ended_at);
        began_at = ended_at;
    }
}

/// 300 firms at one host once held all permits, each of them within its share.
#[tokio::test]
async fn many_firms_at_one_host_leave_permits() {
    let world = World::new().await;
    let deliverer = deliverer(&world, HostCaps::default());
    let limits = responsive(&world, 16);
    for _ in 0..20 {
        busy_firm(&world, "127.0.0.1", 1, 2).await;
    }
    let held = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(held.len(), 12);
    assert!(claim_due(&deliverer, &limits).await.unwrap().is_empty());
    let other = busy_firm(&world, "127.0.0.2", 1, 8).await;
    let claimed = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(by_firm(&claimed), HashMap::from([(other.id, 1)]), "each of 13 firms");
}

#[tokio::test]
async fn a_silent_host_keeps_two_probes() {
    let world = World::new().await;
    let deliverer = deliverer(&world, HostCaps::default());
    let limits = responsive(&world, 64);
    busy_firm(&world, "127.0.0.1", 1, 40).await;
    note_silence(&limits, "127.0.0.1", 5);
    let probes = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(probes.len(), 2);
    assert!(claim_due(&deliverer, &limits).await.unwrap().is_empty());
    assert_eq!(next_due(&deliverer, &limits).await.unwrap(), None, "nothing is due for it");
    drop(probes);
    note_answer(&limits, "127.0.0.1");
    note_answer(&limits, "127.0.0.1");
    assert_eq!(claim_due(&deliverer, &limits).await.unwrap().len(), 3, "it grows with the answers");
}

/// So many lanes to hosts of their own, each with one retry that is due.
async fn retries_elsewhere(world: &World, hosts: usize) {
    let firm = world.firm().await;
    for host in 0..hosts {
        world.subscribe(&firm, &format!("http://127.1.{}.{}:7777/", host / 250, host % 250)).await;
    }
    submit(world, &firm, 1).await;
    let retried = format!("update outbox set tries = 1 where firm_id = '{}'", firm.id);
    world.change_database(&retried).await;
}

async fn submit(world: &World, firm: &Firm, responses: usize) {
    let submitted = |id: Uuid| {
        let data = json!({"response_id": id, "form_id": firm.form,
                          "submitted_at": "2026-11-01T12:00:00Z"});
        activity(firm.id, "response.submitted", data)
    };
    let events: Vec<_> = (0..responses).map(|_| submitted(world.id())).collect();
    world.report(&events).await.ok();
}

/// They take half of the permits. A process that starts while many hosts are silent knows none of
/// them.
#[tokio::test]
async fn retries_to_unknown_hosts_leave_permits() {
    let world = World::new().await;
    let deliverer = deliverer(&world, HostCaps::default());
    let limits = responsive(&world, 16);
    retries_elsewhere(&world, 40).await;
    let mut claimed = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(claimed.len(), 8);
    assert!(claim_due(&deliverer, &limits).await.unwrap().is_empty());
    let other = busy_firm(&world, "127.0.0.1", 1, 4).await;
    let to_other = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(by_firm(&to_other), HashMap::from([(other.id, 4)]));
    drop(to_other);
    let mut attempted: Vec<Uuid> = Vec::new();
    while !claimed.is_empty() {
        attempted.extend(claimed.iter().map(|one| one.lane_id));
        drop(claimed);
        claimed = claim_due(&deliverer, &limits).await.unwrap();
    }
    let distinct: HashSet<&Uuid> = attempted.iter().collect();
    assert_eq!((attempted.len(), distinct.len()), (40, 40), "each host had its turn");
}

/// Its lanes wait in a queue of their own, which other silent hosts have filled too.
#[tokio::test]
async fn an_answer_unparks_a_silent_hosts_lanes() {
    let world = World::new().await;
    let deliverer = deliverer(&world, HostCaps::default());
    let limits = responsive(&world, 16);
    retries_elsewhere(&world, 8).await;
    let held = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(held.len(), 8, "there is no room for other silent hosts");
    note_silence(&limits, "127.0.0.1", 1);
    let back = busy_firm(&world, "127.0.0.1", 1, 2).await;
    assert!(claim_due(&deliverer, &limits).await.unwrap().is_empty());
    let parked = "lanes where host = '127.0.0.1' and parked_in = 'u:127.0.0.1'";
    assert_eq!(world.count(parked).await, 1);
    assert!(claim_due(&deliverer, &limits).await.unwrap().is_empty());
    note_answer(&limits, "127.0.0.1");
    assert!(next_due(&deliverer, &limits).await.unwrap().is_some());
    let claimed = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(by_firm(&claimed), HashMap::from([(back.id, 2)]));
}

/// More lanes than a claim reads stand before another host's, and are parked out of the way.
#[tokio::test]
async fn a_paused_hosts_lanes_hide_no_others() {
    let world = World::new().await;
    let deliverer = deliverer(&world, HostCaps::default());
    let limits = responsive(&world, 16);
    let paused = busy_firm(&world, "127.0.0.1", 1, 1).await;
    sqlx::query(
        "insert into lanes (lane_id, firm_id, kind, host, due_at)
         select gen_random_uuid(), gen_random_uuid(), 'hook', '127.0.0.1', $1 - interval '1 hour'
           from generate_series(1, 2100)",
    )
    .bind(world.clock.now().get())
    .execute(world.pool())
    .await
    .unwrap();
    sqlx::query(
        "insert into pauses (pause_id, kind, host, reason, actor, paused_at)
         select gen_random_uuid(), 'host', '127.0.0.1', 'test', 'operator:ann', $1",
    )
    .bind(world.clock.now().get())
    .execute(world.pool())
    .await
    .unwrap();
    let other = busy_firm(&world, "127.0.0.2", 1, 1).await;
    // No wake names the other host's lane.
    sqlx::query(
        "with woken as (delete from lane_wakes) update lanes set due_at = $1 where due_at is null",
    )
    .bind(world.clock.now().get())
    .execute(world.pool())
    .await
    .unwrap();
    let claimed = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(by_firm(&claimed), HashMap::from([(other.id, 1)]));
    world.change_database("delete from pauses").await;
    let mut claimed = HashMap::new();
    for _ in 0..300 {
        claimed.extend(by_firm(&claim_due(&deliverer, &limits).await.unwrap()));
    }
    assert_eq!(claimed, HashMap::from([(paused.id, 1)]));
}

/// A claim takes a few queues of silent hosts. Queues in which all lanes are paused take no place.
#[tokio::test]
async fn a_paused_firm_hides_no_silent_host() {
    let world = World::new().await;
    let deliverer = deliverer(&world, HostCaps::default());
    let limits = responsive(&world, 16);
    let other = busy_firm(&world, "127.0.0.2", 1, 1).await;
    let park = "with woken as (delete from lane_wakes)
                update lanes set parked_in = 'u:' || host, due_at = $1";
    sqlx::query(park).bind(world.clock.now().get()).execute(world.pool()).await.unwrap();
    sqlx::query(
        "insert into lanes (lane_id, firm_id, kind, host, due_at, parked_in)
         select gen_random_uuid(), $2, 'hook', '0.0.0.' || n, $1, 'u:0.0.0.' || n
           from generate_series(1, 20) n",
    )
    .bind(world.clock.now().get())
    .bind(Uuid::nil())
    .execute(world.pool())
    .await
    .unwrap();
    sqlx::query(
        "insert into pauses (pause_id, kind, firm_id, reason, actor, paused_at)
         select gen_random_uuid(), 'firm', $2, 'test', 'operator:ann', $1",
    )
    .bind(world.clock.now().get())
    .bind(Uuid::nil())
    .execute(world.pool())
    .await
    .unwrap();
    let claimed = claim_due(&deliverer, &limits).await.unwrap();
    assert_eq!(by_firm(&claimed), HashMap::from([(other.id, 1)]));
}

/// Ruling 28: waiting deliveries of a suspended firm are cancelled after 72 hours, and so are later
/// ones.
#[tokio::test]
async fn a_long_suspension_cancels_the_queue() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    let report = async |kind, second| {
        world.report_one(later(activity(firm.id, kind, json!({})), second)).await;
    };
    report("firm.suspended", 1).await;
    world.pass(Duration::from_secs(72 * 3_600 - 1));
    assert_eq!(world.deliver().await, 0);
    assert_eq!(world.delivery_states().await, [("pending".to_owned(), None)]);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.deliver().await, 0);
    let cancelled = ("cancelled".to_owned(), Some("firm_suspended".to_owned()));
    assert_eq!(world.delivery_states().await, std::slice::from_ref(&cancelled));
    world.submit(&firm).await;
    world.deliver().await;
    assert_eq!(world.delivery_states().await, [cancelled.clone(), cancelled.clone()]);
    report("firm.resumed", 2).await;
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);
    let delivered = ("delivered".to_owned(), None);
    assert_eq!(world.delivery_states().await, [cancelled.clone(), cancelled, delivered]);
}

/// A suspension that was reported again once gave the queue another 72 hours.
#[tokio::test]
async fn a_repeated_suspension_extends_no_wait() {
    let world = World::new().await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    let of_firm = |kind, second| later(activity(firm.id, kind, json!({})), second);
    let report = async |events: &[Value], accepted| {
        let answer = world.report(events).await;
        assert_eq!((answer.status.as_u16(), &answer.body["accepted"]), (202, &json!(accepted)));
    };
    report(&[of_firm("firm.suspended", 1)], 1).await;
    world.pass(Duration::from_hours(48));
    report(&[of_firm("firm.suspended", 9)], 1).await;
    report(&[of_firm("firm.resumed", 5)], 0).await;
    world.pass(Duration::from_hours(24));
    assert_eq!(world.deliver().await, 0);
    let cancelled = ("cancelled".to_owned(), Some("firm_suspended".to_owned()));
    assert_eq!(world.delivery_states().await, std::slice::from_ref(&cancelled));

    report(&[of_firm("firm.resumed", 10), of_firm("firm.suspended", 11)], 2).await;
    world.submit(&firm).await;
    world.pass(Duration::from_hours(71));
    assert_eq!(world.deliver().await, 0);
    let waiting = ("pending".to_owned(), None);
    assert_eq!(world.delivery_states().await, [cancelled.clone(), waiting], "this one began anew");
    world.pass(Duration::from_hours(1));
    world.deliver().await;
    assert_eq!(world.delivery_states().await, [cancelled.clone(), cancelled]);
}
