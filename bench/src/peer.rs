//! The receiver as the run sees it: a child process, asked line by line. It ends with the run.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::receiver::{RESET, Tally};

/// A running receiver.
pub(crate) struct Peer {
    pub(crate) pid: u32,
    address: SocketAddr,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Peer {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("receiver")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting the receiver")?;
        let questions = process.stdin.take().context("its standard input")?;
        let output = process.stdout.take().context("its standard output")?;
        let mut answers = BufReader::new(output).lines();
        let port = line(&mut answers).await?.parse()?;
        Ok(Self {
            pid: process.id().context("the receiver ended")?,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            questions,
            answers,
            _process: process,
        })
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
        self.questions
            .write_all(format!("{question}\n").as_bytes())
            .await
            .context("the receiver ended")?;
        Ok(serde_json::from_str(&line(&mut self.answers).await?)?)
    }
}

async fn line(answers: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<String> {
    answers.next_line().await?.context("the receiver ended")
}
