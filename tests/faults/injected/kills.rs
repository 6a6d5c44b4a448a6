//! P5–P13 and P16: a delivery on its way, its process killed at each point.

use std::ops::RangeInclusive;

use deliverer::claim::claim_due;
use futures::future::{join, join_all};
use tests::{Receiver, Reply, cluster_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;
use tokio::sync::{Semaphore, oneshot};

use super::{CONNECT_WITHIN, FAST, LEASE, Scene};
use tests::process::{assert_killed, crash, serving, work};

/// Processes that start at a time: a dozen at once would wait for each other's connections.
static STARTING: Semaphore = Semaphore::const_new(3);

/// A kill at a crash point, and the state that must follow.
struct Kill {
    point: &'static str,
    role: &'static str,
    submitted: usize,
    status: u16,
    /// Whether another process had claimed all deliveries, and its leases have ended.
    claimed_before: bool,
    /// Deliveries queued, and requests at receivers, when the process is dead.
    left: (RangeInclusive<i64>, RangeInclusive<usize>),
    /// Requests at receivers, and tries without a recorded result, in the end.
    came_to: (RangeInclusive<usize>, RangeInclusive<i64>),
}

const fn kill(
    point: &'static str,
    submitted: usize,
    left: (i64, usize),
    came_to: (usize, i64),
) -> Kill {
    let ((queued, seen), (sent, interrupted)) = (left, came_to);
    Kill {
        point,
        role: "all",
        submitted,
        status: 200,
        claimed_before: false,
        left: (queued..=queued, seen..=seen),
        came_to: (sent..=sent, interrupted..=interrupted),
    }
}

/// The second 410 in a row; the first was recorded before.
const fn second_gone(point: &'static str) -> Kill {
    Kill { status: 410, ..kill(point, 1, (1, 2), (3, 1)) }
}

const KILLS: [Kill; 10] = [
    // E3: the next process spreads the rest. Deliveries that were spread before may be sent by
    // then.
    Kill {
        left: (0..=100, 0..=100),
        came_to: (150..=250, 0..=100),
        ..kill("spreading", 150, (100, 0), (150, 0))
    },
    // E4: no request was seen; the next try has the same id, when the lease has ended.
    kill("claimed", 3, (3, 0), (3, 3)),
    kill("signed", 3, (3, 0), (3, 3)),
    // E5: the receiver sees it twice.
    kill("answered", 1, (1, 1), (2, 1)),
    kill("recording", 1, (1, 1), (2, 1)),
    // E6: no resend.
    kill("recorded", 1, (0, 1), (1, 0)),
    // E7: of a count and its removal both are there, or neither.
    second_gone("lane_changed"),
    second_gone("recording"),
    // E5: the process dies while it takes back ended leases, and the next process takes them back.
    Kill { claimed_before: true, ..kill("interrupting", 2, (2, 0), (2, 2)) },
    // P16, of the read model there is.
    Kill { role: "projector", ..kill("following", 2, (2, 0), (2, 0)) },
];

/// E3 to E7: P5–P7, P10–P13, P16, and by the receivers P8 and P9. Repeats have the same bytes. All
/// leases are waited for at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e3_to_e7_kills_lose_no_delivery() {
    // Ten services, each with some 25 connections, and their worlds.
    let cluster = cluster_with(&[("max_connections", "500")]).await;
    let mut scenes = Vec::new();
    for kill in &KILLS {
        scenes.push((kill, Scene::on(cluster.database().await).await));
    }
    let half = half_a_body_taken(cluster.database().await);
    let whole = a_body_taken_and_nothing_said(cluster.database().await);
    let at_points = scenes.into_iter().map(|(kill, scene)| kill.happens(scene));
    join(join_all(at_points), join(half, whole)).await;
}

impl Kill {
    async fn happens(&self, mut scene: Scene) {
        let Self { point, .. } = self;
        scene.receiver.reply((0..4).map(|_| Reply::status(self.status)));
        if self.status == 410 {
            scene.submit(1).await;
            assert_eq!(scene.world.deliver().await, 1, "{point}");
        }
        scene.submit(self.submitted).await;
        if self.claimed_before {
            scene.is_claimed_and_left().await;
        }
        let role = [&FAST[..], &["--role", self.role]].concat();
        let turn = STARTING.acquire().await.unwrap();
        crash(serving(scene.database(), &role, &[]), point).await;
        drop(turn);

        let queued = scene.world.count("outbox").await;
        assert!(self.left.0.contains(&queued), "{point}: {queued} are queued");
        let seen = scene.receiver.received().len();
        assert!(self.left.1.contains(&seen), "{point}: {seen} requests before the end");
        assert_eq!(scene.removals().await, (0, 0), "{point}: no half of a removal");

        self.is_survived(&scene).await;
    }

    async fn is_survived(&self, scene: &Scene) {
        let Self { point, .. } = self;
        let _next = scene.service().await;
        scene.assert_held().await;
        let seen = scene.receiver.received().len();
        assert!(self.came_to.0.contains(&seen), "{point}: {seen} requests");
        let interrupted = scene.interrupted().await;
        assert!(self.came_to.1.contains(&interrupted), "{point}: {interrupted} interrupted");
        let is_gone = i64::from(self.status == 410);
        assert_eq!(scene.removals().await, (is_gone, is_gone), "{point}");
    }
}

impl Scene {
    /// A service that lives.
    async fn service(&self) -> Child {
        let _turn = STARTING.acquire().await.unwrap();
        work(self.database(), &FAST, &[]).await
    }

    /// Another process claimed all deliveries and went away. Its leases have ended.
    async fn is_claimed_and_left(&self) {
        let limits = self.world.limits(16);
        drop(claim_due(self.world.deliverer(), &limits).await.unwrap());
        let ended = "update outbox set leased_at = now() - interval '3 min',
                                       due_at = now() - interval '1 min'";
        self.world.change_database(ended).await;
        let statement = "update witness.claims set ends_at = now() - interval '1 min'";
        self.world.change_database(statement).await;
    }

    /// Tries without a recorded result.
    async fn interrupted(&self) -> i64 {
        self.world
            .count(
                "events where event_type = 'DeliveryAttempted'
                and payload->'DeliveryAttempted'->>'outcome' = 'interrupted'",
            )
            .await
    }

    /// Removals in the log, and closed lanes.
    async fn removals(&self) -> (i64, i64) {
        let logged = "select count(*) from events where event_type = 'SubscriptionRemoved'";
        let closed = "select count(*) from lanes where cancel_cause is not null";
        (self.world.ask_number(logged).await, self.world.ask_number(closed).await)
    }

    /// The only delivery came so often, the second time when its lease had ended.
    async fn assert_sent_again(&self, sent: usize) {
        let _next = self.service().await;
        self.assert_held().await;
        let received = self.receiver.received();
        assert_eq!((received.len(), self.interrupted().await), (sent, 1));
        if let [first, second] = &received[..] {
            assert!(second.arrived - first.arrived + CONNECT_WITHIN >= LEASE);
        }
    }
}

/// P9: the receiver takes everything and says nothing.
async fn a_body_taken_and_nothing_said(database: tests::TestDatabase) {
    let mut scene = Scene::on(database).await;
    scene.submit(1).await;
    scene.receiver.hold();
    let mut service = scene.service().await;
    scene.receiver.wait_for(1).await;
    service.start_kill().unwrap();
    assert_killed(service.wait().await.unwrap(), "P9");
    scene.receiver.release();
    scene.assert_sent_again(2).await;
}

/// P8: a receiver that has taken half of the body when its sender dies has received nothing.
async fn half_a_body_taken(database: tests::TestDatabase) {
    let receiver = Receiver::start().await;
    let (before, half_taken) = takes_half_first(&receiver).await;
    let mut scene = Scene::with(database, receiver, &before).await;
    scene.submit(1).await;
    let mut service = scene.service().await;
    half_taken.await.unwrap();
    service.start_kill().unwrap();
    assert_killed(service.wait().await.unwrap(), "P8");
    assert_eq!(scene.receiver.received().len(), 0);
    scene.assert_sent_again(1).await;
}

/// A proxy before a receiver. It hands on half of the first body, and everything once the sender of
/// that body is dead.
async fn takes_half_first(receiver: &Receiver) -> (String, oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let behind = receiver.address();
    let (taken, half_taken) = oneshot::channel();
    tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        let mut on = TcpStream::connect(behind).await.unwrap();
        let mut bytes = vec![0; 4_096];
        let mut head = Vec::new();
        let body = loop {
            let count = first.read(&mut bytes).await.unwrap();
            head.extend_from_slice(&bytes[..count]);
            match head.windows(4).position(|end| end == b"\r\n\r\n") {
                Some(end) if head.len() > end + 5 => break end + 4,
                Some(_) | None => {}
            }
        };
        on.write_all(&head[..body + (head.len() - body) / 2]).await.unwrap();
        taken.send(()).unwrap();
        // The rest of the first body is never looked at.
        while first.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
        drop(on);
        while let Ok((mut next, _)) = listener.accept().await {
            let mut on = TcpStream::connect(behind).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut next, &mut on).await });
        }
    });
    (url, half_taken)
}
