//! The receiver as the run sees it.

use std::net::Ipv4Addr;

use crate::child::Child;
use crate::receiver::{RESET, Tally};

/// A running receiver.
pub(crate) struct Peer {
    pub(crate) pid: u32,
    port: u16,
    process: Child,
}

impl Peer {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let mut process = Child::start("receiver")?;
        let port = process.line().await?.parse()?;
        Ok(Self { pid: process.pid, port, process })
    }

    /// The target of one subscription, on a host of its own.
    pub(crate) fn target(&self, subscription: usize) -> String {
        let host = u32::from(Ipv4Addr::LOCALHOST) + u32::try_from(subscription).unwrap_or_default();
        format!("http://{}:{}/hooks/{subscription}", Ipv4Addr::from(host), self.port)
    }

    /// Begins a new tally.
    pub(crate) async fn reset(&mut self) -> anyhow::Result<Tally> {
        self.ask(RESET).await
    }

    /// The arrivals since the last reset.
    pub(crate) async fn tally(&mut self) -> anyhow::Result<Tally> {
        self.ask("tally").await
    }

    async fn ask(&mut self, question: &str) -> anyhow::Result<Tally> {
        Ok(serde_json::from_str(&self.process.ask(question).await?)?)
    }
}
