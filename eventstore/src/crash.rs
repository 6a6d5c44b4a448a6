//! Crash points: named places at which a test may kill the process as `kill -9` would.
//!
//! A point is nothing at all, unless the build has the feature `crash-points`, which only the tests
//! turn on, and is a debug build: whatever the features, no release build has any. Then
//! `CRASH_AT=claimed:3` kills the process when it comes to `claimed` for the third time.
//!
//! | Case | Point | Where |
//! |---|---|---|
//! | P1 | `begin` | before the BEGIN of an append |
//! | P2 | `inserted` | events inserted, their tables not yet |
//! | P3 | `committing` | everything written, before COMMIT |
//! | P4 | `committed` | after COMMIT, before anybody is answered |
//! | P5 | `leasing`, `spreading` | deliveries are leased in an append, or spread, before COMMIT |
//! | P5 | `interrupting` | leases that have ended are taken back, before COMMIT |
//! | P6 | `claimed` | after the claim's COMMIT, before signing |
//! | P7 | `signed` | before a connection is opened |
//! | P8, P9 | — | the receiver decides: it takes half of the body, or all and says nothing |
//! | P10 | `answered` | the answer is read, not recorded |
//! | P11, P12 | `recording`, `recorded` | before and after the COMMIT of the record |
//! | P13, P14 | `lane_changed` | in the transaction of a second 410, or of a revocation |
//! | P15 | `reserved`, `mailed` | an invite before and after its mail is handed over |
//! | P16 | `following` | in a batch of a read model |
//! | F10 | `rebuilding`, `swapping` | a read model is made anew: between two batches, before COMMIT |
//! | P17 | `checkpointing` | a checkpoint is signed, and not in its place |

/// Whether this build has crash points.
pub const COMPILED_IN: bool = cfg!(all(feature = "crash-points", debug_assertions));

/// Nothing: this build has no crash points.
#[cfg(not(all(feature = "crash-points", debug_assertions)))]
pub const fn point(_name: &str) {}

/// Kills the process if it was told to die here.
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

    /// Whoever comes after the one that kills waits for the end: nothing passes any more.
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
        fn a_point_is_named_with_the_pass_that_counts() {
            let crash = |name: &str, pass| Some(CrashPoint { name: name.to_owned(), pass });
            assert_eq!(CrashPoint::parse("claimed"), crash("claimed", 1));
            assert_eq!(CrashPoint::parse("claimed:3"), crash("claimed", 3));
            assert_eq!(CrashPoint::parse("claimed:often"), None);
        }
    }
}
