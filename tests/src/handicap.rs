//! Keeps two racing tasks about level on any machine: the winner starts later the next time.

/// By how many turns of the scheduler the first starts later; the second, if it is negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handicap {
    first: i64,
    step: i64,
}

impl Handicap {
    /// The winner starts later. While one task keeps winning, its handicap doubles each time. When
    /// the other wins, the handicap begins small again.
    pub fn after(&mut self, first_won: bool) {
        let towards = if first_won { 1 } else { -1 };
        self.step = if self.step.signum() == towards { self.step * 2 } else { towards };
        self.first = (self.first + self.step).clamp(-100_000, 100_000);
    }

    /// The start of the first.
    pub async fn first(self) {
        wait_turns(self.first).await;
    }

    /// The start of the second.
    pub async fn second(self) {
        wait_turns(-self.first).await;
    }
}

async fn wait_turns(turns: i64) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}
