//! Random numbers of a run. Each purpose has its own sequence, so that a removed fault or act does
//! not shift the numbers of all others.

use std::time::Duration;

use trellis_machine::SplitMix64;

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub struct RandomSequence(SplitMix64);

impl RandomSequence {
    /// Returns the sequence of a purpose within the run of a seed.
    pub fn new(seed: u64, purpose: &str) -> Self {
        Self(SplitMix64::new(hash(seed, purpose.as_bytes())))
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.draw() % (high - low + 1)
    }

    /// Returns true with a probability of `per_mille` / 1000.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.0.draw() % 1000 < per_mille
    }

    /// Returns one of the items.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.between(0, items.len() as u64 - 1) as usize]
    }

    /// Returns a duration from `low` to `high` milliseconds whose logarithm is evenly distributed:
    /// most are short, some are very long.
    pub fn log_uniform_millis(&mut self, low: u64, high: u64) -> Duration {
        let fraction = self.0.draw() as f64 / u64::MAX as f64;
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
    SplitMix64::mix(sum)
}
