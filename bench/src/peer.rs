//! The receiver as the run sees it.

use std::net::{Ipv4Addr, SocketAddr};

use crate::child::Child;
use crate::receiver::{RESET, Tally};

/// A running receiver.
pub(crate) struct Peer {
    pub(crate) pid: u32,
    address: SocketAddr,
    process: Child,
}

impl Peer {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let mut process = Child::start("receiver")?;
        let port = process.line().await?.parse()?;
        Ok(Self { pid: process.pid, address: (Ipv4Addr::LOCALHOST, port).into(), process })
    }

    /// The target of one subscription.
    pub(crate) fn target(&self, subscription: usize) -> String {
        format!("http://{}/hooks/{subscription}", self.address)
    }

    /// Begins a new tally.
    pub(crate) async fn reset(&mut self) -> anyhow::Result<Tally> {
        self.ask(RESET).await
    }

    /// What arrived since the last reset.
    pub(crate) async fn tally(&mut self) -> anyhow::Result<Tally> {
        self.ask("tally").await
    }

    async fn ask(&mut self, question: &str) -> anyhow::Result<Tally> {
        Ok(serde_json::from_str(&self.process.ask(question).await?)?)
    }
}
