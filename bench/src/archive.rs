//! `archive`: what the archive of a log costs: bytes of a delivery, and the rates at which segments
//! are written and verified. All steps run in this process.

use std::time::{Duration, Instant};

use anyhow::ensure;
use auditor::archive::{ArchiveStep, LogArchive, SegmentWriter, VerifiedPart, verify};
use auditor::{AuditVerifier, CheckpointFolder, KeyFolder, Notary, VerificationSchedule};
use chrono::TimeDelta;
use clap::Args;
use domain::audit::{SegmentManifest, VerificationOutcome};
use domain::values::Timestamp;
use eventstore::worker::Worker;
use projector::audit::AuditLog;
use projector::follow::Follower;
use projector::seals::SealWorker;
use projector::verifications;
use serde::Serialize;
use tests::{World, cluster_with};
use vault::SystemEntropy;

use crate::rebuild::log::{self, to_the_end};
use crate::service::{SETTINGS, described};

/// Firms, each with one occurrence in turn.
const FIRMS: usize = 10;

/// Options of `archive`.
#[derive(Debug, Args)]
pub(crate) struct Archive {
    /// Segments of 1,048,576 positions.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    segments: u64,
    /// Subscriptions that each occurrence lists.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100))]
    subscriptions: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    segments: u64,
    subscriptions: u64,
    events: u64,
    deliveries: i64,
    postgres: String,
    bytes: u64,
    bytes_per_delivery: f64,
    written_per_second: f64,
    verified_per_second: f64,
    /// Events of the log that the daily verification reads, without its waits.
    daily_per_second: f64,
}

/// Measures, prints, and fails unless the archive is whole.
pub(crate) async fn run(command: &Archive) -> anyhow::Result<()> {
    let cluster = cluster_with(&SETTINGS).await;
    let world = World::real_time(cluster.database().await).await;
    let mut firms = Vec::new();
    for _ in 0..FIRMS {
        let hooks = (0..command.subscriptions).map(|_| world.id()).collect();
        firms.push((world.firm().await, hooks));
    }
    let positions = command.segments * SegmentManifest::POSITIONS.cast_unsigned();
    log::fill(&world, &firms, positions).await?;
    let (store, fence) = (world.service().store.clone(), world.system.fence.clone());
    to_the_end(Follower::new(store.clone(), fence.clone(), AuditLog)).await?;
    to_the_end(SealWorker::new(store, fence)).await?;
    let folder = world.mails.path();
    let notary = Notary {
        keys: KeyFolder::in_folder(folder.join("keys")),
        checkpoints: CheckpointFolder::in_folder(folder.join("checkpoints")),
    };
    notary.take_checkpoint(world.pool(), &SystemEntropy, world.clock.now()).await?;
    let archive = LogArchive::in_folder(folder.join("archive"));
    let writer = SegmentWriter::new(world.pool(), &archive, &notary);
    // A segment is archived once it is a day old.
    let later = Timestamp::from(world.clock.now().get() + TimeDelta::days(2));
    let began = Instant::now();
    while let ArchiveStep::Archived(_) = writer.write_next(later).await? {}
    let written = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let keys = notary.keys.public_keys()?;
    let report = verify(&archive, &keys, VerifiedPart::All, |_, _| {})?;
    let verified = began.elapsed().as_secs_f64();
    ensure!(report.flaws.is_empty(), "broken: {}", report.flaws[0]);
    ensure!(report.segments >= command.segments, "segments are missing");
    let daily_per_second = verify_daily(&world, notary).await?;
    let deliveries = deliveries(&world, report.through).await?;
    let manifests = archive.read_manifests()?;
    let bytes = manifests
        .iter()
        .map(|signed| signed.manifest.events_file.bytes + signed.manifest.index_file.bytes)
        .sum::<u64>();
    let report = Report {
        bench: "archive",
        segments: report.segments,
        subscriptions: command.subscriptions,
        events: report.events,
        deliveries,
        postgres: described(&world.system).await?,
        bytes,
        bytes_per_delivery: bytes as f64 / deliveries as f64,
        written_per_second: report.events as f64 / written,
        verified_per_second: report.events as f64 / verified,
        daily_per_second,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// Runs the first daily verification, which reads the whole log, without its waits.
async fn verify_daily(world: &World, notary: Notary) -> anyhow::Result<f64> {
    let day = Duration::from_secs(86_400);
    let schedule = VerificationSchedule { interval: day, reread_within: 30 * day };
    let (pool, clock) = (world.pool().clone(), world.clock.clone());
    let mut verifier = AuditVerifier::new(notary, pool, clock, schedule);
    let mut connection = world.pool().acquire().await?;
    let began = Instant::now();
    loop {
        verifier.step().await?;
        if let Some(ended) = verifications::state(&mut connection).await?.ended {
            ensure!(ended.outcome == VerificationOutcome::Intact, "{:?}", ended.outcome);
            return Ok(log::height(world).await? as f64 / began.elapsed().as_secs_f64());
        }
    }
}

/// Deliveries of the log up to this position.
async fn deliveries(world: &World, through: i64) -> Result<i64, sqlx::Error> {
    let attempts = "select count(*) from events
                     where event_type = 'DeliveryAttempted' and position <= $1";
    sqlx::query_scalar(attempts).bind(through).fetch_one(world.pool()).await
}
