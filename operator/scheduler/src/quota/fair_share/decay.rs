//! Decay of usage.
//!
//! The decayed usage `U` follows the current usage `u` with a half-life `H`:
//! `dU/dt = (u - U) ln 2 / H`. Between two events `u` is constant, so
//!
//! ```text
//! U(t) = u - lag(t0) 2^-((t - t0) / H),   lag = u - U
//! ```
//!
//! exactly. The equation is linear: an event that changes `u` by `d` at `t` changes the lag by `d`.
//! So the tree stores only the lag. It stores the lag as an integer, in units of the time at which
//! its half-life began (*forward decay*: Cormode et al., ICDE '09). With `t = (k + x) H`, `k` an
//! integer and `0 <= x < 1`, an event adds `d 2^x`. When `k` grows by 1, the sum is halved.
//!
//! Integers have four advantages. Sums do not depend on their order, so the same events in any
//! order leave the same bytes. A charge with an immediate release leaves no trace. Halving `a`
//! times and then `b` times is halving `a + b` times, so the number of reads makes no difference.
//! Multiplication alone computes `2^x`, so every machine gets the same result. No floating-point
//! `exp2` promises that.

use serde::{Deserialize, Serialize};

use crate::time::Time;

const HOUR: i64 = 3_600_000;

/// The decay of usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageDecay {
    half_life: i64,
    ahead: i64,
}

/// A half-life of 7 days. The order looks 21 hours ahead.
impl Default for UsageDecay {
    fn default() -> Self {
        Self::with_half_life(HOUR.saturating_mul(7 * 24))
    }
}

impl UsageDecay {
    /// Creates a decay with a half-life in milliseconds. With 0 or less, only current usage counts.
    ///
    /// Decayed usage alone cannot rank the queues to which one cycle gives free capacity: a new
    /// charge adds no decayed usage at the instant of the charge. The order therefore uses the
    /// decayed usage an eighth of a half-life from now, if all queues keep their current usage. The
    /// entry penalty of Kueue's admission fair sharing (KEP-4136) has the same purpose.
    #[must_use]
    pub const fn with_half_life(millis: i64) -> Self {
        let half_life = if millis > 0 { millis } else { 0 };
        Self {
            half_life,
            ahead: half_life >> 3,
        }
    }

    /// Sets how many milliseconds ahead the order looks. 0: the order uses the decayed usage of
    /// now.
    #[cfg(test)]
    #[must_use]
    pub(crate) const fn with_order_lookahead(self, millis: i64) -> Self {
        Self {
            half_life: self.half_life,
            ahead: if millis > 0 { millis } else { 0 },
        }
    }
}

/// The value 1 of `growth`.
pub(in crate::quota) const ONE: i128 = 1 << 32;

/// An instant, in half-lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::quota) struct HalfLifeInstant {
    /// How many half-lives have passed since the epoch.
    pub(in crate::quota) epoch: i64,
    /// `2^x` for the part `x` of a half-life that has passed since; in 2^-32. 0 if there is no
    /// half-life, so past usage does not count.
    pub(in crate::quota) growth: i128,
}

/// The time, and the factors of remembered usage at that time.
#[derive(Clone, Debug)]
pub(in crate::quota) struct DecayClock {
    decay: UsageDecay,
    now: Time,
    at: HalfLifeInstant,
    fade: i128,
}

impl DecayClock {
    pub(in crate::quota) fn new(decay: UsageDecay) -> Self {
        let mut clock = Self {
            decay,
            now: Time::default(),
            at: HalfLifeInstant::default(),
            fade: ONE,
        };
        clock.at = clock.instant(Time::default());
        let ahead = clock.instant(Time::from_millis(decay.ahead));
        clock.fade = ONE
            .saturating_mul(ONE)
            .checked_div(ahead.growth)
            .map_or(0, |fade| halve(fade, ahead.epoch));
        clock
    }

    pub(in crate::quota) fn advance(&mut self, now: Time) {
        if now > self.now {
            self.now = now;
            self.at = self.instant(now);
        }
    }

    pub(in crate::quota) const fn decay(&self) -> UsageDecay {
        self.decay
    }

    pub(in crate::quota) const fn now(&self) -> Time {
        self.now
    }

    pub(in crate::quota) const fn current_instant(&self) -> HalfLifeInstant {
        self.at
    }

    /// Returns the part of a lag that remains after the time that the order looks ahead; in 2^-32.
    pub(in crate::quota) const fn fade(&self) -> i128 {
        self.fade
    }

    pub(in crate::quota) fn instant(&self, time: Time) -> HalfLifeInstant {
        let (millis, half_life) = (time.as_millis(), self.decay.half_life);
        let (Some(epoch), Some(since)) = (
            millis.checked_div_euclid(half_life),
            millis.checked_rem_euclid(half_life),
        ) else {
            return HalfLifeInstant::default();
        };
        let part = (i128::from(since) << 32).checked_div(i128::from(half_life));
        let part = part.and_then(|part| u32::try_from(part).ok());
        HalfLifeInstant {
            epoch,
            growth: pow2(part.unwrap_or(u32::MAX)),
        }
    }
}

/// Halves an amount this many times, rounded towards 0.
pub(in crate::quota) fn halve(amount: i128, times: i64) -> i128 {
    u32::try_from(times.max(0))
        .ok()
        .and_then(|times| 1_i128.checked_shl(times))
        .filter(|divisor| *divisor > 0)
        .and_then(|divisor| amount.checked_div(divisor))
        .unwrap_or(0)
}

/// The square root of 2, the square root of this root, and so on; in 2^-62.
const ROOTS: [u128; 32] = compute_roots();

#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "computed when this is compiled: nothing of it can fail later"
)]
const fn compute_roots() -> [u128; 32] {
    let mut roots = [0; 32];
    let mut root = 2_u128 << 62;
    let mut at = 0;
    while at < roots.len() {
        root = (root << 62).isqrt();
        roots[at] = root;
        at += 1;
    }
    roots
}

/// Returns `2^x`: at least 1 and less than 2. Both `x` and the result are in 2^-32.
fn pow2(x: u32) -> i128 {
    let product = ROOTS
        .iter()
        .enumerate()
        .fold(1_u128 << 62, |product, (at, root)| {
            let bit = x.rotate_left(u32::try_from(at).unwrap_or(0)) >> 31;
            if bit == 0 {
                product
            } else {
                product.saturating_mul(*root) >> 62
            }
        });
    i128::try_from(product >> 30).unwrap_or(ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_grow_from_one_to_two() {
        assert_eq!(pow2(0), ONE);
        for x in [1_u32, 1 << 20, 1 << 31, 3_000_000_000, u32::MAX] {
            let exact = (f64::from(x) / 2_f64.powi(32)).exp2();
            let ours = pow2(x) as f64 / 2_f64.powi(32);
            assert!(
                (ours - exact).abs() < 1e-9,
                "2^{x}/2^32: {ours} is not {exact}"
            );
        }
        let ladder = (0..4_096_u32).map(|i| pow2(i.saturating_mul(1 << 20)));
        assert!(ladder.is_sorted());
        assert!((0..4_096).map(pow2).is_sorted());
    }

    #[test]
    fn half_a_half_life_is_a_square_root() {
        let clock = DecayClock::new(UsageDecay::with_half_life(1_000).with_order_lookahead(1_500));
        let at = clock.instant(Time::from_millis(-500));
        assert_eq!((at.epoch, at.growth), (-1, pow2(1 << 31)));
        // 2^-1.5
        assert_eq!(clock.fade(), 1_518_500_250);
        assert_eq!(DecayClock::new(UsageDecay::with_half_life(0)).fade(), 0);
    }

    #[test]
    fn repeated_halving_adds_up() {
        for amount in [-1_001, 1_001, i128::MAX, i128::MIN] {
            for (a, b) in [(0, 3), (1, 1), (5, 90), (100, 100), (200, 0)] {
                assert_eq!(halve(halve(amount, a), b), halve(amount, a + b));
            }
        }
    }
}
