//! `pages`: time to the first byte and size of each screen of the console and of the portal, with
//! its filters, on an installation with many deliveries and a long audit log of one firm. Sizes are
//! of the compressed pages, as a browser gets them.
//!
//! The service is a process of its own. Deliveries are copies of one that was delivered, with ids,
//! times and states of their own, in the table that screens read and not in the log. Entries of the
//! audit log follow from events. The run fails if a screen does not open.

mod population;
mod visit;

use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use serde::Serialize;

use self::population::populate;
use self::visit::{PageVisits, Visitor};
use crate::latency::Latency;
use crate::running::{Running, roomy_cluster};
use crate::service::described;

/// Goals of issue 30: the 95th percentile of the first byte, and the size of a page.
const FIRST_BYTE_P95_MAX_MS: f64 = 50.0;
const PAGE_KB_MAX: f64 = 60.0;

/// Visits of a screen of the portal, at most: a session has 120 requests a minute.
const PORTAL_VISITS_MAX: u32 = 100;

/// The followers need so long, at most, for the entries.
const PATIENCE: Duration = Duration::from_secs(900);

/// The population, and the number of visits.
#[derive(Debug, Args)]
pub(crate) struct Pages {
    /// Deliveries of the firm.
    #[arg(long, default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    deliveries: u32,
    /// Entries of the firm's audit log.
    #[arg(long, default_value_t = 100_000,
          value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    entries: u32,
    /// Visits of each screen; the first three are not counted.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    visits: u32,
}

/// The figures of one screen.
#[derive(Debug, Serialize)]
struct Screen {
    path: String,
    p50_ms: f64,
    p95_ms: f64,
    kb: f64,
    is_slow: bool,
    is_big: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    deliveries: u32,
    entries: u32,
    visits: u32,
    postgres: String,
    screens: Vec<Screen>,
}

/// Measures and prints; fails if a screen does not open.
pub(crate) async fn run(command: &Pages) -> anyhow::Result<()> {
    let cluster = roomy_cluster().await;
    let running = Running::whole(&cluster, &[]).await?;
    let measured = command.on(&running).await;
    running.stop().await?;
    measured?.print()
}

impl Pages {
    async fn on(&self, running: &Running) -> anyhow::Result<Report> {
        let world = &running.world;
        let populated = populate(world, self.deliveries, self.entries).await?;
        running.settle(PATIENCE).await?;
        let postgres = described(&world.system).await?;
        let console = Visitor::of_console(world, running.doors[0]).await?;
        let mut screens = Vec::new();
        Screen::head();
        for path in populated.console() {
            screens.push(Screen::new(path.clone(), console.open(&path, self.visits).await?));
        }
        for path in populated.portal() {
            // A session has a rate.
            let portal = Visitor::of_portal(world, &populated.firm, running.public).await?;
            let visits = self.visits.min(PORTAL_VISITS_MAX);
            screens.push(Screen::new(path.clone(), portal.open(&path, visits).await?));
        }
        ensure!(!screens.is_empty(), "no screen was opened");
        let Self { deliveries, entries, visits } = *self;
        Ok(Report { bench: "pages", deliveries, entries, visits, postgres, screens })
    }
}

impl Screen {
    /// The figures of these visits, which are printed.
    fn new(path: String, PageVisits { first_bytes_us, bytes }: PageVisits) -> Self {
        let latency = Latency::new(first_bytes_us);
        let ms = |us: u64| us as f64 / 1e3;
        let (p95_ms, kb) = (ms(latency.p95_us), bytes as f64 / 1_024.0);
        let screen = Self {
            path,
            p50_ms: ms(latency.p50_us),
            p95_ms,
            kb,
            is_slow: p95_ms >= FIRST_BYTE_P95_MAX_MS,
            is_big: kb >= PAGE_KB_MAX,
        };
        screen.print();
        screen
    }

    fn head() {
        println!("{:>8} {:>8} {:>7}  screen", "p50 ms", "p95 ms", "KB");
    }

    fn print(&self) {
        let slow = if self.is_slow { "  SLOW" } else { "" };
        let big = if self.is_big { "  BIG" } else { "" };
        let Self { path, p50_ms, p95_ms, kb, .. } = self;
        println!("{p50_ms:>8.1} {p95_ms:>8.1} {kb:>7.1}  {path}{slow}{big}");
    }
}

impl Report {
    /// A summary, then the line.
    fn print(&self) -> anyhow::Result<()> {
        let slow = self.screens.iter().filter(|screen| screen.is_slow).count();
        let big = self.screens.iter().filter(|screen| screen.is_big).count();
        println!("PostgreSQL {}", self.postgres);
        println!(
            "{} screens, {} deliveries, {} entries: {slow} with a p95 from {FIRST_BYTE_P95_MAX_MS} \
             ms, {big} from {PAGE_KB_MAX} KB",
            self.screens.len(),
            self.deliveries,
            self.entries
        );
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}
