//! Who kills: any of the processes, every few seconds, without a warning.

use std::time::{Duration, Instant};

use super::random::Random;
use super::service::Services;

/// The shortest and the longest time between two kills.
const EVERY_MILLIS: (u64, u64) = (1_500, 6_000);

/// Kills until then; how often each process was killed.
pub(super) async fn until(
    end: Instant,
    services: &Services,
    mut random: Random,
) -> anyhow::Result<Vec<(&'static str, usize)>> {
    let mut kills: Vec<_> = services.names().map(|name| (name, 0)).collect();
    let (shortest, longest) = EVERY_MILLIS;
    loop {
        let wait = Duration::from_millis(shortest + random.below(longest - shortest));
        if Instant::now() + wait >= end {
            return Ok(kills);
        }
        tokio::time::sleep(wait).await;
        let place = usize::try_from(random.below(kills.len() as u64))?;
        services.kill_and_start_again(place).await?;
        kills[place].1 += 1;
    }
}
