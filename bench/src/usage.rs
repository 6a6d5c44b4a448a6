//! The cost of a run, from `/proc`: the CPU of the service, of PostgreSQL and of the peer, and the
//! memory of a process. The peer is the process at the other end: receiver or caller. With
//! [`Processes`] this process is the service. With [`spent`] it is the peer.
//!
//! PostgreSQL's CPU is the postmaster's own, the CPU of its children, and `cutime + cstime`. There
//! the kernel adds a child's CPU when the postmaster has waited for it, so children that ended in
//! between are not lost. The kernel counts in ticks of 10 ms, so a difference over some thirty
//! processes is good to about 0.1 s.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

/// `USER_HZ`, the same on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// CPU that processes of the service, PostgreSQL and this process, as their peer, used so far.
pub(crate) fn spent(services: &[u32], postmaster: u32) -> anyhow::Result<Cpu> {
    let own = |pid| Stat::new(pid).map(|stat| stat.own).context("a process ended");
    Ok(Cpu {
        service: services.iter().map(|pid| own(*pid)).sum::<anyhow::Result<Duration>>()?,
        postgres: server(postmaster).context("the server")?,
        peer: own(std::process::id())?,
    })
}

/// CPU used so far, or between two looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cpu {
    pub(crate) service: Duration,
    pub(crate) postgres: Duration,
    pub(crate) peer: Duration,
}

/// Whose CPU is looked at, beside our own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Processes {
    pub(crate) postmaster: Option<u32>,
    pub(crate) peer: u32,
}

impl Processes {
    pub(crate) fn look(self) -> anyhow::Result<Cpu> {
        let own = |pid| Stat::new(pid).map(|stat| stat.own);
        Ok(Cpu {
            service: own(std::process::id()).context("our own /proc/…/stat")?,
            postgres: self.postmaster.map_or(Some(Duration::ZERO), server).context("the server")?,
            peer: own(self.peer).context("the peer")?,
        })
    }
}

impl Cpu {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            service: self.service.saturating_sub(before.service),
            postgres: self.postgres.saturating_sub(before.postgres),
            peer: self.peer.saturating_sub(before.peer),
        }
    }

    /// The CPU of each of `count` deliveries, in microseconds.
    pub(crate) fn each(self, count: usize) -> CpuEach {
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / count.max(1) as f64;
        CpuEach {
            service_cpu_us: each(self.service),
            postgres_cpu_us: each(self.postgres),
            peer_cpu_us: each(self.peer),
        }
    }
}

/// CPU of one delivery.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct CpuEach {
    pub(crate) service_cpu_us: f64,
    pub(crate) postgres_cpu_us: f64,
    /// The CPU of the caller or the receiver.
    pub(crate) peer_cpu_us: f64,
}

impl CpuEach {
    /// The CPU of service and PostgreSQL.
    pub(crate) fn both_us(self) -> f64 {
        self.service_cpu_us + self.postgres_cpu_us
    }
}

fn server(postmaster: u32) -> Option<Duration> {
    let children: Duration = fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Stat::new)
        .filter(|stat| stat.parent == postmaster)
        .map(|stat| stat.own)
        .sum();
    Stat::new(postmaster).map(|stat| stat.own + stat.ended_children + children)
}

struct Stat {
    parent: u32,
    own: Duration,
    ended_children: Duration,
}

impl Stat {
    /// Reads fields 4 and 14 to 17 of proc(5). Field 2, the name, may hold anything, so `fields`
    /// begins with field 3.
    fn new(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
        let ticks = |first: usize| {
            let sum = fields[first].parse::<u32>().ok()? + fields[first + 1].parse::<u32>().ok()?;
            Some(TICK * sum)
        };
        Some(Self { parent: fields[1].parse().ok()?, own: ticks(11)?, ended_children: ticks(13)? })
    }
}

/// Resident memory of a process, in MiB: now, and the most since [`forget_peak`].
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Memory {
    pub(crate) now_mib: f64,
    pub(crate) peak_mib: f64,
}

impl Memory {
    /// The memory of this process.
    pub(crate) fn look() -> anyhow::Result<Self> {
        Self::new(std::process::id())
    }

    pub(crate) fn new(pid: u32) -> anyhow::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let mib = |name: &str| -> anyhow::Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.split_whitespace().next());
            Ok(kib.context("no such line in /proc/…/status")?.parse::<f64>()? / 1024.0)
        };
        Ok(Self { now_mib: mib("VmRSS:")?, peak_mib: mib("VmHWM:")? })
    }
}

/// Lets this process's peak begin anew, at the memory that is resident now.
pub(crate) fn forget_peak() -> std::io::Result<()> {
    forget_peak_of(std::process::id())
}

/// Lets another process's peak begin anew.
pub(crate) fn forget_peak_of(pid: u32) -> std::io::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")
}
