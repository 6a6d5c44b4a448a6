//! Repeatable draws: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", 2014), in whole numbers only. They serve made-up activity, never secrets.

use uuid::Uuid;

/// The golden ratio in 64 bits: the step of each draw.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A row of draws.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The row of one thing. Draws for one thing change no other's.
    pub(super) const fn new(seed: u64, kind: u64, number: u64) -> Self {
        Self(mix_bits(mix_bits(mix_bits(seed) ^ kind) ^ number))
    }

    pub(super) const fn draw_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix_bits(self.0)
    }

    /// A number from 0 up to, and without, the limit.
    pub(super) fn draw_below(&mut self, limit: u64) -> u64 {
        let scaled = (u128::from(self.draw_bits()) * u128::from(limit)) >> 64;
        u64::try_from(scaled).unwrap_or_default()
    }

    /// A number from the first up to, and without, the second.
    pub(super) fn draw_between(&mut self, from: i64, to: i64) -> i64 {
        let width = u64::try_from(to.saturating_sub(from)).unwrap_or_default();
        from.saturating_add_unsigned(self.draw_below(width))
    }

    /// Whether a case of this many in a thousand happens.
    pub(super) fn per_mille(&mut self, times: u64) -> bool {
        self.draw_below(1_000) < times
    }

    /// One element of the list, which must not be empty.
    pub(super) fn pick_one<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.pick_index(from.len())]
    }

    /// An index into a list of this length.
    pub(super) fn pick_index(&mut self, len: usize) -> usize {
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        usize::try_from(self.draw_below(len)).unwrap_or_default()
    }

    /// A UUID of version 4.
    pub(super) fn draw_id(&mut self) -> Uuid {
        let drawn = Uuid::from_u64_pair(self.draw_bits(), self.draw_bits());
        uuid::Builder::from_random_bytes(drawn.into_bytes()).into_uuid()
    }

    /// The pattern with a digit for each `#`.
    pub(super) fn fill_digits(&mut self, pattern: &str) -> String {
        let mut digit = |mark| match mark {
            '#' => char::from(b"0123456789"[self.pick_index(10)]),
            other => other,
        };
        pattern.chars().map(&mut digit).collect()
    }
}

const fn mix_bits(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the published reference for the seed 1234567.
    #[test]
    fn the_generator_is_splitmix64() {
        let mut random = Random(1_234_567);
        let drawn = [random.draw_bits(), random.draw_bits(), random.draw_bits()];
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
