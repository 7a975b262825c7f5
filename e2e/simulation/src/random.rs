//! Random numbers of a run. Each purpose has its own sequence, so that a removed fault or act does
//! not shift the numbers of all others.

use std::time::Duration;

/// A sequence of random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct RandomSequence(u64);

impl RandomSequence {
    /// Returns the sequence of a purpose within the run of a seed.
    pub fn new(seed: u64, purpose: &str) -> Self {
        Self(hash(seed, purpose.as_bytes()))
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// Returns true with a probability of `per_mille` / 1000.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.next() % 1000 < per_mille
    }

    /// Returns one of the items.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.between(0, items.len() as u64 - 1) as usize]
    }

    /// Returns a duration from `low` to `high` milliseconds whose logarithm is evenly distributed:
    /// most are short, some are very long.
    pub fn log_uniform_millis(&mut self, low: u64, high: u64) -> Duration {
        let fraction = self.next() as f64 / u64::MAX as f64;
        let (low, high) = (low as f64, high as f64);
        Duration::from_millis((low * (high / low).powf(fraction)).round() as u64)
    }
}

/// Mixes bytes into a hash: FNV-1a, with SplitMix64's finaliser.
pub(crate) fn hash(start: u64, bytes: &[u8]) -> u64 {
    let start = start ^ 0xcbf2_9ce4_8422_2325;
    let sum = bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(sum)
}

fn mix(state: u64) -> u64 {
    let mut word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
