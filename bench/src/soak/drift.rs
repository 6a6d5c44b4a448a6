//! Whether a long run drifted: its last third beside its first.

use super::report::Minute;

/// The rate may be so much lower.
const RATE_MIN: f64 = 0.97;

/// The 99th centile may be so much higher: times, and milliseconds for the noise of a small one.
const P99_TIMES: f64 = 1.5;
const P99_MORE_MS: f64 = 5.0;

/// Memory may be so much more, MiB.
const MEMORY_MORE_MIB: f64 = 8.0;

/// A table may take so much more: the space that vacuum has not freed yet differs by the minute.
const BYTES_TIMES: f64 = 1.5;
const BYTES_MORE: f64 = 1_048_576.0;

/// The outbox may hold so many more: deliveries under way when the minute ends.
const OUTBOX_MORE: f64 = 256.0;

/// The bytes that a delivery leaves may differ by so much, either way.
const LEFT_DIFFERS: f64 = 0.15;

/// A figure of a minute.
type Of = fn(&Minute) -> f64;

/// The figures that drifted, a line each.
pub(super) fn drift_lines(minutes: &[Minute]) -> Vec<String> {
    let third = (minutes.len() / 3).max(1);
    let thirds = Thirds { first: &minutes[..third], last: &minutes[minutes.len() - third..] };
    let left: [(&str, Of); 2] = [
        ("log bytes of a delivery", |minute| minute.grown.log_bytes),
        ("history bytes of a delivery", |minute| minute.grown.history_bytes),
    ];
    let rate = thirds.beyond(
        "deliveries a second",
        |minute| minute.per_second,
        |first| (first * RATE_MIN, f64::INFINITY),
    );
    let p99 = thirds.beyond(
        "p99 ms",
        |minute| minute.latency.p99_us as f64 / 1e3,
        |first| (0.0, first * P99_TIMES + P99_MORE_MS),
    );
    let memory = thirds.beyond(
        "resident MiB",
        |minute| minute.resident_mib,
        |first| (0.0, first + MEMORY_MORE_MIB),
    );
    let left = left.into_iter().map(|(name, of)| {
        thirds
            .beyond(name, of, |first| (first * (1.0 - LEFT_DIFFERS), first * (1.0 + LEFT_DIFFERS)))
    });
    [rate, p99, memory].into_iter().chain(left).flatten().chain(thirds.tables()).collect()
}

struct Thirds<'a> {
    first: &'a [Minute],
    last: &'a [Minute],
}

impl Thirds<'_> {
    /// Says if the middle figure of the last third is beyond the bounds that the first third sets.
    fn beyond(
        &self,
        name: &str,
        of: impl Fn(&Minute) -> f64,
        bounds: impl Fn(f64) -> (f64, f64),
    ) -> Option<String> {
        let (first, last) = (middle(self.first, &of), middle(self.last, &of));
        let (least, most) = bounds(first);
        (last < least || last > most).then(|| format!("{name}: {first:.1}, then {last:.1}"))
    }

    /// The most that each table held and took.
    fn tables(&self) -> impl Iterator<Item = String> {
        let tables = self.first.first().map(|minute| minute.held.len()).unwrap_or_default();
        (0..tables)
            .flat_map(|table| {
                let name = &self.first[0].held[table].name;
                let more = if name == "outbox" { OUTBOX_MORE } else { 0.0 };
                let rows = |minute: &Minute| minute.held[table].rows as f64;
                let bytes = |minute: &Minute| minute.held[table].bytes as f64;
                [
                    self.more((name, "rows"), rows, |first| first + more),
                    self.more((name, "bytes"), bytes, |first| first * BYTES_TIMES + BYTES_MORE),
                ]
            })
            .flatten()
    }

    fn more(
        &self,
        (name, what): (&str, &str),
        of: impl Fn(&Minute) -> f64,
        most: impl Fn(f64) -> f64,
    ) -> Option<String> {
        let (first, last) = (highest(self.first, &of), highest(self.last, &of));
        (last > most(first)).then(|| format!("{what} of {name}: {first:.0}, then {last:.0}"))
    }
}

fn middle(minutes: &[Minute], of: impl Fn(&Minute) -> f64) -> f64 {
    let mut all: Vec<f64> = minutes.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

fn highest(minutes: &[Minute], of: impl Fn(&Minute) -> f64) -> f64 {
    minutes.iter().map(of).fold(0.0, f64::max)
}
