//! The figures of the failovers.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::mode::ReplicationMode;

/// The times of one failover.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailoverTimes {
    pub(super) outage: &'static str,
    /// From the end of the primary to the promotion: Patroni's time.
    pub(super) to_promotion: Duration,
    /// From the promotion to the next request at a receiver: the service's time.
    pub(super) to_sending: Duration,
    /// From the promotion to the alarm for a lost end of the log.
    pub(super) to_alarm: Option<Duration>,
}

/// All failovers.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    replication: String,
    failovers: usize,
    to_promotion_seconds: Spread,
    to_sending_seconds: Spread,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_alarm_seconds: Option<Spread>,
    /// Deliveries that arrived and are not in the log.
    pub(super) unknown: usize,
}

/// The lowest, the middle and the highest of some times.
#[derive(Debug, Clone, Copy, Serialize)]
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl fmt::Display for FailoverTimes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outage, to_promotion, to_sending, to_alarm } = self;
        write!(formatter, "{outage:<12} promoted after {to_promotion:.1?}, ")?;
        write!(formatter, "sending {to_sending:.1?} after that")?;
        match to_alarm {
            Some(time) => write!(formatter, ", alarm {time:.1?} after the promotion"),
            None => Ok(()),
        }
    }
}

impl Spread {
    fn new(times: impl Iterator<Item = Duration>) -> Option<Self> {
        let mut seconds: Vec<f64> = times.map(|time| time.as_secs_f64()).collect();
        seconds.sort_by(f64::total_cmp);
        let min = *seconds.first()?;
        let max = *seconds.last()?;
        Some(Self { min, median: seconds[seconds.len() / 2], max })
    }
}

impl Report {
    pub(super) fn new(mode: ReplicationMode, times: &[FailoverTimes], unknown: usize) -> Self {
        let none = Spread { min: 0.0, median: 0.0, max: 0.0 };
        Self {
            bench: "failover",
            replication: format!("{mode:?}").to_lowercase(),
            failovers: times.len(),
            to_promotion_seconds: Spread::new(times.iter().map(|one| one.to_promotion))
                .unwrap_or(none),
            to_sending_seconds: Spread::new(times.iter().map(|one| one.to_sending)).unwrap_or(none),
            to_alarm_seconds: Spread::new(times.iter().filter_map(|one| one.to_alarm)),
            unknown,
        }
    }

    pub(super) fn print(&self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}
