//! The traces that every delivery leaves behind, whatever sends it: an event of its stream in the
//! log, and a row of history. By the service's own code, with nothing else of the service: no
//! intake, no vault, no limits, no lanes.

use ::service::System;
use anyhow::Context as _;
use chrono::TimeDelta;
use cluster::Cluster;
use domain::activity::{Happening, OccurrenceEvent, delivery_id};
use domain::delivery::{Attempt, DeliveryEvent, DeliveryOf, Hop, Outcome};
use domain::event::{Actor, Event, EventContext};
use domain::subscription::Trigger;
use domain::values::Timestamp;
use eventstore::worker::run_on;
use eventstore::{AppendTransaction, NewEvent, Store};
use projector::deliveries::DeliveryProjection;
use projector::follow::Follower;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::ceiling::Posts;
use crate::service::{LOOK_EVERY, start};

const FIRM: Uuid = Uuid::from_u128(1 << 64);

/// Whether history knows of everything.
const FOLLOWED: &str = "
select coalesce((select position from checkpoints where name = 'deliveries'), 0)
       >= coalesce((select max(position) from events), 0)";

/// The log and its follower.
pub(crate) struct Traces {
    system: System,
    /// The log without the tables that change with it, and without an outbox.
    log: Store,
    /// SHA-256 of each body, as text.
    bodies: Vec<String>,
    /// The time of the first event. Each next event is a millisecond later, since ids begin with
    /// their time.
    began: Timestamp,
    follower: JoinHandle<()>,
    stop: CancellationToken,
}

impl Traces {
    /// The traces of these POSTs, on this cluster.
    pub(crate) async fn start(cluster: &Cluster, posts: &Posts) -> anyhow::Result<Self> {
        let (system, stop) = (start(cluster).await?, CancellationToken::new());
        let store = system.deliverer.store.clone();
        let history = Follower::new(store.clone(), system.fence.clone(), DeliveryProjection)
            .holding_unfinished(system.service.clock.clone());
        let follower = tokio::spawn(run_on(history, store.nudge(), stop.clone()));
        let bodies = posts.bodies().iter().map(|body| hex::encode(Sha256::digest(body))).collect();
        let (began, log) =
            (system.deliverer.clock.now(), Store::new(store.pool().clone(), Vec::new()));
        Ok(Self { began, log, system, bodies, follower, stop })
    }

    pub(crate) async fn begin(&self) -> anyhow::Result<AppendTransaction<'_>> {
        Ok(self.log.begin().await?)
    }

    /// The occurrences of these events, each for all targets.
    pub(crate) fn happened(&self, events: &[i64], targets: i32) -> Vec<NewEvent> {
        let happened = |event: &i64| {
            let happening = Happening {
                booking_id: None,
                form_id: FIRM,
                happened_at: self.at(*event),
                hooks: (0..targets).map(hook).collect(),
                report_id: None,
                response_id: occurrence(*event),
                seen: 1,
                silent: false,
                trigger: Trigger::FormSubmitted,
            };
            let of = OccurrenceEvent::OccurrenceRecorded(happening).into();
            self.event(*event, occurrence(*event), of)
        };
        events.iter().map(happened).collect()
    }

    /// The attempts that delivered these events.
    pub(crate) fn arrived(&self, sent: &[(i64, i32)]) -> anyhow::Result<Vec<NewEvent>> {
        let now = self.system.deliverer.clock.now();
        sent.iter()
            .map(|(event, target)| {
                let body = usize::try_from(*event)?;
                let attempt = Attempt {
                    outcome: Outcome::Delivered,
                    status: Some(200),
                    error: None,
                    hops: vec![Hop {
                        address: Some("127.0.0.1:40000".to_owned()),
                        status: Some(200),
                        url: None,
                    }],
                    body_id: Some(occurrence(*event)),
                    body_sha256: self.bodies.get(body).cloned(),
                    of: Some(DeliveryOf {
                        hook_id: hook(*target),
                        occurrence_id: occurrence(*event),
                    }),
                    ..Attempt::interrupted(1, now, now)
                };
                let id = delivery_id(occurrence(*event), self.at(*event), hook(*target));
                Ok(self.event(*event, id, DeliveryEvent::DeliveryAttempted(attempt).into()))
            })
            .collect()
    }

    fn at(&self, event: i64) -> Timestamp {
        Timestamp::from(self.began.get() + TimeDelta::milliseconds(event))
    }

    /// The first event of a stream.
    fn event(&self, event: i64, stream: Uuid, of: Event) -> NewEvent {
        NewEvent {
            aggregate_id: stream.to_string(),
            sequence: 1,
            event: of,
            context: EventContext {
                firm_id: FIRM,
                recorded_at: self.system.deliverer.clock.now(),
                actor: Actor::System,
                correlation_id: occurrence(event),
                causation_id: Some(occurrence(event)),
                traceparent: None,
                terminal: None,
            },
        }
    }

    /// Waits until history knows of everything.
    pub(crate) async fn followed(&self) -> anyhow::Result<()> {
        while !sqlx::query_scalar::<_, bool>(FOLLOWED).fetch_one(self.system.main_pool()).await? {
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    pub(crate) async fn end(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.follower.await.context("the follower")?;
        self.system.stop().await
    }
}

fn occurrence(event: i64) -> Uuid {
    Uuid::from_u128(u128::from(event.cast_unsigned()) + 1)
}

fn hook(target: i32) -> Uuid {
    Uuid::from_u128(u128::from(target.cast_unsigned()) + (1 << 96))
}
