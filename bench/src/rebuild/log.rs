//! A log to rebuild from: occurrences that were delivered, and now and then a form, a member or a
//! person, appended in batches.

use std::time::{Duration, Instant};

use anyhow::ensure;
use domain::activity::{Happening, OccurrenceEvent, delivery_id, occurrence_id};
use domain::delivery::{Attempt, DeliveryEvent, DeliveryOf, Hop, Outcome};
use domain::event::{Actor, Event, EventContext};
use domain::subscription::Trigger;
use domain::values::Timestamp;
use eventstore::worker::{NextStep, Worker};
use eventstore::{NewEvent, Store};
use projector::audit::AuditLog;
use projector::deliveries::DeliveryProjection;
use projector::follow::Follower;
use projector::seals::SealWorker;
use serde_json::json;
use sha2::{Digest, Sha256};
use tests::{Firm, World, activity};
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

/// Deliveries of a batch.
const BATCH: usize = 300;

/// Of so many batches one is followed by a batch of settings.
const SETTINGS_EVERY: usize = 30;

/// A log of so many events, all of these firms with these subscriptions; how long that took.
pub(crate) async fn fill(
    world: &World,
    firms: &[(Firm, Vec<Uuid>)],
    events: u64,
) -> anyhow::Result<Duration> {
    // A log needs neither the tables that follow its appends nor the outbox.
    let bare = Store::new(world.pool().clone(), Vec::new());
    let began = Instant::now();
    let mut batch = 0;
    while height(world).await?.cast_unsigned() < events {
        let (firm, hooks) = &firms[batch % firms.len()];
        let now = world.clock.now();
        let occurrences = BATCH.div_ceil(hooks.len());
        let delivered = (0..occurrences).flat_map(|_| delivered(firm, hooks, now)).collect();
        bare.append(delivered).await?;
        if batch % SETTINGS_EVERY == 0 {
            settings(world, firm).await?;
        }
        batch += 1;
    }
    Ok(began.elapsed())
}

pub(crate) async fn height(world: &World) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select coalesce(max(position), 0) from events")
        .fetch_one(world.pool())
        .await
}

/// A response that was submitted, and delivered to each of these subscriptions.
fn delivered(firm: &Firm, hooks: &[Uuid], now: Timestamp) -> Vec<NewEvent> {
    let (trigger, response_id) = (Trigger::FormSubmitted, SystemEntropy.new_id());
    let occurrence_id = occurrence_id(firm.id, trigger, &response_id.to_string());
    let happening = Happening {
        trigger,
        form_id: firm.form,
        response_id,
        report_id: None,
        booking_id: None,
        hooks: hooks.to_vec(),
        seen: 1,
        silent: false,
        happened_at: now,
    };
    let event = |aggregate_id: Uuid, event: Event| NewEvent {
        aggregate_id: aggregate_id.to_string(),
        sequence: 1,
        event,
        context: EventContext {
            firm_id: firm.id,
            recorded_at: now,
            actor: Actor::System,
            correlation_id: occurrence_id,
            causation_id: None,
            traceparent: None,
            terminal: None,
        },
    };
    let attempt = |&hook_id: &Uuid| {
        let of = Some(DeliveryOf { hook_id, occurrence_id });
        let attempt = Attempt { of, ..arrived(now) };
        let id = delivery_id(occurrence_id, now, hook_id);
        event(id, DeliveryEvent::DeliveryAttempted(attempt).into())
    };
    let recorded = event(occurrence_id, OccurrenceEvent::OccurrenceRecorded(happening).into());
    std::iter::once(recorded).chain(hooks.iter().map(attempt)).collect()
}

fn arrived(now: Timestamp) -> Attempt {
    let hop = Hop { url: None, address: Some("192.0.2.1".to_owned()), status: Some(200) };
    Attempt {
        outcome: Outcome::Delivered,
        status: Some(200),
        error: None,
        hops: vec![hop],
        body_id: Some(SystemEntropy.new_id()),
        body_sha256: Some(new_digest()),
        answer_sha256: Some(new_digest()),
        ..Attempt::interrupted(1, now, now)
    }
}

/// A digest like a real one: it does not compress.
fn new_digest() -> String {
    hex::encode(Sha256::digest(SystemEntropy.new_id()))
}

/// Forms, members and people: reported by the door, as the product does.
async fn settings(world: &World, firm: &Firm) -> anyhow::Result<()> {
    let mut reports = Vec::new();
    for _ in 0..BATCH / 3 {
        let (form, member) = (world.id(), world.id());
        let made = json!({
            "form_id": form, "title": "A form", "slug": form, "url": "https://forms.test/f",
            "status": "draft", "hidden_fields": [], "created_at": "2026-10-01T09:30:00.000Z",
        });
        let joined = json!({"member_id": member, "role": "admin"});
        let email = json!({"email": format!("{member}@example.com")});
        reports.push(activity(firm.id, "form.created", made));
        reports.push(activity(firm.id, "member.joined", joined));
        reports.push(activity(firm.id, "address.unsubscribed", email));
    }
    let answer = world.report(&reports).await;
    ensure!(answer.status == 202, "settings were refused: {}", answer.body);
    Ok(())
}

/// Brings everything that follows to the end of the log; how long that took.
pub(super) async fn follow(world: &World) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let (store, fence) = (world.service().store.clone(), world.system.fence.clone());
    to_the_end(Follower::new(store.clone(), fence.clone(), DeliveryProjection)).await?;
    to_the_end(Follower::new(store.clone(), fence.clone(), AuditLog)).await?;
    to_the_end(SealWorker::new(store, fence)).await?;
    Ok(began.elapsed())
}

pub(crate) async fn to_the_end<W: Worker>(mut worker: W) -> anyhow::Result<()>
where
    W::Error: Send + Sync + 'static,
{
    while worker.step().await? != NextStep::IDLE {}
    Ok(())
}
