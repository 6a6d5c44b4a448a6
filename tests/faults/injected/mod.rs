//! Kills, cut connections and refusals of the database, by the real binary; after each run the
//! invariants (`tests::invariants`) are asked.

mod checker;
mod commands;
mod conflicts;
mod database;
pub(crate) mod disk;
mod drawn;
mod kills;
mod partition;
mod revocation;
mod server;

use std::time::Duration;

use serde_json::json;
use tests::invariants::{Acknowledged, Request, Run};
use tests::{Firm, Receiver, TestDatabase, World, activity, place_witness, until_settled};
use uuid::Uuid;

/// Waits pass sixty times faster than they should; the lease is the shortest there is.
const FAST: [&str; 2] = ["--time-scale", "60"];

/// The lease at that speed.
const LEASE: Duration = Duration::from_secs(25);

/// A try may be sent so long after its claim (ruling 29).
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Longer than two leases and all the waits of a run.
const PATIENCE: Duration = Duration::from_secs(100);

/// A world on the real clock beside services that are killed, with one subscription.
struct Scene {
    world: World,
    firm: Firm,
    hook: Uuid,
    receiver: Receiver,
    acknowledged: Acknowledged,
}

impl Scene {
    async fn on(database: TestDatabase) -> Self {
        let receiver = Receiver::start().await;
        let target = receiver.url("/hook");
        Self::with(database, receiver, &target).await
    }

    /// A scene whose receiver is reached in another way.
    async fn with(database: TestDatabase, receiver: Receiver, target: &str) -> Self {
        let world = World::real_time(database).await;
        place_witness(world.pool()).await;
        let firm = world.firm().await;
        let hook = world.subscribe(&firm, target).await;
        let acknowledged = Acknowledged { hooks: vec![hook], ..Acknowledged::default() };
        Self { world, firm, hook, receiver, acknowledged }
    }

    /// So many responses, reported and acknowledged as one batch.
    async fn submit(&mut self, count: usize) {
        let ids: Vec<Uuid> = (0..count).map(|_| self.world.id()).collect();
        let events: Vec<_> = ids.iter().map(|id| submitted(&self.firm, *id)).collect();
        self.world.report(&events).await.ok();
        self.acknowledged.responses.extend(ids);
    }

    fn database(&self) -> &TestDatabase {
        &self.world.database
    }

    fn requests(&self) -> Vec<Request> {
        self.receiver.received().iter().map(Request::new).collect()
    }

    /// Waits until all is at its end, and asks the invariants.
    async fn assert_held(&self) {
        until_settled(self.world.pool(), PATIENCE).await.unwrap();
        self.run(&self.requests()).assert_held().await;
    }

    fn run<'a>(&'a self, requests: &'a [Request]) -> Run<'a> {
        let acknowledged = &self.acknowledged;
        Run { pool: self.world.pool(), requests, acknowledged, lease: LEASE }
    }
}

fn submitted(firm: &Firm, response_id: Uuid) -> serde_json::Value {
    let data = json!({
        "response_id": response_id, "form_id": firm.form, "submitted_at": "2026-11-01T12:00:00Z",
    });
    activity(firm.id, "response.submitted", data)
}
