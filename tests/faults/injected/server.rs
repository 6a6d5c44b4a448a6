//! E28: processes of PostgreSQL are killed, one after the other, while responses and revocations
//! come in.

use std::cell::Cell;
use std::time::Duration;

use futures::future::join;
use serde_json::{Value, json};
use tests::invariants::Acknowledged;
use tests::raw::call_internally;
use tests::{Firm, ServerProcess, World, lasting_cluster};
use tokio::time::sleep;
use uuid::Uuid;

use super::{FAST, Scene, submitted};
use tests::process::{Served, firmforms, report, serve};

/// A caller that got no good answer asks again after this time.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e28_killed_processes_of_postgresql_lose_nothing() {
    let mut cluster = lasting_cluster().await;
    let mut scene = Scene::on(cluster.database().await).await;
    let service = serve(scene.database(), &FAST).await;
    let caller = Caller { world: &scene.world, firm: &scene.firm, service: &service };
    let is_over = Cell::new(false);
    let kills = async {
        for process in ServerProcess::ALL {
            process.kill_in(&scene.database().main).await;
        }
        cluster.kill_postmaster().await;
        is_over.set(true);
    };
    let load = async {
        let mut acknowledged = Acknowledged::default();
        while !is_over.get() {
            acknowledged.responses.extend(caller.report_surely().await);
            acknowledged.revoked_keys.push(caller.revoke_surely().await);
        }
        acknowledged
    };
    let ((), acknowledged) = join(kills, load).await;
    scene.acknowledged.responses = acknowledged.responses;
    scene.acknowledged.revoked_keys = acknowledged.revoked_keys;
    scene.assert_held().await;
    for act in ["checkpoint", "verify"] {
        let ended = firmforms(scene.database()).args(["audit", act]).output().await.unwrap();
        assert!(ended.status.success(), "{act}: {}", String::from_utf8_lossy(&ended.stdout));
    }
}

/// The product, which asks until it is answered.
struct Caller<'a> {
    world: &'a World,
    firm: &'a Firm,
    service: &'a Served,
}

impl Caller<'_> {
    /// Reports responses until they are acknowledged.
    async fn report_surely(&self) -> Vec<Uuid> {
        let ids: Vec<Uuid> = (0..5).map(|_| self.world.id()).collect();
        let events: Vec<Value> = ids.iter().map(|id| submitted(self.firm, *id)).collect();
        let batch = serde_json::to_string(&events).unwrap();
        let (door, token) = (self.service.internal, self.world.token());
        while report(door, token, &batch).await.is_none_or(|status| status != 202) {
            sleep(ASK_AGAIN_AFTER).await;
        }
        ids
    }

    /// Makes a key, and revokes it until that is acknowledged. A revoked key is answered 404.
    async fn revoke_surely(&self) -> Uuid {
        let keys = format!("/firms/{}/keys", self.firm.id);
        let body = json!({"member_id": self.firm.owner, "name": "a guest"}).to_string();
        let made = self.ask_until(("POST", &keys), &body, &[201]).await;
        let made: Value = serde_json::from_str(made.lines().last().unwrap()).unwrap();
        let key_id: Uuid = made["id"].as_str().unwrap().parse().unwrap();
        self.ask_until(("DELETE", &format!("{keys}/{key_id}")), "", &[200, 404]).await;
        key_id
    }

    /// Asks the internal door until it answers with one of these statuses.
    async fn ask_until(&self, request: (&str, &str), body: &str, statuses: &[u16]) -> String {
        loop {
            let (door, token) = (self.service.internal, self.world.token());
            match call_internally(door, request, token, body).await {
                Some((status, answer)) if statuses.contains(&status.as_u16()) => return answer,
                _ => sleep(ASK_AGAIN_AFTER).await,
            }
        }
    }
}
