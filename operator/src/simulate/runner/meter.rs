//! How much of the GPUs is held, over time.

use std::collections::BTreeMap;

use trellis_scheduler::{NodeName, Resources, Time};

/// GPUs that a request asks for or a node has: every resource that is called
/// `gpu` by its vendor.
pub(super) fn gpus(resources: &Resources) -> i64 {
    let gpus = resources
        .iter()
        .filter(|(name, _)| name.as_str().ends_with("/gpu"));
    gpus.fold(0, |sum, (_, amount)| sum.saturating_add(amount))
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    has: i64,
    held: i64,
}

impl Use {
    /// Free GPUs beside held ones: of use to no gang of whole nodes.
    fn stranded(self) -> i64 {
        if self.held > 0 {
            self.has.saturating_sub(self.held).max(0)
        } else {
            0
        }
    }
}

/// GPUs by node and what became of them since the meter began. Sums of GPU
/// milliseconds.
#[derive(Debug, Default)]
pub(super) struct Meter {
    nodes: BTreeMap<NodeName, Use>,
    has: i64,
    held: i64,
    stranded: i64,
    now: Option<Time>,
    sums: Sums,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    millis: i128,
    has: i128,
    held: i128,
    stranded: i128,
}

impl Meter {
    /// Everything was as it is now until then. The first call begins it.
    pub(super) fn advance(&mut self, now: Time) {
        if let Some(before) = self.now {
            let millis = i128::try_from(now.since(before).as_millis()).unwrap_or(i128::MAX);
            let add = |sum: &mut i128, amount: i64| {
                *sum = sum.saturating_add(i128::from(amount).saturating_mul(millis));
            };
            add(&mut self.sums.millis, 1);
            add(&mut self.sums.has, self.has);
            add(&mut self.sums.held, self.held);
            add(&mut self.sums.stranded, self.stranded);
        }
        self.now = Some(now);
    }

    /// Whether it has begun.
    pub(super) const fn runs(&self) -> bool {
        self.now.is_some()
    }

    /// A node has so many.
    pub(super) fn set_node(&mut self, node: &NodeName, has: i64) {
        self.change(node, |of| of.has = has);
    }

    /// So many more of a node are held; fewer where negative.
    pub(super) fn hold(&mut self, node: &NodeName, gpus: i64) {
        if gpus != 0 {
            self.change(node, |of| of.held = of.held.saturating_add(gpus));
        }
    }

    fn change(&mut self, node: &NodeName, change: impl FnOnce(&mut Use)) {
        let of = self.nodes.entry(node.clone()).or_default();
        let before = *of;
        change(of);
        let now = *of;
        let moved =
            |sum: i64, before: i64, now: i64| sum.saturating_sub(before).saturating_add(now);
        self.has = moved(self.has, before.has, now.has);
        self.held = moved(self.held, before.held, now.held);
        self.stranded = moved(self.stranded, before.stranded(), now.stranded());
    }

    /// GPUs held, in percent of those that there are: the mean over time, or as
    /// it is now where no time has gone by.
    pub(super) fn held_percent(&self) -> f64 {
        if self.sums.has > 0 {
            100.0 * self.sums.held as f64 / self.sums.has as f64
        } else if self.has > 0 {
            100.0 * self.held as f64 / self.has as f64
        } else {
            0.0
        }
    }

    /// GPUs that were free beside held ones on their node: the mean over time, or
    /// as it is now.
    pub(super) fn stranded(&self) -> f64 {
        if self.sums.millis > 0 {
            self.sums.stranded as f64 / self.sums.millis as f64
        } else {
            self.stranded as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_time() {
        let (a, b) = (NodeName::new("a"), NodeName::new("b"));
        let mut meter = Meter::default();
        meter.set_node(&a, 8);
        meter.set_node(&b, 8);
        meter.hold(&a, 4);
        assert_eq!(meter.held_percent(), 25.0);
        assert_eq!(meter.stranded(), 4.0);
        meter.advance(Time::from_millis(0));
        meter.advance(Time::from_millis(1_000));
        meter.hold(&a, 4);
        meter.hold(&b, 8);
        meter.advance(Time::from_millis(4_000));
        // 4 of 16 for 1 s, 16 of 16 for 3 s.
        assert_eq!(meter.held_percent(), 81.25);
        assert_eq!(meter.stranded(), 1.0);
        // A node that is gone while something of it is still held strands nothing.
        meter.set_node(&a, 0);
        meter.hold(&b, -8);
        assert_eq!((meter.has, meter.held, meter.stranded), (8, 8, 0));
    }
}
