//! Two living primaries: a standby is promoted under load while the old primary lives and answers.
//! Replication is asynchronous. The service knows both servers (ruling 55).

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::ensure;
use chrono::{DateTime, Utc};
use tests::invariants::{Acknowledged, Run};
use tests::{Random, ReplicatedServer, World, place_witness, until_settled};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::load::{Load, Pace};
use super::receivers::Receivers;
use super::report::Report;
use super::service::Services;
use super::times::{LEASE, REST};
use crate::serving::DatabaseUrls;

/// The shortest and the longest load before a promotion, in milliseconds.
const LOAD_MILLIS: (u64, u64) = (3_000, 8_000);

/// The load after a promotion.
const LOAD_AFTER: Duration = Duration::from_secs(15);

/// The old primary acknowledges nothing that is later (ruling 55).
const LEFT_WITHIN: Duration = Duration::from_secs(5);

/// Promotes so many standbys, each of a new pair of servers.
pub(super) async fn run(promotions: usize, rate: u32, seed: u64) -> anyhow::Result<()> {
    let mut random = Random::new(seed);
    let loads: Vec<Duration> = (0..promotions).map(|_| random.time_between(LOAD_MILLIS)).collect();
    println!("drawn: promotions after {loads:?}");
    let mut violations = Vec::new();
    for (index, load_before) in loads.into_iter().enumerate() {
        let found = Scene::start(rate).await?.promote_after(load_before).await?;
        violations.extend(found.into_iter().map(|found| format!("promotion {index}: {found}")));
    }
    for violation in &violations {
        println!("VIOLATED {violation}");
    }
    ensure!(violations.is_empty(), "seed {seed}: something that must hold does not");
    Ok(())
}

/// A pair of servers, and the service on both.
struct Scene {
    server: ReplicatedServer,
    world: World,
    receivers: Receivers,
    load: Load,
    services: Services,
    rate: u32,
    _data_dir: tempfile::TempDir,
}

impl Scene {
    async fn start(rate: u32) -> anyhow::Result<Self> {
        let (server, database) = ReplicatedServer::start().await;
        let world = World::real_time(database).await;
        place_witness(world.pool()).await;
        let receivers = Receivers::start(Instant::now() + Duration::from_secs(86_400)).await?;
        let load = Load::prepare(&world, &receivers).await;
        let urls = DatabaseUrls {
            main: server.url(&world.database.main),
            keyring: server.url(&world.database.keyring),
        };
        let data_dir = tempfile::tempdir()?;
        let services = Services::start_at(urls, data_dir.path()).await?;
        services.ready().await?;
        Ok(Self { server, world, receivers, load, services, rate, _data_dir: data_dir })
    }

    /// Promotes the standby after this time of load, and loads on. Returns the violated rules.
    async fn promote_after(self, load_before: Duration) -> anyhow::Result<Vec<String>> {
        let Self { server, world, load, services, .. } = &self;
        let pace = Pace { responses_per_second: self.rate, stop: CancellationToken::new() };
        let promoting = async {
            sleep(load_before).await;
            server.promote().await;
            let promoted = Instant::now();
            sleep(LOAD_AFTER).await;
            pace.stop.cancel();
            Ok(promoted)
        };
        let (promoted, acknowledged) =
            tokio::try_join!(promoting, load.report(&pace, world, services))?;
        let mut found = self.old_acknowledgements(promoted).await?;
        found.extend(self.repaired(&acknowledged).await?);
        services.stop().await?;
        Ok(found)
    }

    /// Looks for writes that the old primary took in too late after the promotion. The world is on
    /// the new primary afterwards.
    async fn old_acknowledgements(&self, promoted: Instant) -> anyhow::Result<Vec<String>> {
        let newest = "select max(recorded_at), now() from events";
        let (newest, now): (DateTime<Utc>, DateTime<Utc>) =
            sqlx::query_as(newest).fetch_one(self.world.pool()).await?;
        let newest_ago = (now - newest).to_std().unwrap_or_default();
        let newest_after = promoted.elapsed().saturating_sub(newest_ago);
        self.server.mislead();
        let recorded = "select (payload->'OccurrenceRecorded'->>'response_id')::uuid from events
                         where event_type = 'OccurrenceRecorded'";
        let recorded: Vec<Uuid> = sqlx::query_scalar(recorded).fetch_all(self.world.pool()).await?;
        let recorded: HashSet<Uuid> = recorded.into_iter().collect();
        let batches = self.load.batches();
        let lost: Vec<_> = batches
            .iter()
            .filter(|batch| batch.responses.iter().any(|id| !recorded.contains(id)))
            .collect();
        let latest = lost.iter().map(|batch| batch.acknowledged).max();
        let latest_after = latest.and_then(|at| at.checked_duration_since(promoted));
        println!(
            "{} of {} batches are lost; the last was acknowledged {:.2} s after the promotion, the \
             old primary's last event came {:.2} s after it",
            lost.len(),
            batches.len(),
            latest_after.unwrap_or_default().as_secs_f64(),
            newest_after.as_secs_f64()
        );
        let mut found = Vec::new();
        if latest_after.is_some_and(|after| after > LEFT_WITHIN) {
            found.push(format!("the old primary acknowledged a report after {latest_after:.1?}"));
        }
        if newest_after > LEFT_WITHIN {
            found.push(format!("the old primary recorded an event after {newest_after:.1?}"));
        }
        Ok(found)
    }

    /// Reports everything again, as a product does after a loss. Returns the rules that are
    /// violated then.
    async fn repaired(&self, acknowledged: &Acknowledged) -> anyhow::Result<Vec<String>> {
        let Self { world, load, services, receivers, .. } = self;
        services.acknowledge_lost_tails().await?;
        let began = Instant::now();
        load.report_again(world, services).await;
        let repair = ["verify", "deliveries", "--repair", "--reason", "two primaries"];
        services.command(&repair).await?;
        let mut found = Vec::new();
        if let Err(left) = until_settled(world.pool(), REST).await {
            found.push(left);
        }
        for proof in [&["verify", "deliveries"][..], &["projections", "verify", "--all"]] {
            if let Err(error) = services.command(proof).await {
                found.push(format!("{error:#}"));
            }
        }
        let requests = receivers.requests();
        let run = Run { pool: world.pool(), requests: &requests, acknowledged, lease: LEASE };
        let report = Report::new(&run, receivers).await?;
        report.print_states(began.elapsed());
        if report.lost() > 0 {
            found.push(format!("{} deliveries are lost", report.lost()));
        }
        let known: Vec<Uuid> = sqlx::query_scalar("select delivery_id from deliveries")
            .fetch_all(world.pool())
            .await?;
        let known: HashSet<Uuid> = known.into_iter().collect();
        let unknown = receivers.arrived().difference(&known).count();
        if unknown > 0 {
            found.push(format!("{unknown} deliveries arrived under an id that is not in the log"));
        }
        Ok(found)
    }
}
