//! Measures the use of the GPUs over time.

use std::collections::BTreeMap;

use trellis_scheduler::{NodeName, Resources, Time};

use crate::summary::DomainSummary;

/// Counts the GPUs of a request or a node: every vendor's resource with the name `gpu`.
pub(in crate::runner) fn count_gpus(resources: &Resources) -> i64 {
    let gpus = resources
        .iter()
        .filter(|(name, _)| name.as_str().ends_with("/gpu"));
    gpus.fold(0, |sum, (_, amount)| sum.saturating_add(amount))
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeGpus {
    total: i64,
    used: i64,
    /// Runs of task groups, also of those without GPUs.
    runs: i64,
}

impl NodeGpus {
    fn is_in_use(self) -> bool {
        self.used > 0 || self.runs > 0
    }

    /// Returns the free GPUs of a partly used node, which a gang of whole nodes cannot use.
    fn stranded(self) -> i64 {
        if self.used > 0 {
            self.total.saturating_sub(self.used).max(0)
        } else {
            0
        }
    }
}

/// GPUs by node, and sums of their use since the meter began, in GPU milliseconds.
#[derive(Debug, Default)]
pub(in crate::runner) struct GpuUseMeter {
    nodes: BTreeMap<NodeName, NodeGpus>,
    total: i64,
    used: i64,
    stranded: i64,
    domains: FreeDomains,
    now: Option<Time>,
    sums: GpuTimeSums,
}

/// Domains of a level, such as racks.
#[derive(Debug, Default)]
struct FreeDomains {
    domain_by_node: BTreeMap<NodeName, String>,
    /// GPUs of each domain, and how many of its nodes are in use.
    domains: BTreeMap<String, (i64, usize)>,
    /// Number of domains that are entirely free.
    free_count: i64,
}

impl FreeDomains {
    /// Updates the domain of a node whose GPUs have changed.
    fn change_node(&mut self, node: &NodeName, before: NodeGpus, now: NodeGpus) {
        let domain = self
            .domain_by_node
            .get(node)
            .and_then(|name| self.domains.get_mut(name));
        let Some((gpus, in_use)) = domain else {
            return;
        };
        *gpus = gpus.saturating_sub(before.total).saturating_add(now.total);
        let was_free = *in_use == 0;
        *in_use = in_use
            .saturating_sub(usize::from(before.is_in_use()))
            .saturating_add(usize::from(now.is_in_use()));
        let is_free = *in_use == 0;
        self.free_count = self
            .free_count
            .saturating_sub(i64::from(was_free))
            .saturating_add(i64::from(is_free));
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct GpuTimeSums {
    millis: i128,
    total: i128,
    used: i128,
    stranded: i128,
    free_domains: i128,
    /// Milliseconds without a free domain.
    without_free_domain: i128,
}

impl GpuUseMeter {
    /// Adds the time since the last call with the current use to the sums. The first call starts
    /// the measurement.
    pub(in crate::runner) fn advance(&mut self, now: Time) {
        if let Some(before) = self.now {
            let millis = i128::try_from(now.since(before).as_millis()).unwrap_or(i128::MAX);
            let add = |sum: &mut i128, amount: i64| {
                *sum = sum.saturating_add(i128::from(amount).saturating_mul(millis));
            };
            add(&mut self.sums.millis, 1);
            add(&mut self.sums.total, self.total);
            add(&mut self.sums.used, self.used);
            add(&mut self.sums.stranded, self.stranded);
            add(&mut self.sums.free_domains, self.domains.free_count);
            add(
                &mut self.sums.without_free_domain,
                i64::from(self.domains.free_count == 0),
            );
        }
        self.now = Some(now);
    }

    /// Returns true if the measurement has started.
    pub(in crate::runner) const fn has_begun(&self) -> bool {
        self.now.is_some()
    }

    /// Sets the number of GPUs of a node.
    pub(in crate::runner) fn set_node(&mut self, node: &NodeName, has: i64) {
        self.change_gpus(node, |of| of.total = has);
    }

    /// Puts an existing node into a domain.
    pub(in crate::runner) fn set_domain(&mut self, node: &NodeName, domain: &str) {
        let of = self.nodes.get(node).copied().unwrap_or_default();
        self.domains.change_node(node, of, NodeGpus::default());
        self.domains
            .domain_by_node
            .insert(node.clone(), domain.to_owned());
        if !self.domains.domains.contains_key(domain) {
            self.domains.domains.insert(domain.to_owned(), (0, 0));
            self.domains.free_count = self.domains.free_count.saturating_add(1);
        }
        self.domains.change_node(node, NodeGpus::default(), of);
    }

    /// Returns true if a gang with this number of GPUs fills a whole domain.
    pub(in crate::runner) fn is_size_of_domain(&self, gpus: i64) -> bool {
        let largest = self.domains.domains.values().map(|(gpus, _)| *gpus).max();
        largest.is_some_and(|largest| gpus > 0 && gpus == largest)
    }

    /// Summarizes the entirely free domains: the means over time, or the current values if no time
    /// has passed.
    pub(in crate::runner) fn domain_summary(&self, level: &str) -> DomainSummary {
        let of_time = |sum: i128, now: f64| match self.sums.millis {
            0 => now,
            millis => sum as f64 / millis as f64,
        };
        let without = f64::from(u8::from(self.domains.free_count == 0));
        DomainSummary {
            level: level.to_owned(),
            domains: self.domains.domains.len(),
            mean_free: of_time(self.sums.free_domains, self.domains.free_count as f64),
            none_free_percent: 100.0 * of_time(self.sums.without_free_domain, without),
            ..DomainSummary::default()
        }
    }

    /// Adds to the GPUs in use on a node; negative values free GPUs.
    pub(in crate::runner) fn add_used(&mut self, node: &NodeName, gpus: i64) {
        if gpus != 0 {
            self.change_gpus(node, |of| of.used = of.used.saturating_add(gpus));
        }
    }

    /// Adds to the runs of task groups on a node; negative values end runs.
    pub(in crate::runner) fn add_runs(&mut self, node: &NodeName, runs: i64) {
        self.change_gpus(node, |of| of.runs = of.runs.saturating_add(runs));
    }

    fn change_gpus(&mut self, node: &NodeName, change: impl FnOnce(&mut NodeGpus)) {
        let of = self.nodes.entry(node.clone()).or_default();
        let before = *of;
        change(of);
        let now = *of;
        self.domains.change_node(node, before, now);
        let moved =
            |sum: i64, before: i64, now: i64| sum.saturating_sub(before).saturating_add(now);
        self.total = moved(self.total, before.total, now.total);
        self.used = moved(self.used, before.used, now.used);
        self.stranded = moved(self.stranded, before.stranded(), now.stranded());
    }

    /// Returns the GPUs in use, in percent of all GPUs: the mean over time, or the current value if
    /// no time has passed.
    pub(in crate::runner) fn used_percent(&self) -> f64 {
        if self.sums.total > 0 {
            100.0 * self.sums.used as f64 / self.sums.total as f64
        } else if self.total > 0 {
            100.0 * self.used as f64 / self.total as f64
        } else {
            0.0
        }
    }

    /// Returns the free GPUs on partly used nodes: the mean over time, or the current value if no
    /// time has passed.
    pub(in crate::runner) fn stranded(&self) -> f64 {
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
    fn domain_is_free_while_none_of_its_nodes_is_in_use() {
        let names = ["a", "b", "c"].map(NodeName::new);
        let mut meter = GpuUseMeter::default();
        for (node, rack) in names.iter().zip(["r0", "r0", "r1"]) {
            meter.set_node(node, 8);
            meter.set_domain(node, rack);
        }
        assert_eq!(meter.domain_summary("rack").mean_free, 2.0);
        assert!(meter.is_size_of_domain(16));
        assert!(!meter.is_size_of_domain(8));
        meter.advance(Time::from_millis(0));
        meter.add_used(&names[0], 1);
        meter.add_used(&names[1], 8);
        meter.advance(Time::from_millis(1_000));
        meter.add_used(&names[2], 8);
        meter.advance(Time::from_millis(2_000));
        meter.add_used(&names[0], -1);
        meter.add_used(&names[1], -8);
        meter.advance(Time::from_millis(4_000));
        let summary = meter.domain_summary("rack");
        assert_eq!(summary.domains, 2);
        // 1 for 1 s, none for 1 s, 1 for 2 s.
        assert_eq!(summary.mean_free, 0.75);
        assert_eq!(summary.none_free_percent, 25.0);
        // A job without GPUs uses rack 0 as well.
        meter.add_runs(&names[0], 1);
        meter.advance(Time::from_millis(8_000));
        assert_eq!(meter.domain_summary("rack").mean_free, 0.375);
    }

    #[test]
    fn means_are_weighted_by_time() {
        let (a, b) = (NodeName::new("a"), NodeName::new("b"));
        let mut meter = GpuUseMeter::default();
        meter.set_node(&a, 8);
        meter.set_node(&b, 8);
        meter.add_used(&a, 4);
        assert_eq!(meter.used_percent(), 25.0);
        assert_eq!(meter.stranded(), 4.0);
        meter.advance(Time::from_millis(0));
        meter.advance(Time::from_millis(1_000));
        meter.add_used(&a, 4);
        meter.add_used(&b, 8);
        meter.advance(Time::from_millis(4_000));
        // 4 of 16 for 1 s, 16 of 16 for 3 s.
        assert_eq!(meter.used_percent(), 81.25);
        assert_eq!(meter.stranded(), 1.0);
        // A deleted node with used GPUs has no stranded GPUs.
        meter.set_node(&a, 0);
        meter.add_used(&b, -8);
        assert_eq!((meter.total, meter.used, meter.stranded), (8, 8, 0));
    }
}
