//! Watches how long tests take. Both settings are `scripts/test`'s: `FIRMFORMS_TEST_PATIENCE` is
//! the number of seconds after which a test ends the whole run with its name, and
//! `FIRMFORMS_TEST_TIMES` is the file that gets a line for each test, with its seconds and its
//! name.

use std::fs::OpenOptions;
use std::io::{Write, stderr};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::{current, sleep, spawn};
use std::time::{Duration, Instant};

const PATIENCE: &str = "FIRMFORMS_TEST_PATIENCE";
const TIMES: &str = "FIRMFORMS_TEST_TIMES";

/// The running tests, and since when.
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
        let ended = running(|running| {
            let place = running.iter().position(|(number, ..)| *number == self.0)?;
            Some(running.swap_remove(place))
        });
        if let (Some((_, name, since)), Some(times)) = (ended, std::env::var_os(TIMES)) {
            // One write of one line, so that lines of threads do not mix.
            let line = format!("{:.1}\t{name}\n", since.elapsed().as_secs_f64());
            let file = OpenOptions::new().append(true).create(true).open(times);
            let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
        }
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
            // Not by `eprintln!`: the output of a test is shown once the test ends.
            let _ = writeln!(stderr(), "{name} hangs: it has taken {patience:?}");
            std::process::abort();
        }
    }
}
