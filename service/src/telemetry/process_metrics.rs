//! The metrics of a running service, for Prometheus. A scrape asks the database, and further
//! scrapes reuse the answer for some seconds. So frequent scrapes do no harm.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use api::internal::Exposition;
use eventstore::{Clock, Fence, LifeWatch};
use futures::future::BoxFuture;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;
use sqlx::PgPool;
use telemetry::metrics;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::gather::{self, in_seconds};
use crate::wiring::System;

/// Scrapes reuse the database's answer for this long.
const SCRAPE_CACHE_FOR: Duration = Duration::from_secs(5);

/// The interval at which measured times go into their buckets without a scrape.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Upper bounds in seconds. A claim takes milliseconds, an attempt at most 11 s, a call at most 120
/// s.
const BUCKET_BOUNDS_SECONDS: [f64; 13] =
    [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 11.0, 30.0];

/// The metrics of this process.
pub struct ProcessMetrics {
    recorder: PrometheusHandle,
    /// CPU time, memory, threads and file descriptors of this process.
    process: Collector,
    sources: OnceLock<MetricSources>,
    scrape_times: Mutex<ScrapeTimes>,
}

/// Parts of the system that a scrape reads.
struct MetricSources {
    pools: [(&'static str, PgPool); 6],
    /// The watches of both databases' servers.
    lives: [(&'static str, LifeWatch); 2],
    fence: Fence,
    clock: Clock,
    health: PgPool,
    keyring_health: PgPool,
}

/// The time of the last questions to the database, and of the last complete answer.
#[derive(Default)]
struct ScrapeTimes {
    asked: Option<Instant>,
    answered: Option<Instant>,
}

impl ProcessMetrics {
    /// Installs the recorder. From here on it counts every metric of this process.
    ///
    /// # Errors
    ///
    /// If the process has a recorder already.
    pub fn install_recorder() -> anyhow::Result<Self> {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&BUCKET_BOUNDS_SECONDS)
            .and_then(PrometheusBuilder::install_recorder)
            .context("the recorder of metrics")?;
        metrics::describe();
        let process = Collector::default();
        process.describe();
        metrics::BUILD_INFO.set(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        metrics::DATABASE_UP.set(&[], 0.0);
        metrics::KEYRING_UP.set(&[], 0.0);
        begin_at_zero();
        let scrape_times = Mutex::default();
        Ok(Self { recorder, process, sources: OnceLock::new(), scrape_times })
    }

    /// Adds this system to every scrape.
    pub fn watch_system(&self, system: &System) {
        let service = &system.service;
        let _ = self.sources.set(MetricSources {
            pools: [
                ("callers", service.store.pool().clone()),
                ("intake", service.pools.intake.pool().clone()),
                ("readers", service.pools.readers.clone()),
                ("workers", system.deliverer.store.pool().clone()),
                ("health", service.pools.health.clone()),
                ("keyring", service.keyring.pool().clone()),
            ],
            lives: [
                ("main", service.store.life().clone()),
                ("keyring", service.keyring.life().clone()),
            ],
            fence: system.fence.clone(),
            clock: service.clock.clone(),
            health: service.pools.health.clone(),
            keyring_health: service.pools.keyring_health.clone(),
        });
    }

    /// Moves measured times into their buckets, until `stop`.
    pub async fn run_upkeep(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.recorder.run_upkeep();
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(UPKEEP_INTERVAL) => {}
            }
        }
    }

    async fn refresh_metrics(&self, sources: &MetricSources) {
        sources.set_measured();
        // A concurrent scrape waits here, and then finds the answer fresh.
        let mut times = self.scrape_times.lock().await;
        if times.asked.is_none_or(|asked| asked.elapsed() >= SCRAPE_CACHE_FOR) {
            times.asked = Some(Instant::now());
            let main = gather::ask_all(&sources.health, sources.clock.now().get());
            let keyring = gather::has_answer(&sources.keyring_health);
            let (answer, keyring_up) = tokio::join!(main, keyring);
            metrics::DATABASE_UP.set(&[], f64::from(u8::from(answer.up)));
            metrics::KEYRING_UP.set(&[], f64::from(u8::from(keyring_up)));
            if answer.whole {
                times.answered = times.asked;
            }
        }
        if let Some(answered) = times.answered {
            metrics::DATABASE_AGE.set(&[], answered.elapsed().as_secs_f64());
        }
    }
}

impl Exposition for ProcessMetrics {
    fn metrics_text(&self) -> BoxFuture<'_, String> {
        Box::pin(async {
            self.process.collect();
            if let Some(sources) = self.sources.get() {
                self.refresh_metrics(sources).await;
            }
            self.recorder.render()
        })
    }
}

impl MetricSources {
    /// Sets the metrics that the process measures itself.
    fn set_measured(&self) {
        for (name, pool) in &self.pools {
            let size = pool.size();
            let idle = u32::try_from(pool.num_idle()).unwrap_or_default();
            let free = pool.options().get_max_connections().saturating_sub(size);
            let states = [("used", size.saturating_sub(idle)), ("idle", idle), ("free", free)];
            for (state, count) in states {
                metrics::POOL.set_count(&[("pool", name), ("state", state)], count);
            }
        }
        for (name, life) in &self.lives {
            metrics::OTHER_PRIMARIES.set_count(&[("database", name)], life.other_primaries().len());
        }
        metrics::FENCE_AGE.set(&[], self.fence.pending_age().as_secs_f64());
        metrics::CLOCK_OFFSET.set(&[], in_seconds(self.clock.offset()));
        metrics::CLOCK_FAULT.set(&[], f64::from(u8::from(self.clock.fault().is_some())));
    }
}

/// Starts these series at zero, so that their first step is visible.
fn begin_at_zero() {
    let tries = [("delivered", "2xx"), ("failed", "4xx"), ("failed", "410"), ("retry", "5xx")];
    let ours = [("retry", "dns"), ("retry", "timeout"), ("interrupted", "none")];
    for (outcome, class) in tries.into_iter().chain(ours) {
        metrics::ATTEMPTS.add(&[("outcome", outcome), ("class", class)], 0);
    }
    for code in ["rate_limited", "too_many_hooks", "invite_limit_reached", "unavailable"] {
        metrics::REFUSALS.add(&[("code", code)], 0);
    }
    for door in ["public", "internal"] {
        for reason in ["evicted_unread", "unread", "turned_away"] {
            metrics::DOOR_REFUSALS.add(&[("door", door), ("reason", reason)], 0);
        }
    }
    metrics::DISK_FULL_REFUSALS.add(&[], 0);
    metrics::ARCHIVE_AGE.set(&[], 0.0);
    for part in ["doors", "deliveries"] {
        metrics::DESCRIPTOR_SHORTAGES.add(&[("part", part)], 0);
    }
    for kind in ["malformed", "unknown"] {
        metrics::WRONG_KEYS.add(&[("kind", kind)], 0);
    }
    for result in ["accepted", "duplicate"] {
        metrics::INTAKE.add(&[("result", result)], 0);
    }
    for result in ["sent", "lost"] {
        metrics::TRACE_SPANS.add(&[("result", result)], 0);
    }
    for channel in ["mail", "operator"] {
        for outcome in ["sent", "given_up"] {
            metrics::NOTICES.add(&[("channel", channel), ("outcome", outcome)], 0);
        }
    }
    for outcome in ["sent", "failed"] {
        metrics::INVITES.add(&[("outcome", outcome)], 0);
    }
}
