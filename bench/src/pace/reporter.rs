//! A caller that reports responses, one call each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use eventstore::Clock;
use tests::{Firm, World};
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

use super::free::Free;
use crate::activity::submitted_at;
use crate::connection::Connection;

/// An event that was reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) firm_id: Uuid,
    pub(crate) response_id: Uuid,
    /// The moment at which the report was due.
    pub(crate) due: Instant,
    /// The moment at which it was sent. That is later if a timer was late, if a connection had to
    /// be opened, or if as many reports as allowed were under way.
    pub(crate) sent: Instant,
}

/// A caller that reports.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub(super) door: SocketAddr,
    token: String,
    clock: Clock,
    /// Connections that are kept from one report to the next.
    pub(super) free: Arc<Free>,
}

impl Reporter {
    /// A caller that reports at this door of this world.
    pub(crate) fn new(world: &World, door: SocketAddr) -> Self {
        let (token, clock) = (world.token().to_owned(), world.clock.clone());
        Self { door, token, clock, free: Arc::default() }
    }

    /// Reports a response of this firm, which was due then.
    pub(super) async fn report(
        &self,
        connection: &mut Connection,
        firm: &Firm,
        due: Instant,
    ) -> anyhow::Result<Reported> {
        let (response_id, sent) = (SystemEntropy.new_id(), Instant::now());
        let line = submitted_at(self.clock.now(), firm, response_id).to_string().into_bytes();
        let (answer, body) = connection.report(&self.token, &line).await?;
        ensure!(answer.ok, "a report was refused: {}", String::from_utf8_lossy(&body));
        Ok(Reported { firm_id: firm.id, response_id, due, sent })
    }
}
