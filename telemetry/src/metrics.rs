//! All metrics: their names, meanings and labels. A command or a test installs no recorder;
//! counting costs almost nothing there.

use std::time::Duration;

/// How the value of a metric moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Up only, since the process began.
    Counter,
    /// Up and down.
    Gauge,
    /// Seconds, in buckets.
    Histogram,
}

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// The name, with the unit.
    pub name: &'static str,
    /// How the value moves.
    pub kind: MetricKind,
    /// The meaning, for the reader of a scrape.
    pub help: &'static str,
}

/// The labels that tell one series of a metric from another. Label values are words of this code.
pub type Labels<'a> = &'a [(&'static str, &'static str)];

/// Defines the metrics, and the list of all metrics.
macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal, $help:literal;)*) => {
        $(#[doc = $help] pub static $constant: Metric =
            Metric { name: $name, kind: MetricKind::$kind, help: $help };)*
        /// All metrics.
        pub static ALL: &[&Metric] = &[$(&$constant),*];
    };
}

metrics! {
    BUILD_INFO = Gauge "firmforms_build_info", "1; the version is a label.";
    DATABASE_UP = Gauge "firmforms_database_up",
        "1 when the main database answered the last scrape that asked it, if only with a refusal.";
    KEYRING_UP = Gauge "firmforms_keyring_up",
        "1 when the keyring answered the last scrape that asked it.";
    DISK_FULL_REFUSALS = Counter "firmforms_disk_full_refusals_total",
        "Calls, steps of workers and trial writes that a database refused because its disk is full.";
    DATABASE_AGE = Gauge "firmforms_database_figures_age_seconds",
        "For how long not every question of a scrape was answered by the database.";
    BACKLOG = Gauge "firmforms_backlog_deliveries",
        "Deliveries not at their end, by state: due, waiting for their time, or in flight; counted to 100,000.";
    BACKLOG_AGE = Gauge "firmforms_backlog_oldest_due_seconds",
        "For how long the delivery that has been due longest, and is not held, has been due.";
    UNSPREAD = Gauge "firmforms_unspread_occurrences",
        "Occurrences whose deliveries are not in the outbox yet; counted to 100,000.";
    SENDERS = Gauge "firmforms_senders",
        "Processes that send deliveries from this database.";
    LANES = Gauge "firmforms_lanes",
        "Lanes with work, by state: due, waiting, paused, or closing; each counted to 100,000.";
    OTHER_PRIMARIES = Gauge "firmforms_other_primaries",
        "Hosts beside the one in use that take writes too, by database: main or keyring. 0 is \
         right.";
    LOST_TAILS = Gauge "firmforms_lost_tails",
        "Losses of the end of the log that no operator has acknowledged.";
    FENCE_AGE = Gauge "firmforms_fence_age_seconds",
        "For how long this process has waited for the newest appends to settle; 0 when it does not.";
    SNAPSHOT_AGE = Gauge "firmforms_oldest_snapshot_seconds",
        "For how long the oldest snapshot is held; 0 if none is, or if its time is not known.";
    SNAPSHOT_TRANSACTIONS = Gauge "firmforms_oldest_snapshot_transactions",
        "Transactions that have begun since the oldest snapshot, also of a replication slot.";
    FOLLOWER_POSITIONS = Gauge "firmforms_follower_lag_positions",
        "How far a follower is behind what it follows, in positions of the log.";
    FOLLOWER_SECONDS = Gauge "firmforms_follower_lag_seconds",
        "For how long what a follower reads next has been in the log.";
    SIGNATURE_AGE = Gauge "firmforms_signed_checkpoint_age_seconds",
        "For how long no checkpoint was signed; 0 when none ever was.";
    VERIFICATION_AGE = Gauge "firmforms_verification_age_seconds",
        "For how long no verification of the log has ended; 0 when none ever did.";
    VERIFIED_POSITION = Gauge "firmforms_verified_position",
        "Last position of the log that the last verification reached.";
    VERIFICATION_BROKEN = Gauge "firmforms_verification_broken",
        "1 when the last verification of the log found a flaw.";
    ARCHIVE_AGE = Gauge "firmforms_archive_age_seconds",
        "For how long a segment that is due has had no copy in the archive; 0 when none is due.";
    BACKUP_AGE = Gauge "firmforms_backup_age_seconds",
        "Age of the last backup by `firmforms backup`; 0 when none was taken.";
    ATTEMPTS = Counter "firmforms_delivery_attempts_total",
        "Tries that were recorded, by outcome and by what came back.";
    ATTEMPT_SECONDS = Histogram "firmforms_delivery_attempt_duration_seconds",
        "From the claim of a try to the end of its answer.";
    CLAIM_SECONDS = Histogram "firmforms_claim_duration_seconds",
        "Claims that found something: from the look to the commit, in seconds.";
    RECORD_SECONDS = Histogram "firmforms_record_duration_seconds",
        "Batches of answers that were recorded, in seconds.";
    IN_FLIGHT = Gauge "firmforms_deliveries_in_flight", "Permits that are taken in this process, also by what waits for a place at its host.";
    PERMITS = Gauge "firmforms_delivery_permits", "Permits of this process.";
    REQUESTS = Counter "firmforms_http_requests_total",
        "Requests answered, by door, template of the route, method and status.";
    REQUEST_SECONDS = Histogram "firmforms_http_request_duration_seconds",
        "From a request's head to its answer's, by door and template of the route.";
    REFUSALS = Counter "firmforms_api_refusals_total",
        "Answers that are errors, by code: rate_limited, too_many_hooks and so on.";
    DOOR_REFUSALS = Counter "firmforms_door_refusals_total",
        "Requests that a door refused, and connections that it ended, by door and reason.";
    DESCRIPTOR_SHORTAGES = Counter "firmforms_descriptor_shortages_total",
        "Connections that found no file descriptor in this process, by part: doors or deliveries.";
    WRONG_KEYS = Counter "firmforms_wrong_keys_total",
        "Calls with a key that nobody has, or that cannot be one.";
    INTAKE = Counter "firmforms_intake_reports_total",
        "Reports of product activity taken in: those that changed something, duplicates, and stale ones.";
    INVITES = Counter "firmforms_invites_total", "Invites by what came of the call.";
    OPEN_INVITES = Gauge "firmforms_open_invites", "Invites whose mail is under way.";
    NOTICES = Counter "firmforms_notices_total",
        "Tries to tell a firm or the operator of a subscription or key, by channel and outcome.";
    OPEN_NOTICES = Gauge "firmforms_open_notices",
        "Notices that have not arrived, by channel; counted to 100,000.";
    REPLAYS = Gauge "firmforms_replays", "Replays that are not at their end, by state.";
    FAILING_RECEIVERS = Gauge "firmforms_failing_receivers",
        "Hosts without a success for a day, after ten failures or more.";
    TABLE_BYTES = Gauge "firmforms_table_bytes",
        "Bytes of each table of the main database, with its indexes.";
    PAUSES = Gauge "firmforms_pauses", "Pauses by operators that hold deliveries.";
    WORKER_FAILURES = Counter "firmforms_worker_step_failures_total",
        "Steps of workers that failed; each is tried again.";
    POOL = Gauge "firmforms_pool_connections", "Connections of a pool, by state: used, idle, or free to open.";
    TRACE_SPANS = Counter "firmforms_trace_spans_total",
        "Spans of traces that the collector took, and those that were lost because it did not.";
    CLOCK_OFFSET = Gauge "firmforms_clock_offset_seconds",
        "This machine's clock less the database's; above 0 when this machine's is ahead.";
    CLOCK_FAULT = Gauge "firmforms_clock_fault",
        "1 while the time cannot be trusted: nothing is sent.";
}

impl Metric {
    /// Adds 1.
    pub fn count(&self, labels: Labels) {
        self.add(labels, 1);
    }

    /// Adds `more`. Adding 0 makes the series appear in a scrape.
    pub fn add(&self, labels: Labels, more: u64) {
        metrics::counter!(self.name, labels).increment(more);
    }

    /// Sets the current value.
    pub fn set(&self, labels: Labels, value: f64) {
        metrics::gauge!(self.name, labels).set(value);
    }

    /// Sets the current value from a count.
    pub fn set_count(&self, labels: Labels, count: impl TryInto<u32>) {
        self.set(labels, f64::from(count.try_into().unwrap_or(u32::MAX)));
    }

    /// Adds `by`, which may be negative.
    pub fn shift(&self, by: f64) {
        metrics::gauge!(self.name).increment(by);
    }

    /// Records a duration.
    pub fn observe(&self, labels: Labels, time: Duration) {
        metrics::histogram!(self.name, labels).record(time);
    }
}

/// A request that was answered. The route is a template, never the requested path.
#[derive(Debug, Clone, Copy)]
pub struct AnsweredRequest<'a> {
    /// `public` or `internal`.
    pub door: &'static str,
    /// The route's template; `None` for a path without a route.
    pub route: Option<&'a str>,
    /// A method of the HTTP standard, or `other`.
    pub method: &'static str,
    /// The status.
    pub status: u16,
}

impl AnsweredRequest<'_> {
    /// Counts the request and records its duration.
    pub fn count_answer(&self, took: Duration) {
        let route = self.route.unwrap_or("unknown").to_owned();
        metrics::counter!(REQUESTS.name, "door" => self.door, "route" => route.clone(),
            "method" => self.method, "status" => self.status.to_string())
        .increment(1);
        metrics::histogram!(REQUEST_SECONDS.name, "door" => self.door, "route" => route)
            .record(took);
    }
}

/// Describes all metrics to the recorder.
pub fn describe() {
    for metric in ALL {
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, metric.help),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h4_metrics_follow_the_prometheus_naming() {
        for Metric { name, kind, help } in ALL {
            assert!(name.starts_with("firmforms_"), "{name}");
            assert!(name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
            assert!(*kind != MetricKind::Histogram || name.ends_with("_seconds"), "{name}");
            for colliding in ["_count", "_sum", "_bucket"] {
                assert!(!name.ends_with(colliding), "{name}");
            }
            assert!(help.ends_with('.'), "{name}: {help}");
        }
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
