//! The bare batched sender: the least that sends from a queue in PostgreSQL. It claims a batch,
//! POSTs it, and deletes it. No log, no history, no read models, no limits, no second try; its
//! bodies lie in the queue as they are sent. On request it leaves the traces of every delivery, and
//! nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use cluster::Cluster;
use eventstore::NewEvent;
use sqlx::postgres::{PgArguments, PgPoolOptions};
use sqlx::query::Query;
use sqlx::{Executor, PgPool, Postgres};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::ceiling::Posts;
use crate::peer::Peer;
use crate::receiver::Tally;
use crate::service::{Feed, MAIN, postmaster};
use crate::traces::Traces;
use crate::usage::{Cpu, Processes};

/// POSTs in flight, and the most that one claim takes: the permits of `serve`.
const PERMITS: u32 = 256;

/// Events that one commit of a batch brings, and how many bring them; the same as of the service.
const BATCHES: (usize, usize) = (100, 4);

/// Callers that bring an event each, by a commit each.
const CALLERS: usize = 32;

/// Deliveries that are queued and not recorded at a time, where traces are left. A delivery that
/// waits for longer is written to history twice.
const ROOM: usize = 2_000;

/// The wait for more while nothing is queued.
const POLL: Duration = Duration::from_millis(5);

const SCHEMA: &str = "
    create table happened (event_id bigint primary key, body bytea not null);
    create table queue (
        place bigint generated always as identity primary key, event_id bigint not null,
        target int not null, leased_at timestamptz
    ) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
    create index queue_free_idx on queue (place) where leased_at is null;";

/// The time and the CPU that the sender took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) took: Duration,
    pub(crate) cpu: Cpu,
    pub(crate) arrived: Tally,
    pub(crate) posts: usize,
}

struct Sender {
    pool: PgPool,
    traces: Option<Traces>,
    posts: Arc<Posts>,
    fed: Notify,
    room: Semaphore,
    permits: Arc<Semaphore>,
}

/// The rows that a delivery leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    Nothing,
    /// Its two events in the log, and its row of history.
    Traces,
}

/// Sends all of it, as it is fed, on a cluster of its own.
pub(crate) async fn run(
    cluster: &Cluster,
    (posts, feed, leaves): (&Arc<Posts>, Feed, Leaves),
    peer: &mut Peer,
) -> anyhow::Result<Sent> {
    let traces = match leaves {
        Leaves::Nothing => None,
        Leaves::Traces => Some(Traces::start(cluster, posts).await?),
    };
    let database = if traces.is_some() { MAIN } else { "bare" };
    cluster.ensure_database(database).await?;
    let pool =
        PgPoolOptions::new().max_connections(40).connect_with(cluster.connect_options(database));
    let pool = pool.await?;
    pool.execute(SCHEMA).await?;
    nix::unistd::sync();
    let processes = Processes { postmaster: Some(postmaster(cluster)?), peer: peer.pid };
    peer.reset().await?;
    let room = match traces {
        Some(_) => ROOM.max(2 * BATCHES.0 * posts.targets()),
        None => Semaphore::MAX_PERMITS,
    };
    let sender = Arc::new(Sender {
        pool,
        traces,
        room: Semaphore::new(room),
        posts: Arc::clone(posts),
        fed: Notify::new(),
        permits: Arc::new(Semaphore::new(PERMITS as usize)),
    });
    let (before, started) = (processes.look()?, Instant::now());
    let feeding = tokio::spawn(Arc::clone(&sender).feed(feed));
    sender.send_all().await?;
    if let Some(traces) = &sender.traces {
        traces.followed().await?;
    }
    let (took, cpu) = (started.elapsed(), processes.look()?.since(before));
    feeding.await??;
    let Sender { pool, traces, .. } = Arc::into_inner(sender).context("somebody still sends")?;
    pool.close().await;
    if let Some(traces) = traces {
        traces.end().await?;
    }
    Ok(Sent { took, cpu, arrived: peer.tally().await?, posts: posts.all() })
}

impl Sender {
    async fn feed(self: Arc<Self>, feed: Feed) -> anyhow::Result<()> {
        let (size, feeders) = match feed {
            Feed::Batches => BATCHES,
            Feed::Calls => (1, CALLERS),
        };
        let (next, mut tasks) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
        for _ in 0..feeders {
            let (sender, next) = (Arc::clone(&self), Arc::clone(&next));
            tasks.spawn(async move {
                loop {
                    let first = next.fetch_add(1, Ordering::Relaxed) * size;
                    let bodies: Vec<_> =
                        sender.posts.bodies().iter().skip(first).take(size).collect();
                    if bodies.is_empty() {
                        return anyhow::Ok(());
                    }
                    let queued = u32::try_from(bodies.len() * sender.posts.targets())?;
                    sender.room.acquire_many(queued).await?.forget();
                    sender.queue(first, &bodies).await?;
                    sender.fed.notify_one();
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(())
    }

    async fn queue(&self, first: usize, bodies: &[&Bytes]) -> anyhow::Result<()> {
        let ids: Vec<i64> =
            (first..first + bodies.len()).map(i64::try_from).collect::<Result<_, _>>()?;
        let targets = i32::try_from(self.posts.targets())?;
        let bodies: Vec<Vec<u8>> = bodies.iter().map(|body| body.to_vec()).collect();
        let queued = sqlx::query(
            "with new as (
                 insert into happened select * from unnest($1::bigint[], $2::bytea[])
                 returning event_id)
             insert into queue (event_id, target)
             select event_id, target from new, generate_series(0, $3 - 1) as target",
        )
        .bind(&ids)
        .bind(bodies)
        .bind(targets);
        let events = self.traces.as_ref().map(|traces| traces.happened(&ids, targets));
        self.write(queued, events).await
    }

    /// Makes a change of the queue, with its events in the log.
    async fn write(
        &self,
        change: Query<'_, Postgres, PgArguments>,
        events: Option<Vec<NewEvent>>,
    ) -> anyhow::Result<()> {
        match self.traces.as_ref().zip(events) {
            None => {
                change.execute(&self.pool).await?;
            }
            Some((traces, events)) => {
                let mut appending = traces.begin().await?;
                appending.append(events).await?;
                change.execute(appending.connection()).await?;
                appending.commit().await?;
            }
        }
        Ok(())
    }

    async fn send_all(self: &Arc<Self>) -> anyhow::Result<()> {
        let (sent, inbox) = mpsc::channel(PERMITS as usize);
        let deleting = tokio::spawn(Arc::clone(self).delete_all(inbox));
        let (mut left, mut tasks) = (self.posts.all(), JoinSet::new());
        while left > 0 {
            drop(self.permits.acquire().await?);
            let claimed = self.claim(self.permits.available_permits()).await?;
            if claimed.is_empty() {
                tokio::time::timeout(POLL, self.fed.notified()).await.ok();
            }
            left -= claimed.len();
            for (place, event, target, body) in claimed {
                let permit = Arc::clone(&self.permits).acquire_owned().await?;
                let (posts, sent) = (Arc::clone(&self.posts), sent.clone());
                tasks.spawn(async move {
                    let id = Uuid::from_u128(place.cast_unsigned().into());
                    posts.post(usize::try_from(target)?, id, body.into()).await?;
                    drop(permit);
                    sent.send((place, (event, target))).await.context("nobody deletes")
                });
            }
            while let Some(ended) = tasks.try_join_next() {
                ended??;
            }
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        drop(sent);
        deleting.await?
    }

    async fn claim(&self, most: usize) -> anyhow::Result<Vec<(i64, i64, i32, Vec<u8>)>> {
        Ok(sqlx::query_as(
            "with free as (
                 select place from queue where leased_at is null
                  order by place limit $1 for update skip locked)
             update queue q set leased_at = now() from free, happened h
              where q.place = free.place and h.event_id = q.event_id
             returning q.place, q.event_id, q.target, h.body",
        )
        .bind(i64::try_from(most)?)
        .fetch_all(&self.pool)
        .await?)
    }

    async fn delete_all(
        self: Arc<Self>,
        mut inbox: mpsc::Receiver<(i64, (i64, i32))>,
    ) -> anyhow::Result<()> {
        let mut batch = Vec::new();
        while inbox.recv_many(&mut batch, PERMITS as usize).await > 0 {
            let (places, sent): (Vec<i64>, Vec<(i64, i32)>) = batch.drain(..).unzip();
            let deleted = sqlx::query("delete from queue where place = any($1)").bind(places);
            let events = self.traces.as_ref().map(|traces| traces.arrived(&sent)).transpose()?;
            let recorded = events.as_ref().map_or(0, Vec::len);
            self.write(deleted, events).await?;
            self.room.add_permits(recorded);
        }
        Ok(())
    }
}
