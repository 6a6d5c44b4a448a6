//! The figures of a running service, as Prometheus reads them. What has to be asked of the database is
//! asked at a scrape, and not again for some seconds: scrapes cannot hurt.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use api::internal::Exposition;
use eventstore::{Clock, Fence};
use futures::future::BoxFuture;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use sqlx::PgPool;
use telemetry::metrics as told;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::gather::{self, seconds};
use crate::wiring::System;

/// What the database said is told again for so long.
const SCRAPE_CACHE_FOR: Duration = Duration::from_secs(5);

/// How often measured times are put into their buckets when nobody scrapes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Upper bounds, in seconds: a claim takes milliseconds, a try at most 11 s, a call at most 120.
const BUCKET_BOUNDS_SECONDS: [f64; 13] =
    [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 11.0, 30.0];

/// What a process counts.
pub(crate) struct ProcessMetrics {
    recorder: PrometheusHandle,
    sources: OnceLock<MetricSources>,
    scrape_times: Mutex<ScrapeTimes>,
}

/// What is looked at when somebody asks.
struct MetricSources {
    pools: [(&'static str, PgPool); 6],
    fence: Fence,
    clock: Clock,
    health: PgPool,
}

/// When the database was asked, and when it last answered every question.
#[derive(Default)]
struct ScrapeTimes {
    asked: Option<Instant>,
    answered: Option<Instant>,
}

impl ProcessMetrics {
    /// Counts from here on, everything in this process.
    pub(crate) fn begin() -> anyhow::Result<Self> {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&BUCKET_BOUNDS_SECONDS)
            .and_then(PrometheusBuilder::install_recorder)
            .context("the figures")?;
        told::describe();
        told::BUILD_INFO.set(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        told::DATABASE_UP.set(&[], 0.0);
        begin_at_zero();
        Ok(Self { recorder, sources: OnceLock::new(), scrape_times: Mutex::default() })
    }

    /// From here on looks at this system, too.
    pub(crate) fn watch(&self, system: &System) {
        let service = &system.service;
        let _ = self.sources.set(MetricSources {
            pools: [
                ("callers", service.store.pool().clone()),
                ("intake", service.intake.pool().clone()),
                ("readers", service.readers.clone()),
                ("workers", system.courier.store.pool().clone()),
                ("health", service.health.clone()),
                ("keyring", service.keyring.pool().clone()),
            ],
            fence: system.fence.clone(),
            clock: service.clock.clone(),
            health: service.health.clone(),
        });
    }

    /// Puts what was measured into its buckets, until `stop`.
    pub(crate) async fn keep(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.recorder.run_upkeep();
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(UPKEEP_INTERVAL) => {}
            }
        }
    }

    async fn look(&self, watched: &MetricSources) {
        watched.tell();
        // Who scrapes at the same time waits, and finds it answered.
        let mut looked = self.scrape_times.lock().await;
        if looked.asked.is_none_or(|asked| asked.elapsed() >= SCRAPE_CACHE_FOR) {
            looked.asked = Some(Instant::now());
            let answer = gather::ask(&watched.health, watched.clock.now().get()).await;
            told::DATABASE_UP.set(&[], f64::from(u8::from(answer.up)));
            if answer.whole {
                looked.answered = looked.asked;
            }
        }
        if let Some(answered) = looked.answered {
            told::DATABASE_AGE.set(&[], answered.elapsed().as_secs_f64());
        }
    }
}

impl Exposition for ProcessMetrics {
    fn text(&self) -> BoxFuture<'_, String> {
        Box::pin(async {
            if let Some(watched) = self.sources.get() {
                self.look(watched).await;
            }
            self.recorder.render()
        })
    }
}

impl MetricSources {
    /// Tells what is known without asking anybody.
    fn tell(&self) {
        for (name, pool) in &self.pools {
            let (size, idle) = (pool.size(), u32::try_from(pool.num_idle()).unwrap_or_default());
            let free = pool.options().get_max_connections().saturating_sub(size);
            let states = [("used", size.saturating_sub(idle)), ("idle", idle), ("free", free)];
            for (state, count) in states {
                told::POOL.set_count(&[("pool", name), ("state", state)], count);
            }
        }
        told::FENCE_AGE.set(&[], self.fence.age().as_secs_f64());
        told::CLOCK_OFFSET.set(&[], seconds(self.clock.offset()));
        told::CLOCK_FAULT.set(&[], f64::from(u8::from(self.clock.fault().is_some())));
    }
}

/// A series that is there from the start shows its first step.
fn begin_at_zero() {
    let tries = [("delivered", "2xx"), ("failed", "4xx"), ("failed", "410"), ("retry", "5xx")];
    let ours = [("retry", "dns"), ("retry", "timeout"), ("interrupted", "none")];
    for (outcome, class) in tries.into_iter().chain(ours) {
        told::ATTEMPTS.add(&[("outcome", outcome), ("class", class)], 0);
    }
    for code in ["rate_limited", "too_many_hooks", "invite_limit_reached", "unavailable"] {
        told::REFUSALS.add(&[("code", code)], 0);
    }
    for kind in ["malformed", "unknown"] {
        told::WRONG_KEYS.add(&[("kind", kind)], 0);
    }
    for result in ["accepted", "duplicate"] {
        told::INTAKE.add(&[("result", result)], 0);
    }
    for result in ["sent", "lost"] {
        told::TRACE_SPANS.add(&[("result", result)], 0);
    }
    for outcome in ["sent", "failed"] {
        told::INVITES.add(&[("outcome", outcome)], 0);
    }
}
