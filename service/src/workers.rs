//! The workers of each role.

use std::sync::Arc;

use api::SendingMode;
use auditor::{Archiver, AuditVerifier, Checkpointer};
use deliverer::send::SpreadWorker;
use deliverer::send::deliver;
use deliverer::upkeep::CancelWorker;
use deliverer::upkeep::ClosedFirmWorker;
use deliverer::upkeep::EndedLeaseWorker;
use deliverer::upkeep::EraseWorker;
use deliverer::upkeep::ExpireWorker;
use deliverer::upkeep::PurgeWorker;
use deliverer::upkeep::ReplayWorker;
use deliverer::{Dispatcher, SenderMembership};
use domain::event::Actor;
use eventstore::log_tail::LogTailCheck;
use eventstore::ranges::LogRanges;
use eventstore::worker::run_on;
use eventstore::{Pulse, relay_nudges};
use inviter::TakeOver;
use notifier::NoticeWorker;
use projector::audit::AuditLog;
use projector::deliveries::DeliveryProjection;
use projector::episodes::EpisodeTimer;
use projector::follow::Follower;
use projector::housekeeping::HousekeepingWorker;
use projector::partials::PartialTimer;
use projector::seals::SealWorker;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::adapters::claim_in_appends;
use crate::dropping::{RangeDropWorker, RangeDropper};
use crate::history_drops::HistoryDropWorker;
use crate::role::ProcessRole;
use crate::wiring::System;

/// Starts the workers of a role.
#[must_use]
pub fn start_workers(system: &System, role: ProcessRole, stop: &CancellationToken) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    spawn_workers(system, role, stop, &mut tasks);
    tasks
}

pub(crate) fn spawn_workers(
    system: &System,
    role: ProcessRole,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) {
    let store = &system.deliverer.store;
    let pool = store.pool();
    let clock_and_news = {
        let clock = system.service.clock.clone();
        let health = system.service.pools.health.clone();
        let pool = pool.clone();
        let nudge = store.nudge().clone();
        let pulse = Pulse::new(store.clone(), clock.clone());
        async move {
            tokio::join!(
                clock.keep_measured(health),
                relay_nudges(pool, nudge),
                pulse.keep_beating()
            )
        }
    };
    let stopping = stop.clone();
    tasks.spawn(async move {
        tokio::select! { () = stopping.cancelled() => {}, _ = clock_and_news => {} }
    });
    tasks.spawn(run_on(LogTailCheck::new(store.clone()), store.nudge(), stop.clone()));
    if matches!(role, ProcessRole::All | ProcessRole::Projector) {
        spawn_projector(system, stop, tasks);
    }
    // Invites are reserved by the doors. A process without doors has no mail server.
    let sends = system.service.settings.sending == SendingMode::On;
    if sends && role.serves_callers() {
        let invites = TakeOver::new(system.take_over.clone());
        tasks.spawn(run_on(invites, store.nudge(), stop.clone()));
        let notices = NoticeWorker::new(system.notifier.clone());
        tasks.spawn(run_on(notices, store.nudge(), stop.clone()));
    }
    if role.sends_deliveries() {
        let deliverer = &system.deliverer;
        let mut spread = SpreadWorker::new(deliverer.clone());
        if sends {
            let dispatch = spawn_sender(system, role, stop, tasks);
            spread = spread.that_leases(dispatch);
        }
        tasks.spawn(run_on(spread, store.nudge(), stop.clone()));
        let ended = EndedLeaseWorker::new(deliverer.clone());
        tasks.spawn(run_on(ended, store.nudge(), stop.clone()));
        let purge = PurgeWorker::new(deliverer.clone());
        tasks.spawn(run_on(purge, store.nudge(), stop.clone()));
        let erase = EraseWorker::new(deliverer.clone(), system.fence.clone());
        tasks.spawn(run_on(erase, store.nudge(), stop.clone()));
        let expire = ExpireWorker::new(deliverer.clone());
        tasks.spawn(run_on(expire, store.nudge(), stop.clone()));
        let closed_firms = ClosedFirmWorker::new(deliverer.clone());
        tasks.spawn(run_on(closed_firms, store.nudge(), stop.clone()));
        let cancel = CancelWorker::new(deliverer.clone());
        tasks.spawn(run_on(cancel, store.nudge(), stop.clone()));
    }
}

/// Starts the workers of the projector.
fn spawn_projector(system: &System, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
    let store = &system.deliverer.store;
    let pool = store.pool();
    let follower = Follower::new(store.clone(), system.fence.clone(), DeliveryProjection)
        .holding_unfinished(system.service.clock.clone());
    tasks.spawn(run_on(follower, store.nudge(), stop.clone()));
    let follower = Follower::new(store.clone(), system.fence.clone(), AuditLog);
    tasks.spawn(run_on(follower, store.nudge(), stop.clone()));
    let ranges = LogRanges::new(store.clone(), store.nudge().new_formats().clone());
    tasks.spawn(run_on(ranges, store.nudge(), stop.clone()));
    let seals = SealWorker::new(store.clone(), system.fence.clone());
    tasks.spawn(run_on(seals, store.nudge(), stop.clone()));
    if let Some(notary) = &system.notary {
        let clock = system.service.clock.clone();
        let entropy = system.service.entropy.clone();
        let hourly = Checkpointer::new(notary.clone(), pool.clone(), clock, entropy);
        tasks.spawn(run_on(hourly, store.nudge(), stop.clone()));
    }
    if let (Some(notary), Some(archive)) = (&system.notary, &system.archive) {
        let clock = system.service.clock.clone();
        let archiver =
            Archiver::new(archive.clone(), notary.clone(), pool.clone(), clock, stop.clone());
        tasks.spawn(run_on(archiver, store.nudge(), stop.clone()));
        if let Some(keep_for) = system.kept.log {
            let dropper = RangeDropper {
                store: store.clone(),
                archive: archive.clone(),
                notary: notary.clone(),
                keep_for,
                actor: Actor::System,
                takes_attached: false,
            };
            let entropy = system.service.entropy.clone();
            let dropping = RangeDropWorker::new(dropper, entropy, system.service.clock.clone());
            tasks.spawn(run_on(dropping, store.nudge(), stop.clone()));
        }
    }
    if let (Some(notary), Some(schedule)) = (&system.notary, system.verifications) {
        let clock = system.service.clock.clone();
        let daily = AuditVerifier::new(notary.clone(), pool.clone(), clock, schedule)
            .with_archive(system.archive.clone());
        tasks.spawn(run_on(daily, store.nudge(), stop.clone()));
    }
    let partials = PartialTimer::new(store.clone(), system.service.clock.clone());
    tasks.spawn(run_on(partials, store.nudge(), stop.clone()));
    let episodes = EpisodeTimer::new(store.clone(), system.service.clock.clone());
    tasks.spawn(run_on(episodes, store.nudge(), stop.clone()));
    let housekeeping = HousekeepingWorker::new(pool.clone(), system.service.clock.clone());
    tasks.spawn(run_on(housekeeping, store.nudge(), stop.clone()));
    if let Some(keep_for) = system.kept.history {
        let clock = system.service.clock.clone();
        let drops = HistoryDropWorker::new(pool.clone(), clock, keep_for);
        tasks.spawn(run_on(drops, store.nudge(), stop.clone()));
    }
}

/// Starts the sender. In a process that also has doors, appends claim for it.
fn spawn_sender(
    system: &System,
    role: ProcessRole,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> Arc<Dispatcher> {
    let deliverer = &system.deliverer;
    let store = &deliverer.store;
    let replay = ReplayWorker::new(deliverer.clone());
    tasks.spawn(run_on(replay, store.nudge(), stop.clone()));
    let settings = deliverer.settings;
    let wait = settings.scale.scaled_wait(settings.join_wait);
    let membership = SenderMembership::new(store.pool().clone(), wait);
    let (dispatch, answers) =
        Dispatcher::new(deliverer.clone(), membership.sender_count(), stop.clone());
    if role == ProcessRole::All {
        claim_in_appends(&system.service, &dispatch);
    }
    let nudge = store.nudge().clone();
    let sending = Arc::clone(&dispatch);
    tasks.spawn(async move {
        // The process stays a sender until its claimed attempts are recorded.
        tokio::select! {
            () = membership.keep_counting(|| nudge.wake_for_deliveries()) => {}
            () = deliver(sending, answers, &nudge) => {}
        }
    });
    dispatch
}

#[cfg(test)]
mod tests {
    use eventstore::worker::{WakeOn, Worker};

    use super::*;

    const fn declared<W: Worker>() -> (&'static str, WakeOn) {
        (W::NAME, W::WAKES)
    }

    #[test]
    fn each_worker_declares_its_wakes() {
        let workers = [
            declared::<Follower<DeliveryProjection>>(),
            declared::<Follower<AuditLog>>(),
            declared::<SealWorker>(),
            declared::<Checkpointer>(),
            declared::<Archiver>(),
            declared::<AuditVerifier>(),
            declared::<PartialTimer>(),
            declared::<HousekeepingWorker>(),
            declared::<TakeOver>(),
            declared::<SpreadWorker>(),
            declared::<ReplayWorker>(),
            declared::<EraseWorker>(),
            declared::<ExpireWorker>(),
            declared::<CancelWorker>(),
            declared::<ClosedFirmWorker>(),
            declared::<EndedLeaseWorker>(),
            declared::<PurgeWorker>(),
            declared::<NoticeWorker>(),
            declared::<EpisodeTimer>(),
            declared::<LogTailCheck>(),
            declared::<LogRanges>(),
            declared::<RangeDropWorker>(),
            declared::<HistoryDropWorker>(),
        ];
        let expected = [
            ("deliveries", WakeOn::AnyEvent),
            ("audit_log", WakeOn::OtherEvents),
            ("seals", WakeOn::AnyEvent),
            ("checkpoints", WakeOn::Timer),
            ("archive", WakeOn::Timer),
            ("verification", WakeOn::Timer),
            ("partials", WakeOn::Timer),
            ("housekeeping", WakeOn::Timer),
            ("invites", WakeOn::Timer),
            ("spread", WakeOn::Deliveries),
            ("replay", WakeOn::OtherEvents),
            ("erase", WakeOn::OtherEvents),
            ("expire", WakeOn::Timer),
            ("cancel", WakeOn::OtherEvents),
            ("closed_firms", WakeOn::Timer),
            ("ended_leases", WakeOn::Timer),
            ("purge", WakeOn::Timer),
            ("notices", WakeOn::Timer),
            ("episodes", WakeOn::Timer),
            ("log_tail", WakeOn::Timer),
            ("log_ranges", WakeOn::Timer),
            ("log_drop", WakeOn::Timer),
            ("history_drop", WakeOn::Timer),
        ];
        assert_eq!(workers, expected);
    }
}
