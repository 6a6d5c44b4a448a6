//! A service on databases of its own, and the figures of one measurement.

use std::time::{Duration, Instant};

use serde::Serialize;
use tests::{Connections, Firm, Templates, World};
use uuid::Uuid;

/// Where nobody listens: nothing is sent here.
pub(super) const TARGET: &str = "http://127.0.0.1:7777/hook";

/// A service on databases of its own, and a firm with a subscription.
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) firm: Firm,
    pub(super) hook_id: Uuid,
}

impl Scene {
    pub(super) async fn on(cluster: &Templates) -> Self {
        let world = World::connected(cluster.database().await, Connections::Apart).await;
        let firm = world.firm().await;
        let hook_id = world.subscribe(&firm, TARGET).await;
        Self { world, firm, hook_id }
    }
}

/// A median time without the burden and with it, in milliseconds.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) without_ms: f64,
    pub(super) with_ms: f64,
    pub(super) ratio: f64,
}

impl Row {
    pub(super) fn new(name: &str, without: Vec<Duration>, with: Vec<Duration>) -> Self {
        let without_ms = median_ms(without);
        let with_ms = median_ms(with);
        Self { name: name.to_owned(), without_ms, with_ms, ratio: with_ms / without_ms }
    }
}

/// How long something takes.
pub(super) async fn timed<T, E>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<(T, Duration), E> {
    let began = Instant::now();
    let done = work.await?;
    Ok((done, began.elapsed()))
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1e3
}
