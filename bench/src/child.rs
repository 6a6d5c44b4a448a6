//! A process beside the run, started from this program and asked line by line. It ends with the
//! run.

use std::process::Stdio;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command};

/// A running one.
pub(crate) struct Child {
    pub(crate) pid: u32,
    name: &'static str,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _process: Process,
}

impl Child {
    /// Starts the command of this program that has this name.
    pub(crate) fn start(name: &'static str) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting the {name}"))?;
        let questions = process.stdin.take().context("its standard input")?;
        let output = process.stdout.take().context("its standard output")?;
        Ok(Self {
            pid: process.id().with_context(|| format!("the {name} ended"))?,
            name,
            questions,
            answers: BufReader::new(output).lines(),
            _process: process,
        })
    }

    /// The next line it says.
    pub(crate) async fn line(&mut self) -> anyhow::Result<String> {
        self.answers.next_line().await?.with_context(|| format!("the {} ended", self.name))
    }

    /// Its answer to a line.
    pub(crate) async fn ask(&mut self, question: &str) -> anyhow::Result<String> {
        let asked = self.questions.write_all(format!("{question}\n").as_bytes()).await;
        asked.with_context(|| format!("the {} ended", self.name))?;
        self.line().await
    }
}
