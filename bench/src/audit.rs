//! `audit`: how fast one firm's chain is verified, and in how much memory. All steps of
//! `audit verify` run in this process, over a log of nothing but readings, each with an entry.

use std::time::Instant;

use anyhow::{bail, ensure};
use auditor::verify::{self, AuditVerdict, VerifiedWith};
use auditor::{CheckpointFolder, KeyFolder, Notary};
use clap::Args;
use domain::event::Actor;
use domain::operations::{ReadAs, ReadingDetails, ReadingEvent, ReadingSubject};
use eventstore::NewEvent;
use projector::audit::AuditLog;
use projector::follow::Follower;
use projector::seals::SealWorker;
use serde::Serialize;
use tests::{World, cluster_with};
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

use crate::rebuild::log::to_the_end;
use crate::service::{SETTINGS, described};
use crate::usage::{Memory, forget_peak};

/// Events of an append.
pub(crate) const BATCH: u64 = 1_000;

/// Options of `audit`.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Entries of the chain.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    entries: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    entries: u64,
    events: u64,
    postgres: String,
    /// How long it took to append the events, and to write and seal their entries.
    appended_seconds: f64,
    followed_seconds: f64,
    verified_seconds: f64,
    entries_per_second: f64,
    resident_before_mib: f64,
    peak_mib: f64,
}

/// Measures, prints, and fails unless the chain is intact.
pub(crate) async fn run(command: &Audit) -> anyhow::Result<()> {
    let cluster = cluster_with(&SETTINGS).await;
    let world = World::real_time(cluster.database().await).await;
    let firm = world.firm().await;
    let began = Instant::now();
    for _ in 0..command.entries.div_ceil(BATCH) {
        world.service().store.append(readings(&world, firm.id)).await?;
    }
    let appended_seconds = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let (store, fence) = (world.service().store.clone(), world.system.fence.clone());
    to_the_end(Follower::new(store.clone(), fence.clone(), AuditLog)).await?;
    to_the_end(SealWorker::new(store, fence)).await?;
    let followed_seconds = began.elapsed().as_secs_f64();
    let folder = world.mails.path();
    let notary = Notary {
        keys: KeyFolder::in_folder(folder.join("keys")),
        checkpoints: CheckpointFolder::in_folder(folder.join("checkpoints")),
    };
    notary.take_checkpoint(world.pool(), &SystemEntropy, world.clock.now()).await?;
    forget_peak()?;
    let (before, began) = (Memory::look()?, Instant::now());
    let verdict =
        verify::database(world.pool(), &notary, VerifiedWith::default(), |_, _| {}).await?;
    let seconds = began.elapsed().as_secs_f64();
    let found = match verdict {
        AuditVerdict::Intact(found) => found,
        AuditVerdict::Broken(flaw) => bail!("broken: {flaw}"),
        AuditVerdict::Incomplete(why) => bail!("incomplete: {why}"),
    };
    let entries = found.entries;
    ensure!(entries >= command.entries, "entries are missing");
    print(&Report {
        bench: "audit",
        entries,
        events: found.events,
        postgres: described(&world.system).await?,
        appended_seconds,
        followed_seconds,
        verified_seconds: seconds,
        entries_per_second: entries as f64 / seconds,
        resident_before_mib: before.now_mib,
        peak_mib: Memory::look()?.peak_mib,
    })
}

/// A batch of readings of the firm's audit log, as events.
pub(crate) fn readings(world: &World, firm_id: Uuid) -> Vec<NewEvent> {
    let (what, how) = (ReadingSubject::Audit, ReadAs::Page);
    let look = ReadingDetails::at(what, how);
    let context = world.service().context(firm_id, Actor::Operator(Uuid::nil()));
    let reading = || NewEvent {
        aggregate_id: SystemEntropy.new_id().to_string(),
        sequence: 1,
        event: ReadingEvent::AuditRead(look.clone()).into(),
        context: context.clone(),
    };
    std::iter::repeat_with(reading).take(BATCH as usize).collect()
}

fn print(report: &Report) -> anyhow::Result<()> {
    println!("PostgreSQL {}", report.postgres);
    println!(
        "{} entries of one firm, {} events: appended in {:.1} s, followed in {:.1} s",
        report.entries, report.events, report.appended_seconds, report.followed_seconds
    );
    println!(
        "verified in {:.1} s: {:.0} entries a second; peak {:.0} MiB, {:.0} before",
        report.verified_seconds,
        report.entries_per_second,
        report.peak_mib,
        report.resident_before_mib
    );
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}
