//! A test that hangs says so: it would be lost among those that end, and hold up the whole run. Only where a run
//! says how long a test may take, in seconds (`scripts/test` does): a benchmark takes as long as it takes.

use std::io::{Write, stderr};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::{current, sleep, spawn};
use std::time::{Duration, Instant};

const PATIENCE: &str = "FIRMFORMS_TEST_PATIENCE";

/// What runs, and since when.
static RUNNING: Mutex<Vec<(u32, String, Instant)>> = Mutex::new(Vec::new());
static WATCHING: Once = Once::new();

/// A test that is watched until this goes: the one of this thread.
pub(crate) struct Watched(u32);

impl Watched {
    pub(crate) fn new(number: u32) -> Self {
        WATCHING.call_once(|| {
            let patience = std::env::var(PATIENCE).ok().and_then(|seconds| seconds.parse().ok());
            if let Some(seconds) = patience {
                spawn(move || watch(Duration::from_secs(seconds)));
            }
        });
        let name = current().name().unwrap_or("a test").to_owned();
        running(|running| running.push((number, name, Instant::now())));
        Self(number)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        running(|running| running.retain(|(number, ..)| *number != self.0));
    }
}

fn running<T>(with: impl FnOnce(&mut Vec<(u32, String, Instant)>) -> T) -> T {
    with(&mut RUNNING.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Ends the run once a test hangs, with its name.
fn watch(patience: Duration) {
    loop {
        sleep(Duration::from_secs(5));
        let hanging = running(|running| {
            let hangs = running.iter().find(|(.., since)| since.elapsed() > patience);
            hangs.map(|(_, name, _)| name.clone())
        });
        if let Some(name) = hanging {
            // Not among what a test prints, which is shown once it ends.
            let _ = writeln!(stderr(), "{name} hangs: it has taken {patience:?}");
            std::process::abort();
        }
    }
}
