//! One measurement: so many activities, taken in one way, until all their deliveries are queued.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use ::service::System;

use super::caught_up::{counts, listed, spread};
use super::feed::Written;
use super::file;
use super::measured::{Measured, Way};
use super::product::{Job, Order, Reported};
use super::report::Row;
use crate::child::Child;
use crate::statements::{self, Statement};
use crate::usage::{Memory, Processes, forget_peak};

/// The parts that every measurement needs.
pub(super) struct Bench<'a> {
    pub(super) system: &'a System,
    pub(super) processes: Processes,
    pub(super) product: Child,
    pub(super) door: SocketAddr,
    pub(super) token: String,
    pub(super) file: PathBuf,
    pub(super) subscriptions: usize,
    pub(super) statements: bool,
    /// Taken in by now.
    pub(super) activities: usize,
    /// Occurrences that must have followed from them.
    pub(super) occurrences: usize,
}

impl Bench<'_> {
    /// Takes in the next so many activities; they are written before the clock starts.
    pub(super) async fn take_in(&mut self, activities: usize, way: Way) -> anyhow::Result<Row> {
        let order = Order::Write { activities, file: self.file.clone() };
        let written: Written = serde_json::from_str(&self.ask(&order).await?)?;
        let measured = self.measure(written, way).await?;
        std::fs::remove_file(&self.file)?;
        let row = Row::new(&measured, self.occurrences, self.subscriptions);
        self.activities += activities;
        self.occurrences = written.occurrences;
        Ok(row)
    }

    async fn measure(&mut self, written: Written, way: Way) -> anyhow::Result<Measured> {
        let pool = self.system.main_pool();
        self.prepare(way).await?;
        if self.statements {
            statements::forget(pool).await?;
        }
        forget_peak()?;
        let (before, started) = (self.processes.look()?, Instant::now());
        let reported = self.report(way).await?;
        let taken_in_after = started.elapsed();
        spread(pool).await?;
        let queued_after = started.elapsed();
        listed(pool).await?;
        Ok(Measured {
            way,
            activities_before: self.activities,
            written,
            reported,
            taken_in_after,
            queued_after,
            listed_after: started.elapsed(),
            cpu: self.processes.look()?.since(before),
            peak_mib: Memory::look()?.peak_mib,
            statements: self.statements().await?,
            counted: counts(pool).await?,
        })
    }

    /// The product reads its batches before it begins.
    async fn prepare(&mut self, way: Way) -> anyhow::Result<()> {
        let Way::Http { connections, per_batch } = way else {
            return Ok(());
        };
        let (token, file) = (self.token.clone(), self.file.clone());
        let job = Job { address: self.door, token, file, connections, per_batch };
        self.ask(&Order::Report(job)).await.map(drop)
    }

    async fn ask(&mut self, order: &Order) -> anyhow::Result<String> {
        self.product.ask(&serde_json::to_string(order)?).await
    }

    async fn report(&mut self, way: Way) -> anyhow::Result<Reported> {
        match way {
            Way::File => {
                let taken = file::take_in(&self.system.service, &self.file).await?;
                Ok(Reported {
                    accepted: taken.accepted,
                    unchanged: taken.duplicates + taken.stale,
                    ..Reported::default()
                })
            }
            Way::Http { .. } => Ok(serde_json::from_str(&self.product.ask("report").await?)?),
        }
    }

    async fn statements(&self) -> Result<Vec<Statement>, sqlx::Error> {
        if self.statements {
            statements::costliest(self.system.main_pool()).await
        } else {
            Ok(Vec::new())
        }
    }
}
