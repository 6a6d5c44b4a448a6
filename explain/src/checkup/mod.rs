//! Findings of `firmforms doctor`. Each function turns measured values into a finding with an
//! advice. The functions are pure. Their limits are not limits of the service: beyond them an
//! operator should look.

mod backup;
mod finding;
mod pair;
mod servers;

use std::time::Duration;

use domain::audit::{EndedVerification, SigningRefusal, VerificationOutcome, is_signature_late};
use domain::delivery::receiver::FAILURES_MIN;
use domain::operations::ClockFault;
use domain::values::Timestamp;

use self::finding::spoken_duration;

pub use self::backup::BackupAges;
pub use self::finding::{CheckVerdict, Finding};
pub use self::servers::{HostFound, HostRole, TrialWrite};

/// Oldest PostgreSQL that supports all statements, in the server's own version number.
pub const POSTGRES_VERSION_MIN: i32 = 140_000;

/// Longest append without a finding. The service's own transactions stay under 100 ms. A longer
/// append hangs or was made by hand.
const APPEND_AGE_MAX: Duration = Duration::from_secs(60);

/// Longest lag of a follower without a finding. A follower that lags a minute does not run, or an
/// event that it cannot read stops it.
const FOLLOWER_LAG_MAX: Duration = Duration::from_secs(60);

/// Longest wait of a due lane without a finding. Due deliveries go out within seconds, unless
/// limits hold them back.
const DUE_AGE_MAX: Duration = Duration::from_secs(300);

/// Longest wait of a notice's mail without a finding. It has been tried several times by then.
const NOTICE_AGE_MAX: Duration = Duration::from_secs(600);

/// Oldest verification of the log without a finding. A projector verifies about once a day, and a
/// long log takes longer.
const VERIFICATION_AGE_MAX: Duration = Duration::from_secs(3 * 86_400);

/// Longest age of an event without a copy in the archive. A segment is copied once it is a day old.
const ARCHIVE_AGE_MAX: Duration = Duration::from_secs(3 * 86_400);

/// The remedies of a machine that may not sign.
const SIGNER_ADVICE: &str = "name the signer's folders (--audit-keys-dir, --checkpoints-dir), or \
                             put lost files back; `audit checkpoint --new-series` begins anew";

/// Age of a snapshot that an operator should know of. A dump or a proof takes as long.
const SNAPSHOT_AGE_NOTICED: Duration = Duration::from_secs(15 * 60);

/// Longest age of a snapshot without a fault.
const SNAPSHOT_AGE_MAX: Duration = Duration::from_secs(4 * 3_600);

/// Transactions since a snapshot whose time is not known, such as a slot's. The service makes so
/// many in some hours.
const SNAPSHOT_TRANSACTIONS_MAX: i64 = 5_000_000;

/// Fewer dead rows of the outbox are no finding.
const DEAD_ROWS_MIN: i64 = 100_000;

/// Fewer dead rows for each live row are no finding.
const DEAD_ROWS_PER_LIVE_ROW: i64 = 5;

/// Failing receivers that a finding names.
const FAILING_NAMED_MAX: usize = 5;

/// Attempts of this hour and the one before, over all firms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiverState {
    /// Hosts that were tried.
    pub hosts: i64,
    /// Attempts.
    pub attempts: i64,
    /// Attempts that were answered 2xx.
    pub delivered: i64,
    /// Hosts that have failed for at least a day, longest first.
    pub failing: Vec<String>,
}

/// The signing of checkpoints, as this machine sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SigningHealth {
    /// The folder of checkpoints cannot be written to.
    NotWritable,
    /// No checkpoint has been signed yet.
    NeverSigned,
    /// This machine could sign the next checkpoint.
    Signing {
        /// Age of the last signature.
        age: Duration,
    },
    /// This machine may not sign the next checkpoint. Another machine may.
    Refused {
        /// The reason.
        refusal: SigningRefusal,
        /// Age of the last signature.
        age: Duration,
    },
}

impl Finding {
    /// Checks the version of the database server.
    #[must_use]
    pub fn server_version(version: i32) -> Self {
        let says = format!("PostgreSQL {}.{}", version / 10_000, version % 10_000);
        if version >= POSTGRES_VERSION_MIN {
            return Self::fine("server", says);
        }
        Self::wrong("server", says, "move to PostgreSQL 14 or newer")
    }

    /// Checks a schema for missing migrations and for migrations that this build does not know.
    #[must_use]
    pub fn schema_version(check: &'static str, missing: usize, unknown: usize) -> Self {
        match (missing, unknown) {
            (0, 0) => Self::fine(check, "at this version's".into()),
            (_, 0) => Self::wrong(
                check,
                format!("{missing} migrations are missing"),
                "run `firmforms migrate`, or start `serve` of this version",
            ),
            (_, _) => Self::wrong(
                check,
                format!("{unknown} migrations are of a newer version"),
                "run the newer version of firmforms",
            ),
        }
    }

    /// Checks a key. `refused` says why the key is refused.
    #[must_use]
    pub fn usable_key(check: &'static str, refused: Option<String>) -> Self {
        match refused {
            None => Self::fine(check, "the right one".into()),
            Some(why) => Self::wrong(
                check,
                why,
                "use the wrapping key and the keyring this main database was used with",
            ),
        }
    }

    /// Checks the clocks.
    #[must_use]
    pub fn clock_skew(fault: Option<ClockFault>) -> Self {
        match fault {
            None => Self::fine("clock", "the database's and this machine's agree".into()),
            Some(fault) => Self::wrong("clock", fault.to_string(), "set the clocks right (NTP)"),
        }
    }

    /// Checks for losses of the end of the log that nobody has acknowledged. `from` is the lowest
    /// position that is missed, `noticed` the time of the newest notice.
    #[must_use]
    pub fn log_tail(from: Option<i64>, noticed: Option<Timestamp>) -> Self {
        let (Some(from), Some(noticed)) = (from, noticed) else {
            return Self::fine("log_tail", "no end of the log is known to be lost".into());
        };
        Self::wrong(
            "log_tail",
            format!("events from about position {from} on are gone, noticed at {noticed}"),
            "report again what happened since, run `firmforms verify deliveries --repair`, then \
             `firmforms doctor --acknowledge`",
        )
    }

    /// Checks the oldest transaction that appends to the log, because followers wait for it.
    #[must_use]
    pub fn oldest_append(oldest: Option<(Duration, String)>) -> Self {
        match oldest {
            Some((age, who)) if age > APPEND_AGE_MAX => Self::wrong(
                "fence",
                format!("a transaction of {who} has been appending for {}", spoken_duration(age)),
                "end that transaction: history and audit log wait for it",
            ),
            _ => Self::fine("fence", "no transaction appends for long".into()),
        }
    }

    /// Checks the oldest snapshot. `held_for` is unknown for replication slots and standbys.
    #[must_use]
    pub fn oldest_snapshot(holder: &str, held_for: Option<Duration>, transactions: i64) -> Self {
        let advice = "let a dump or a proof end; end an idle session; drop a slot that no replica \
                      uses: until then no dead row can go, and queues get slower";
        let known =
            held_for.map_or_else(String::new, |age| format!(" for {}", spoken_duration(age)));
        let says = format!("{holder} holds a snapshot{known}, {transactions} transactions old");
        match held_for {
            Some(age) if age > SNAPSHOT_AGE_MAX => Self::wrong("snapshots", says, advice),
            None if transactions > SNAPSHOT_TRANSACTIONS_MAX => {
                Self::wrong("snapshots", says, advice)
            }
            Some(age) if age > SNAPSHOT_AGE_NOTICED => Self::notice("snapshots", says, advice),
            _ => Self::no_old_snapshot(),
        }
    }

    /// Says how long the answers of respondents are kept (ruling 59).
    #[must_use]
    pub fn response_retention(keep_days: Option<u32>) -> Self {
        let says = match keep_days {
            None => "answers of respondents are kept for good (--keep-responses-days)".to_owned(),
            Some(days) => format!("answers of respondents are kept for {days} days"),
        };
        Self::fine("responses", says)
    }

    /// The finding about an archive that could not be compared from here.
    #[must_use]
    pub fn unknown_archive(why: &str) -> Self {
        let says = format!("it could not be compared: {why}");
        Self::notice("archive", says, "run `doctor` on the machine that signs")
    }

    /// The finding if no snapshot is held.
    #[must_use]
    pub fn no_old_snapshot() -> Self {
        Self::fine("snapshots", "none is held for long".into())
    }

    /// Checks a follower by its number of unread events and the age of the oldest.
    #[must_use]
    pub fn follower_lag(check: &'static str, behind: i64, oldest: Option<Duration>) -> Self {
        match oldest {
            Some(age) if age > FOLLOWER_LAG_MAX => Self::wrong(
                check,
                format!("{behind} events behind, the oldest by {}", spoken_duration(age)),
                "is `serve` running in this role? its log says if an event cannot be read",
            ),
            _ => Self::fine(check, format!("{behind} events behind")),
        }
    }

    /// Checks the archive of the log by its end, and by the age of the first segment that it lacks.
    #[must_use]
    pub fn archive(through: i64, waiting: i64, age: Option<Duration>) -> Self {
        let says = format!("the archive ends at position {through}, and lacks {waiting} segments");
        match age {
            Some(age) if age > ARCHIVE_AGE_MAX => {
                Self::wrong("archive", says, "`firmforms archive write` names the cause")
            }
            _ => Self::fine("archive", says),
        }
    }

    /// The finding about an archive that is not the one of this log.
    #[must_use]
    pub fn broken_archive(why: &str) -> Self {
        Self::wrong("archive", why.to_owned(), "see docs/how-to/archive-the-log.md")
    }

    /// Checks the worker that seals. `foreign` is the number of seals that somebody else wrote, and
    /// `unsealed` the age of the first whole block without a seal.
    #[must_use]
    pub fn seal_lag(foreign: i64, unsealed: Option<Duration>) -> Self {
        let check = "seals";
        match (foreign, unsealed) {
            (1.., _) => Self::wrong(
                check,
                format!("{foreign} seals are of blocks that were not sealed: sealing fails"),
                "run `firmforms audit verify`: somebody else has written them",
            ),
            (_, Some(age)) if age > FOLLOWER_LAG_MAX => Self::wrong(
                check,
                format!("a block has been whole for {}, and has no seal", spoken_duration(age)),
                "is `serve` running in this role? its log says if it cannot seal",
            ),
            _ => Self::fine(check, "all whole blocks are sealed".into()),
        }
    }

    /// Checks the deliveries that are queued and not held, and the wait of the first due lane.
    #[must_use]
    pub fn queue_backlog(queued: i64, due_lanes: i64, oldest: Option<Duration>) -> Self {
        let depth = format!("{queued} deliveries are queued, {due_lanes} lanes are due");
        match oldest {
            Some(age) if age > DUE_AGE_MAX => Self::wrong(
                "backlog",
                format!("{depth}, the first for {}", spoken_duration(age)),
                "is a deliverer running? `firmforms lanes list` says where it waits",
            ),
            _ => Self::fine("backlog", depth),
        }
    }

    /// Checks the number of occurrences whose deliveries are not in the outbox yet.
    #[must_use]
    pub fn unspread_occurrences(occurrences: i64, senders: usize) -> Self {
        match (occurrences, senders) {
            (0, _) => Self::fine("unspread", "all deliveries are in the outbox".into()),
            (1.., 0) => Self::wrong(
                "unspread",
                format!("{occurrences} occurrences wait to be put into the outbox"),
                "start `firmforms serve` with the deliverer",
            ),
            _ => Self::fine("unspread", format!("{occurrences} occurrences wait their turn")),
        }
    }

    /// Checks the number of senders while lanes are due, and names the silent ones.
    #[must_use]
    pub fn sender_count(senders: usize, silent: &[String], due_lanes: i64) -> Self {
        if senders == 0 && due_lanes > 0 {
            return Self::wrong(
                "senders",
                "no process sends, and deliveries are due".into(),
                "start `firmforms serve` with the deliverer",
            );
        }
        if silent.is_empty() {
            return Self::fine("senders", format!("{senders} processes send"));
        }
        Self::notice(
            "senders",
            format!("{senders} processes send; silent, and not counted: {}", silent.join(", ")),
            "look for their machines; PostgreSQL ends their sessions by itself, or with \
             pg_terminate_backend",
        )
    }

    /// Checks for lanes that have work and no due time.
    #[must_use]
    pub fn stuck_lanes(lanes: i64) -> Self {
        if lanes == 0 {
            return Self::fine("lanes", "all lanes with work will wake".into());
        }
        Self::wrong(
            "lanes",
            format!("{lanes} lanes have work and no due time"),
            "this is a defect: report it; any new delivery to such a subscription wakes its lane",
        )
    }

    /// Checks for leases that ended long ago, in lanes that are not held.
    #[must_use]
    pub fn ended_leases(ended: i64) -> Self {
        if ended == 0 {
            return Self::fine("leases", "none is over".into());
        }
        Self::wrong(
            "leases",
            format!("{ended} leases ended more than five minutes ago"),
            "start a deliverer: it repeats these attempts",
        )
    }

    /// Checks the notices that have not arrived: those to mail, with the wait of the oldest, and
    /// those to the operator's URL, with the most tries of one.
    #[must_use]
    pub fn open_notices(mails: i64, oldest: Option<Duration>, posts: i64, tries: i32) -> Self {
        let says = format!("{mails} are not mailed yet, {posts} not taken by the operator's URL");
        match oldest {
            Some(age) if age > NOTICE_AGE_MAX => Self::wrong(
                "notices",
                format!("{says}, the oldest for {}", spoken_duration(age)),
                "look at the mail server; notices need a process with doors that is not paused",
            ),
            _ if tries > 1 => Self::notice(
                "notices",
                format!("{says}, after up to {tries} tries"),
                "look at the URL of --notices-url: after eight tries a notice is given up",
            ),
            _ => Self::fine("notices", says),
        }
    }

    /// Checks for pauses.
    #[must_use]
    pub fn open_pauses(held: &[String]) -> Self {
        if held.is_empty() {
            return Self::fine("pauses", "nothing is paused".into());
        }
        let says = format!("paused: {}", held.join("; "));
        Self::notice("pauses", says, "`firmforms deliveries resume` when it may go on")
    }

    /// Checks the replays. A stalled replay runs and makes no progress.
    #[must_use]
    pub fn open_replays(running: i64, paused: i64, stalled: i64) -> Self {
        let says = format!("{running} run, {paused} are held");
        match (running + paused, stalled) {
            (_, 1..) => Self::wrong(
                "replays",
                format!("{says}, {stalled} do not get on"),
                "is a deliverer running, and not with --paused?",
            ),
            (0, _) => Self::fine("replays", "none is under way".into()),
            (_, _) => Self::notice("replays", says, "`firmforms replay show` says how they go"),
        }
    }

    /// Checks the receivers. If no attempt of the last two hours arrived anywhere, the fault is
    /// probably this installation's. If less than half arrived, the finding is a notice: the alert
    /// in Prometheus has the same limit.
    #[must_use]
    pub fn receiver_faults(found: &ReceiverState) -> Self {
        let check = "receivers";
        let ReceiverState { hosts, attempts, delivered, failing } = found;
        if *delivered == 0 && *attempts >= FAILURES_MIN {
            return Self::wrong(
                check,
                format!("all {attempts} attempts of the last two hours failed, to {hosts} hosts"),
                "look at this machine's network, DNS and clock; `firmforms receivers` has the answers",
            );
        }
        let says = format!("{delivered} of {attempts} attempts of the last two hours arrived");
        let fail_by_half = *attempts >= FAILURES_MIN && delivered.saturating_mul(2) < *attempts;
        if failing.is_empty() && fail_by_half {
            return Self::notice(
                check,
                says,
                "`firmforms receivers` says which hosts fail, and how",
            );
        }
        if failing.is_empty() {
            return Self::fine(check, says);
        }
        let mut named =
            failing.iter().take(FAILING_NAMED_MAX).map(String::as_str).collect::<Vec<_>>();
        let rest = format!("{} more", failing.len().saturating_sub(named.len()));
        if failing.len() > named.len() {
            named.push(&rest);
        }
        let says = format!("{says}; failing for a day: {}", named.join(", "));
        Self::notice(check, says, "`firmforms receivers` says since when; tell the firms")
    }

    /// Checks the share of dead rows in the outbox.
    #[must_use]
    pub fn outbox_bloat(live: i64, dead: i64) -> Self {
        let says = format!("{live} live rows, {dead} dead");
        if dead < DEAD_ROWS_MIN || dead < live.saturating_mul(DEAD_ROWS_PER_LIVE_ROW) {
            return Self::fine("outbox", says);
        }
        Self::wrong("outbox", says, "let autovacuum run: a long transaction or slot may hold it up")
    }

    /// Checks the signing of checkpoints and the age of the last one. A machine without the key of
    /// the series is no fault while another machine signs.
    #[must_use]
    pub fn checkpoint_signing(health: &SigningHealth) -> Self {
        let signed = |age: Duration| format!("the last was signed {} ago", spoken_duration(age));
        match health {
            SigningHealth::NotWritable => Self::wrong(
                "checkpoints",
                "their folder cannot be written to".into(),
                "let the service's account write to it, or set --checkpoints-dir",
            ),
            SigningHealth::NeverSigned => Self::notice(
                "checkpoints",
                "none has been signed".into(),
                "`firmforms audit checkpoint` signs one; `serve` does each hour",
            ),
            SigningHealth::Refused { refusal, age }
                if refusal.is_about_key() && !is_signature_late(*age) =>
            {
                let says = format!("{}; this machine cannot sign: {refusal}", signed(*age));
                Self::notice("checkpoints", says, SIGNER_ADVICE)
            }
            SigningHealth::Refused { refusal, age } => {
                Self::wrong("checkpoints", format!("{}: {refusal}", signed(*age)), SIGNER_ADVICE)
            }
            SigningHealth::Signing { age } if is_signature_late(*age) => Self::wrong(
                "checkpoints",
                signed(*age),
                "is a projector running, with this --checkpoints-dir?",
            ),
            SigningHealth::Signing { age } => Self::fine("checkpoints", signed(*age)),
        }
    }

    /// Checks the last verification of the log, which ended this long ago.
    #[must_use]
    pub fn last_verification(last: Option<&EndedVerification>, age: Duration) -> Self {
        let check = "verification";
        let Some(last) = last else {
            return Self::notice(
                check,
                "the log was never verified".into(),
                "a projector verifies it by itself; `firmforms audit verify` does now",
            );
        };
        let says = format!("up to position {}, {} ago", last.position, spoken_duration(age));
        match &last.outcome {
            VerificationOutcome::Broken(flaw) => Self::wrong(
                check,
                format!("BROKEN, found {} ago: {flaw}", spoken_duration(age)),
                "run `firmforms audit verify`, and keep the signed checkpoints",
            ),
            VerificationOutcome::Incomplete(why) => Self::notice(
                check,
                format!("incomplete, {says}: {why}"),
                "put back what is missing; `firmforms audit verify` tells the rest",
            ),
            VerificationOutcome::Intact if age > VERIFICATION_AGE_MAX => Self::notice(
                check,
                format!("intact {says}"),
                "is a projector with the signed checkpoints running? its log says if it fails",
            ),
            VerificationOutcome::Intact => Self::fine(check, format!("intact {says}")),
        }
    }

    /// Checks for firms whose signing secret is missing or cannot be read.
    #[must_use]
    pub fn missing_secrets(missing: usize) -> Self {
        if missing == 0 {
            return Self::fine("secrets", "every firm has a signing secret".into());
        }
        Self::wrong(
            "secrets",
            format!("{missing} firms have no signing secret that can be read"),
            "`firmforms secrets rotate` makes a new one; nothing is sent unsigned",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    fn receivers(attempts: i64, delivered: i64, failing: &[&str]) -> ReceiverState {
        let failing = failing.iter().map(|host| (*host).to_owned()).collect();
        ReceiverState { hosts: 2, attempts, delivered, failing }
    }

    /// The finding counts the receivers that it does not name.
    #[test]
    fn five_failing_receivers_are_named() {
        let hosts = ["a.example", "b.example", "c.example", "d.example", "e.example"];
        let said = |failing: &[&str]| Finding::receiver_faults(&receivers(10, 9, failing)).says;
        let head = "9 of 10 attempts of the last two hours arrived; failing for a day: ";
        assert_eq!(said(&hosts[..1]), format!("{head}a.example"));
        let more = [hosts.as_slice(), &["f.example", "g.example"]].concat();
        assert_eq!(said(&more), format!("{head}{}, 2 more", hosts.join(", ")));
    }

    /// An outage of nearly everything was called fine for its first day.
    #[test]
    fn many_failing_attempts_are_a_notice() {
        let told = Finding::receiver_faults(&receivers(550, 47, &[]));
        assert_eq!(told.verdict, CheckVerdict::Notice);
        assert_eq!(told.says, "47 of 550 attempts of the last two hours arrived");
        assert!(told.advice.unwrap().contains("`firmforms receivers`"));
    }

    /// A snapshot without an age is judged by the transactions since.
    #[test]
    fn a_snapshot_is_judged_by_age() {
        let verdict = |held_for, transactions| {
            Finding::oldest_snapshot("pg_dump (pid 7)", held_for, transactions).verdict
        };
        assert_eq!(verdict(seconds(900), i64::MAX), CheckVerdict::Fine);
        assert_eq!(verdict(seconds(901), 0), CheckVerdict::Notice);
        assert_eq!(verdict(seconds(14_401), 0), CheckVerdict::Wrong);
        assert_eq!(verdict(None, 5_000_000), CheckVerdict::Fine);
        assert_eq!(verdict(None, 5_000_001), CheckVerdict::Wrong);
        let said = Finding::oldest_snapshot("pg_dump (pid 7)", seconds(1_200), 9).says;
        assert_eq!(said, "pg_dump (pid 7) holds a snapshot for 20 min, 9 transactions old");
    }

    #[test]
    fn a_consequential_fault_gives_no_advice() {
        let wrong = |check| Finding::wrong(check, "it is wrong".into(), "mend it");
        let all = ["wrapping_key", "secrets", "backlog", "seals"].map(wrong).to_vec();
        let told = Finding::mute_consequences(all);
        let verdicts: Vec<_> = told.iter().map(|one| (one.verdict, one.advice)).collect();
        let fault = (CheckVerdict::Wrong, Some("mend it"));
        assert_eq!(verdicts, [fault, (CheckVerdict::Notice, None), fault, fault]);
        assert_eq!(told[1].says, "it is wrong: probably because of `wrapping_key`");
        let right = vec![Finding::usable_key("wrapping_key", None), wrong("secrets")];
        assert_eq!(Finding::mute_consequences(right.clone()), right);
    }

    #[test]
    fn each_finding_is_judged_at_its_border() {
        use CheckVerdict::{Fine, Notice, Wrong};
        let noticed = "2026-11-01T12:00:00Z".parse().unwrap();
        let writer = |age| Some((Duration::from_secs(age), "backup".to_owned()));
        for (finding, verdict) in [
            (Finding::server_version(140_000), Fine),
            (Finding::server_version(130_022), Wrong),
            (Finding::schema_version("schema", 0, 0), Fine),
            (Finding::schema_version("schema", 1, 0), Wrong),
            (Finding::schema_version("schema", 0, 1), Wrong),
            (Finding::usable_key("keyring", None), Fine),
            (Finding::usable_key("keyring", Some("another key".into())), Wrong),
            (Finding::clock_skew(None), Fine),
            (Finding::clock_skew(Some(ClockFault::Apart { seconds: 31 })), Wrong),
            (Finding::log_tail(None, None), Fine),
            (Finding::receiver_faults(&receivers(9, 0, &[])), Fine),
            (Finding::receiver_faults(&receivers(10, 0, &[])), Wrong),
            (Finding::receiver_faults(&receivers(10, 5, &[])), Fine),
            (Finding::receiver_faults(&receivers(9, 1, &[])), Fine),
            (Finding::receiver_faults(&receivers(10, 1, &["a.example"])), Notice),
            (Finding::log_tail(Some(7), Some(noticed)), Wrong),
            (Finding::oldest_append(None), Fine),
            (Finding::oldest_append(writer(60)), Fine),
            (Finding::oldest_append(writer(61)), Wrong),
            (Finding::follower_lag("deliveries", 0, None), Fine),
            (Finding::follower_lag("deliveries", 9, seconds(60)), Fine),
            (Finding::follower_lag("deliveries", 9, seconds(61)), Wrong),
            (Finding::seal_lag(0, None), Fine),
            (Finding::seal_lag(0, seconds(60)), Fine),
            (Finding::seal_lag(0, seconds(61)), Wrong),
            (Finding::seal_lag(1, None), Wrong),
            (Finding::queue_backlog(0, 0, None), Fine),
            (Finding::queue_backlog(9, 1, seconds(300)), Fine),
            (Finding::queue_backlog(9, 1, seconds(301)), Wrong),
            (Finding::unspread_occurrences(0, 0), Fine),
            (Finding::unspread_occurrences(9, 1), Fine),
            (Finding::unspread_occurrences(9, 0), Wrong),
            (Finding::sender_count(0, &[], 0), Fine),
            (Finding::sender_count(1, &[], 9), Fine),
            (Finding::sender_count(1, &["a session".to_owned()], 9), Notice),
            (Finding::sender_count(0, &[], 9), Wrong),
            (Finding::stuck_lanes(0), Fine),
            (Finding::stuck_lanes(1), Wrong),
            (Finding::ended_leases(0), Fine),
            (Finding::ended_leases(1), Wrong),
            (Finding::open_pauses(&[]), Fine),
            (Finding::open_pauses(&["everything (maintenance)".into()]), Notice),
            (Finding::open_replays(0, 0, 0), Fine),
            (Finding::open_replays(1, 0, 0), Notice),
            (Finding::open_replays(0, 1, 0), Notice),
            (Finding::open_replays(1, 0, 1), Wrong),
            (Finding::outbox_bloat(0, 99_999), Fine),
            (Finding::outbox_bloat(30_000, 100_000), Fine),
            (Finding::outbox_bloat(20_000, 100_000), Wrong),
            (Finding::missing_secrets(0), Fine),
            (Finding::missing_secrets(1), Wrong),
        ] {
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert_eq!(finding.advice.is_some(), verdict != Fine, "{finding:?}");
        }
    }

    #[test]
    fn signing_and_verification_are_judged_at_borders() {
        use CheckVerdict::{Fine, Notice, Wrong};
        let signed = |age| {
            Finding::checkpoint_signing(&SigningHealth::Signing { age: Duration::from_secs(age) })
        };
        let refused = |age, refusal| {
            Finding::checkpoint_signing(&SigningHealth::Refused {
                refusal,
                age: Duration::from_secs(age),
            })
        };
        let verified = |age, outcome| {
            let at = "2026-11-01T12:00:00.000Z".parse().unwrap();
            let last = EndedVerification { at, position: 7, outcome };
            Finding::last_verification(Some(&last), Duration::from_secs(age))
        };
        let broken = VerificationOutcome::Broken("seal 7: it is missing".into());
        let incomplete = VerificationOutcome::Incomplete("there is no checkpoint".into());
        let key = || SigningRefusal::MissingKey { key_id: "4d0d0118ac23cb68".into() };
        let file = || SigningRefusal::MissingCheckpoint { number: 7 };
        for (finding, verdict) in [
            (signed(7_200), Fine),
            (signed(7_201), Wrong),
            (refused(7_200, key()), Notice),
            (refused(7_201, key()), Wrong),
            (refused(1, file()), Wrong),
            (Finding::checkpoint_signing(&SigningHealth::NeverSigned), Notice),
            (Finding::checkpoint_signing(&SigningHealth::NotWritable), Wrong),
            (Finding::last_verification(None, Duration::ZERO), Notice),
            (verified(259_200, VerificationOutcome::Intact), Fine),
            (verified(259_201, VerificationOutcome::Intact), Notice),
            (verified(1, broken), Wrong),
            (verified(1, incomplete), Notice),
        ] {
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert_eq!(finding.advice.is_some(), verdict != Fine, "{finding:?}");
        }
    }

    #[test]
    fn times_are_said_in_familiar_units() {
        let said = [119, 120, 7_199, 7_200, 172_799, 172_800]
            .map(Duration::from_secs)
            .map(spoken_duration);
        assert_eq!(said, ["119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
    }
}
