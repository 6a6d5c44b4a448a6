//! Good calls, one after the other at each target: on new connections, and on one that is kept.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Serialize;
use tests::World;
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::latency::Latency;
use crate::serving::Serving;

/// The time between two calls at a target.
const PAUSE: Duration = Duration::from_millis(50);

/// A call that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Calls of one key in a minute, with a reserve.
const CALLS_PER_KEY: u64 = 100;

/// How the connections of a target are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Each,
    One,
}

/// A door, and the call to make there.
#[derive(Debug, Clone)]
pub(super) struct Target {
    name: &'static str,
    door: SocketAddr,
    path: &'static str,
    /// Taken in turn, so that none is over its rate.
    keys: Vec<String>,
    keep: Keep,
}

/// The outcome of the calls at one target.
#[derive(Debug, Serialize)]
pub(super) struct GoodCalls {
    pub(super) target: &'static str,
    pub(super) calls: usize,
    pub(super) failed: usize,
    /// Why the first of them failed.
    pub(super) why: Option<String>,
    pub(super) latency: Latency,
}

impl Target {
    /// Both doors, with keys for calls of this time.
    pub(super) async fn both(world: &World, serving: &Serving, time: Duration) -> Vec<Self> {
        let calls = 3 * time.as_millis() / PAUSE.as_millis();
        let keys = usize::try_from(calls / u128::from(CALLS_PER_KEY)).unwrap_or(0) + 1;
        let public = async |name, keep| {
            let mut own = Vec::new();
            for _ in 0..keys {
                own.push(world.firm().await.key);
            }
            Self { name, door: serving.public, path: "/api/v1/me", keys: own, keep }
        };
        let without_key = |name, door, path, keep| {
            let keys = vec!["none".to_owned()];
            Self { name, door, path, keys, keep }
        };
        let internal = |name, keep| without_key(name, serving.internal, "/readyz", keep);
        let description = "/api/v1/openapi.json";
        vec![
            public("public, new", Keep::Each).await,
            public("public, kept", Keep::One).await,
            without_key("description, kept", serving.public, description, Keep::One),
            internal("internal, new", Keep::Each),
            internal("internal, kept", Keep::One),
        ]
    }
}

impl GoodCalls {
    /// Calls all targets for this time.
    pub(super) async fn during(targets: &[Target], time: Duration) -> Vec<Self> {
        Self::while_it_lasts(targets, sleep(time)).await.1
    }

    /// Calls all targets until this ends.
    pub(super) async fn while_it_lasts<T>(
        targets: &[Target],
        lasts: impl Future<Output = T>,
    ) -> (T, Vec<Self>) {
        let stop = CancellationToken::new();
        let calls =
            targets.iter().cloned().map(|target| tokio::spawn(Self::at(target, stop.clone())));
        let calls: Vec<_> = calls.collect();
        let ended = lasts.await;
        stop.cancel();
        let mut all = Vec::new();
        for call in calls {
            all.extend(call.await);
        }
        (ended, all)
    }

    async fn at(target: Target, stop: CancellationToken) -> Self {
        let mut pace = interval(PAUSE);
        let mut took = Vec::new();
        let mut calls = 0;
        let mut failed = 0;
        let mut kept = None;
        let mut why = None;
        while !stop.is_cancelled() {
            pace.tick().await;
            let asked = Instant::now();
            let key = &target.keys[calls % target.keys.len()];
            let answered = timeout(PATIENCE, call(&target, key, &mut kept)).await;
            calls += 1;
            let failure = match answered {
                Ok(Ok(true)) => None,
                Ok(Ok(false)) => Some("an error".to_owned()),
                Ok(Err(error)) => Some(format!("{error:#}")),
                Err(_) => Some("too slow".to_owned()),
            };
            match failure {
                None => took.push(u64::try_from(asked.elapsed().as_micros()).unwrap_or(0)),
                Some(failure) => {
                    failed += 1;
                    kept = None;
                    why.get_or_insert(failure);
                }
            }
        }
        Self { target: target.name, calls, failed, why, latency: Latency::new(took) }
    }
}

async fn call(target: &Target, key: &str, kept: &mut Option<Connection>) -> anyhow::Result<bool> {
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => Connection::open(target.door).await?,
    };
    let answer = connection.get(target.path, key).await?;
    if target.keep == Keep::One {
        *kept = Some(connection);
    }
    Ok(answer.ok)
}
