//! Faults that a seed draws: the same seed draws the same faults, whatever the machine does.

use std::time::Duration;

use crate::server_processes::ServerProcess;

/// The shortest and the longest time of work between two faults, in milliseconds.
const WORK_MILLIS: (u64, u64) = (200, 3_000);

/// The shortest and the longest time of a fault that lasts, in milliseconds.
const FAULT_MILLIS: (u64, u64) = (200, 2_000);

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A process of the service is killed, and started again.
    ServiceKilled,
    /// A process of PostgreSQL is killed, and the postmaster recovers.
    ServerKilled(ServerProcess),
    /// The postmaster is killed, and the server is started again.
    PostmasterKilled,
    /// The database answers a process late, for a while.
    Delayed,
    /// All connections of a process to the database are cut at once.
    Cut,
    /// Nothing passes between a process and the database, for a while.
    Swallowed,
    /// The answers to a process's COMMITs are lost with their connections, for a while.
    CommitAnswersLost,
    /// The machine of a process vanishes: its connections stay open at the server.
    MachineLost,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 12] = {
        let [backend, checkpointer, wal_writer, background_writer, launcher] = ServerProcess::ALL;
        [
            Self::ServiceKilled,
            Self::ServerKilled(backend),
            Self::ServerKilled(checkpointer),
            Self::ServerKilled(wal_writer),
            Self::ServerKilled(background_writer),
            Self::ServerKilled(launcher),
            Self::PostmasterKilled,
            Self::Delayed,
            Self::Cut,
            Self::Swallowed,
            Self::CommitAnswersLost,
            Self::MachineLost,
        ]
    };

    /// The kind's name, in commands and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ServiceKilled => "service",
            Self::ServerKilled(ServerProcess::Backend) => "backend",
            Self::ServerKilled(ServerProcess::Checkpointer) => "checkpointer",
            Self::ServerKilled(ServerProcess::WalWriter) => "wal-writer",
            Self::ServerKilled(ServerProcess::BackgroundWriter) => "background-writer",
            Self::ServerKilled(ServerProcess::AutovacuumLauncher) => "autovacuum-launcher",
            Self::PostmasterKilled => "postmaster",
            Self::Delayed => "delay",
            Self::Cut => "cut",
            Self::Swallowed => "swallow",
            Self::CommitAnswersLost => "commit-answers",
            Self::MachineLost => "machine",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A fault that was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawnFault {
    /// The time of work before it.
    pub work: Duration,
    /// Its kind.
    pub kind: FaultKind,
    /// Chooses among the processes that it may hit.
    pub choice: u64,
    /// The time that it lasts, if it is of a kind that does.
    pub lasts: Duration,
}

/// Draws so many faults of these kinds. Each kind is drawn once before any is drawn again.
#[must_use]
pub fn draw_faults(seed: u64, kinds: &[FaultKind], count: usize) -> Vec<DrawnFault> {
    let (mut random, mut bag) = (Random::new(seed), Vec::new());
    let mut faults = Vec::new();
    while faults.len() < count && !kinds.is_empty() {
        if bag.is_empty() {
            bag.extend_from_slice(kinds);
        }
        faults.push(DrawnFault {
            work: random.time_between(WORK_MILLIS),
            kind: bag.swap_remove(random.index_below(bag.len())),
            choice: random.below(u64::MAX),
            lasts: random.time_between(FAULT_MILLIS),
        });
    }
    faults
}

/// Numbers that look random and are the same for a seed: SplitMix64.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number below this one.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// The next index of a list of this length.
    pub fn index_below(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    /// The next time between these two.
    pub const fn time_between(&mut self, (shortest, longest): (u64, u64)) -> Duration {
        Duration::from_millis(shortest + self.below(longest - shortest))
    }
}
