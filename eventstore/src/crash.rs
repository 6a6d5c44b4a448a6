//! Crash points are named places at which a test may kill the process as `kill -9` would.
//!
//! A crash point exists only in a debug build with the feature `crash-points`, which only the
//! package `tests` turns on. In every other build, and in all release builds, the call does
//! nothing. `CRASH_AT=claimed:3` kills the process when it reaches `claimed` for the third time.
//!
//! | Case | Point | Where |
//! |---|---|---|
//! | P1 | `begin` | before the BEGIN of an append |
//! | P2 | `inserted` | events inserted, their tables not yet |
//! | P3 | `committing` | everything written, before COMMIT |
//! | P4 | `committed` | after COMMIT, before any caller has its answer |
//! | P5 | `leasing`, `spreading` | deliveries are leased in an append, or spread, before COMMIT |
//! | P5 | `interrupting` | leases that have ended are taken back, before COMMIT |
//! | P6 | `claimed` | after the claim's COMMIT, before signing |
//! | P7 | `signed` | before a connection is opened |
//! | P8, P9 | — | the receiver decides: it reads half of the body, or all and does not answer |
//! | P10 | `answered` | the answer is read, not recorded |
//! | P11, P12 | `recording`, `recorded` | before and after the COMMIT of the record |
//! | P13, P14 | `lane_changed` | in the transaction of a second 410, or of a revocation |
//! | P15 | `reserved`, `mailed` | an invite before and after its mail is handed over |
//! | P16 | `following` | in a batch of a read model |
//! | F10 | `rebuilding`, `swapping` | in a rebuild: between two batches, before COMMIT |
//! | P17 | `checkpointing` | a signed checkpoint is written, and not yet under its name |
//! | P17 | `archiving` | between the files of a segment, before its signature, and after it |
//! | P17 | `checkpointed` | a signed checkpoint is stored, and not yet noted in the database |

/// Tells whether this build has crash points.
pub const COMPILED_IN: bool = cfg!(all(feature = "crash-points", debug_assertions));

/// Does nothing, because this build has no crash points.
#[cfg(not(all(feature = "crash-points", debug_assertions)))]
pub const fn point(_name: &str) {}

/// Kills the process if `CRASH_AT` names this point and this pass.
#[cfg(all(feature = "crash-points", debug_assertions))]
pub fn point(name: &str) {
    told::pass(name);
}

#[cfg(all(feature = "crash-points", debug_assertions))]
mod told {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    static CRASH: LazyLock<Option<CrashPoint>> =
        LazyLock::new(|| CrashPoint::parse(&std::env::var("CRASH_AT").ok()?));
    static PASSED: AtomicU32 = AtomicU32::new(0);

    #[derive(Debug, PartialEq, Eq)]
    struct CrashPoint {
        name: String,
        pass: u32,
    }

    impl CrashPoint {
        fn parse(told: &str) -> Option<Self> {
            let (name, pass) = told.split_once(':').unwrap_or((told, "1"));
            Some(Self { name: name.to_owned(), pass: pass.parse().ok()? })
        }
    }

    /// A thread that reaches the point after the killing thread waits for the end of the process.
    /// So no thread passes the point any more.
    pub(super) fn pass(name: &str) {
        let Some(crash) = CRASH.as_ref().filter(|crash| crash.name == name) else {
            return;
        };
        if PASSED.fetch_add(1, Ordering::SeqCst) + 1 >= crash.pass {
            let _ = kill(Pid::this(), Signal::SIGKILL);
            loop {
                std::thread::park();
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_crash_point_names_its_pass() {
            let crash = |name: &str, pass| Some(CrashPoint { name: name.to_owned(), pass });
            assert_eq!(CrashPoint::parse("claimed"), crash("claimed", 1));
            assert_eq!(CrashPoint::parse("claimed:3"), crash("claimed", 3));
            assert_eq!(CrashPoint::parse("claimed:often"), None);
        }
    }
}
