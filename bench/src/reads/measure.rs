//! The measurements of one kind of call.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use serde_json::Value;
use sqlx::PgPool;
use tower::ServiceExt;

use super::args::{Reads, WARM_UP_SECONDS};
use super::job::{Calls, Job};
use super::report::{Figure, Row};
use super::rings;
use crate::child::Child;
use crate::statements::{self, Statement};
use crate::usage::{Memory, Processes, forget_peak};

/// The parts that every measurement needs.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Reads,
    pub(super) pool: &'a PgPool,
    pub(super) caller: Child,
    pub(super) processes: Processes,
}

/// A path, the keys that call it, and the number of items in each answer, if it is a list.
pub(super) struct Asked<'a> {
    pub(super) path: &'a str,
    pub(super) keys: &'a [String],
    pub(super) items: Option<usize>,
}

/// A kind of call.
pub(super) struct Endpoint {
    name: String,
    path: String,
    keys: Vec<String>,
    items: Option<usize>,
    service: SocketAddr,
    /// Calls to the service since the rings were filled.
    called: usize,
}

/// How calls follow one another.
#[derive(Debug, Clone, Copy)]
enum Pace {
    Closed,
    Rate(u32),
}

impl Endpoint {
    pub(super) fn new(asked: &Asked<'_>, service: SocketAddr) -> Self {
        let Asked { path, items, .. } = *asked;
        let many = items.map(|items| format!(", {items}")).unwrap_or_default();
        let (name, path) = (format!("GET {path}{many}"), format!("/api/v1{path}"));
        Self { name, path, keys: asked.keys.to_vec(), items, service, called: 0 }
    }

    /// The service's answer to one call. Fails unless the answer has so many items.
    pub(super) async fn body(&self, door: &Router) -> anyhow::Result<Bytes> {
        let key = self.keys.last().context("a key")?;
        let request = Request::get(&self.path).header("x-api-key", key).body(Body::empty())?;
        let answer = door.clone().oneshot(request).await?;
        ensure!(answer.status() == StatusCode::OK, "{}: {}", self.name, answer.status());
        let body = to_bytes(answer.into_body(), usize::MAX).await?;
        let found = serde_json::from_slice::<Value>(&body)?.as_array().map(Vec::len);
        ensure!(found == self.items, "{}: {found:?} are listed", self.name);
        Ok(body)
    }
}

impl Bench<'_> {
    /// The bare door, half as long, then the service's.
    pub(super) async fn figure(
        &mut self,
        endpoint: &mut Endpoint,
        bare: SocketAddr,
    ) -> anyhow::Result<Figure> {
        let rate = Pace::Rate(self.options.rate);
        let (long, short) = (self.options.seconds, self.options.seconds.div_ceil(2));
        rings::fill(self.pool).await?;
        let (ceiling, _) = self.row("ceiling", endpoint, (bare, Pace::Closed, short)).await?;
        let (ceiling_at_rate, _) = self.row("ceiling", endpoint, (bare, rate, short)).await?;
        let here = endpoint.service;
        self.row("service", endpoint, (here, Pace::Closed, WARM_UP_SECONDS)).await?;
        self.forget_statements().await?;
        let (service, peak) = self.row("service", endpoint, (here, Pace::Closed, long)).await?;
        let statements = self.statements().await?;
        let (service_at_rate, _) = self.row("service", endpoint, (here, rate, long)).await?;
        Ok(Figure {
            name: endpoint.name.clone(),
            ratio_to_ceiling: service.per_second / ceiling.per_second,
            ceiling,
            ceiling_at_rate,
            service,
            service_at_rate,
            peak_mib: peak.peak_mib,
            called: endpoint.called,
            counted: rings::counted(self.pool).await?,
            statements,
        })
    }

    async fn forget_statements(&self) -> Result<(), sqlx::Error> {
        if self.options.statements { statements::forget(self.pool).await } else { Ok(()) }
    }

    async fn statements(&self) -> Result<Vec<Statement>, sqlx::Error> {
        if self.options.statements {
            statements::costliest(self.pool).await
        } else {
            Ok(Vec::new())
        }
    }

    /// One measurement: a door, how calls follow one another, and for how many seconds.
    async fn row(
        &mut self,
        name: &str,
        endpoint: &mut Endpoint,
        (address, pace, seconds): (SocketAddr, Pace, u32),
    ) -> anyhow::Result<(Row, Memory)> {
        let is_service = address == endpoint.service;
        let left = endpoint.keys.len() * rings::CALLS - endpoint.called;
        let job = serde_json::to_string(&Job {
            address,
            path: endpoint.path.clone(),
            keys: endpoint.keys.clone(),
            calls_max: if is_service { left } else { usize::MAX },
            connections: self.options.connections.into(),
            seconds,
            rate: match pace {
                Pace::Closed => None,
                Pace::Rate(rate) => Some(rate),
            },
        })?;
        forget_peak()?;
        let before = self.processes.look()?;
        let calls: Calls = serde_json::from_str(&self.caller.ask(&job).await?)?;
        let cpu = self.processes.look()?.since(before);
        if is_service {
            endpoint.called += calls.calls;
            let turns = calls.calls % endpoint.keys.len();
            endpoint.keys.rotate_left(turns);
        }
        Ok((Row::new(name, calls, cpu), Memory::look()?))
    }
}
