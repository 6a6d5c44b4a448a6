//! A claim and a look for the next due time, beside many lanes that cannot be claimed: lanes of a
//! full host, of a paused host, and of hosts with one retry each.

use std::time::Duration;

use anyhow::ensure;
use api::commands::tokens::{self, HolderRole};
use axum::body::Body;
use axum::http::Request;
use deliverer::attempt::ClaimedAttempt;
use deliverer::claim::{ScanFloors, claim_beyond, next_due_from};
use deliverer::{DelivererContext, SendLimits};
use domain::delivery::pressure::HostCaps;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};
use tests::{Firm, Templates};

use super::args::Queues;
use super::scene::{Row, Scene, timed};
use crate::sleeping::add_sleeping_hosts;

/// Attempts in flight to a host.
const CAPS: HostCaps = HostCaps { per_firm_and_host: 4, per_host: 4 };

/// The host of the scene's subscription.
const FULL_HOST: &str = "127.0.0.1";

const PAUSED_HOST: &str = "paused.example";

/// Due lanes in front of hosts with retries: more than a claim reads of the due lanes.
const FRONT: i32 = 2_000;

/// Lanes that a claim passes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Burden {
    FullHost,
    PausedHost,
    Retries,
    /// Other hosts' retries, with the due lanes of a full host in front in both measurements.
    RetriesBehindFullHost,
}

impl Burden {
    const ALL: [Self; 4] =
        [Self::FullHost, Self::PausedHost, Self::Retries, Self::RetriesBehindFullHost];

    fn describe(self, command: &Queues) -> String {
        let Queues { lanes, hosts, .. } = command;
        match self {
            Self::FullHost => format!("behind {lanes} lanes of a full host"),
            Self::PausedHost => format!("behind {lanes} lanes of a paused host"),
            Self::Retries => format!("beside {hosts} hosts with a retry"),
            Self::RetriesBehindFullHost => format!("beside {hosts} such, behind a full host"),
        }
    }
}

pub(super) async fn measure(cluster: &Templates, command: &Queues) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for burden in Burden::ALL {
        let mut bench = Lookers::on(cluster).await?;
        if burden == Burden::RetriesBehindFullHost {
            bench.add_due_lanes(FULL_HOST, FRONT).await?;
        }
        let without = bench.rounds(command.rounds).await?;
        bench.add(burden, command).await?;
        let with = bench.rounds(command.rounds).await?;
        let beside = burden.describe(command);
        rows.push(Row::new(&format!("claim {beside}"), without.claims, with.claims));
        rows.push(Row::new(&format!("next due time {beside}"), without.looks, with.looks));
    }
    Ok(rows)
}

/// The times of some rounds.
#[derive(Default)]
struct Times {
    claims: Vec<Duration>,
    looks: Vec<Duration>,
}

/// A scene whose host is full, and a firm with another host.
struct Lookers {
    scene: Scene,
    other: Firm,
    deliverer: DelivererContext,
    limits: SendLimits,
    floors: ScanFloors,
    /// The attempts that fill the host.
    _in_flight: Vec<ClaimedAttempt>,
}

impl Lookers {
    async fn on(cluster: &Templates) -> anyhow::Result<Self> {
        let scene = Scene::on(cluster).await;
        let other = scene.world.firm().await;
        scene.world.subscribe(&other, "http://127.0.0.2:7777/hook").await;
        let mut deliverer = scene.world.deliverer().clone();
        deliverer.settings.caps = CAPS;
        let limits = SendLimits::alone(deliverer.settings);
        let mut floors = ScanFloors::default();
        for _ in 0..2 * CAPS.per_host {
            scene.world.submit(&scene.firm).await;
        }
        let in_flight = claim_beyond(&deliverer, &limits, &mut floors).await?;
        ensure!(in_flight.len() == CAPS.per_host, "the host is not full");
        Ok(Self { scene, other, deliverer, limits, floors, _in_flight: in_flight })
    }

    async fn add(&self, burden: Burden, command: &Queues) -> anyhow::Result<()> {
        match burden {
            Burden::FullHost => self.add_due_lanes(FULL_HOST, command.lanes).await,
            Burden::PausedHost => {
                self.add_due_lanes(PAUSED_HOST, command.lanes).await?;
                self.pause(PAUSED_HOST).await
            }
            Burden::Retries | Burden::RetriesBehindFullHost => {
                add_sleeping_hosts(&self.scene.world, command.hosts).await?;
                self.vacuum("outbox").await?;
                self.vacuum("lanes").await
            }
        }
    }

    /// Lanes that are due some microseconds apart, and before all that comes.
    async fn add_due_lanes(&self, host: &str, count: i32) -> anyhow::Result<()> {
        sqlx::query(
            "insert into lanes (lane_id, firm_id, kind, host, due_at)
             select gen_random_uuid(), gen_random_uuid(), 'hook', $3,
                    $2 - interval '1 minute' + n * interval '1 microsecond'
               from generate_series(1, $1) as n",
        )
        .bind(count)
        .bind(self.scene.world.clock.now().get())
        .bind(host)
        .execute(&mut self.connect().await?)
        .await?;
        self.vacuum("lanes").await
    }

    async fn vacuum(&self, table: &str) -> anyhow::Result<()> {
        self.connect().await?.execute(format!("vacuum analyze {table}").as_str()).await?;
        Ok(())
    }

    /// A connection without the time limit of a pool's statements.
    async fn connect(&self) -> sqlx::Result<PgConnection> {
        PgConnection::connect_with(&self.scene.world.database.main).await
    }

    /// Pauses a host as an operator does.
    async fn pause(&self, host: &str) -> anyhow::Result<()> {
        let world = &self.scene.world;
        let operator = tokens::create(world.service(), "bench", HolderRole::Operator).await?;
        let scope = json!({"host": host, "reason": "a measurement"});
        let request = Request::post("/internal/v1/pauses")
            .header("authorization", format!("Bearer {}", operator.token))
            .body(Body::from(scope.to_string()))?;
        let answer = world.internal(request).await;
        ensure!(answer.status == 201, "pausing: {}", answer.body);
        Ok(())
    }

    async fn rounds(&mut self, rounds: u32) -> anyhow::Result<Times> {
        let Self { scene, other, deliverer, limits, floors, .. } = self;
        let mut times = Times::default();
        for _ in 0..rounds {
            scene.world.pass(Duration::from_secs(1));
            scene.world.submit(other).await;
            let (claimed, took) = timed(claim_beyond(deliverer, limits, floors)).await?;
            ensure!(claimed.len() == 1, "{} were claimed", claimed.len());
            times.claims.push(took);
            times.looks.push(timed(next_due_from(deliverer, limits, floors)).await?.1);
        }
        Ok(times)
    }
}
