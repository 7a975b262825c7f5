//! Decides when the pods of an unhealthy node may be evicted.
//!
//! The component that declares nodes unhealthy may itself be broken, and would then stop all pods.
//! Therefore nodes are evicted one by one, as by the node lifecycle controller of Kubernetes. If
//! most nodes of a zone are unhealthy, no node of the zone is evicted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use trellis_api::rules;

use super::slim::SlimNode;
use super::storage::ZONE_LABELS;

/// Number of unhealthy nodes that never disrupts a zone, even if it is a large share of the zone
/// (`ComputeZoneState`).
const TOLERATED_UNHEALTHY_NODES: usize = 2;

/// Interval at which gangs on unhealthy nodes of a disrupted zone are checked again without an
/// event.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The nodes over which the share of unhealthy nodes is computed: all nodes of a zone with GPUs, or
/// all nodes of a zone without GPUs. A broken health agent for GPUs declares only nodes with GPUs
/// unhealthy, and their share would be smaller among all nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvictionZone {
    region: Option<String>,
    name: Option<String>,
    has_gpus: bool,
}

impl EvictionZone {
    /// Returns the zone of a node.
    #[must_use]
    pub fn from_node(node: &SlimNode) -> Self {
        let labels = node.metadata.labels.as_ref();
        let value = |key: &str| labels.and_then(|labels| labels.get(key).cloned());
        let [old_region, old_name, region, name] = ZONE_LABELS;
        Self {
            region: value(region).or_else(|| value(old_region)),
            name: value(name).or_else(|| value(old_name)),
            has_gpus: node
                .status
                .allocatable
                .keys()
                .any(|name| rules::is_gpu(name)),
        }
    }
}

/// Decision about the pods of an unhealthy node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionDecision {
    /// Evict the pods, and place their gangs elsewhere.
    Now,
    /// Another node of the zone was evicted recently: check again after that time.
    After(Duration),
    /// Too many nodes of the zone are unhealthy: check again after that time.
    PartialDisruption(Duration),
}

/// Pace at which nodes are evicted, and the share of unhealthy nodes that stops it.
#[derive(Clone, Copy, Debug)]
pub struct EvictionPace {
    /// Share of a zone's nodes, from 0 to 1.
    pub threshold: f64,
    /// Time between the evictions of two nodes of a zone.
    pub interval: Duration,
}

/// A zone whose state has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneChange {
    /// The zone.
    pub zone: EvictionZone,
    /// True if too many of its nodes are unhealthy, false if they are no longer too many.
    pub disrupted: bool,
    /// Number of its unhealthy nodes.
    pub unhealthy: usize,
    /// Number of its nodes.
    pub nodes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct ZoneCounts {
    nodes: usize,
    unhealthy: usize,
    /// When the next of its nodes may be evicted.
    next_eviction: Option<Instant>,
}

/// Health and zone of all nodes.
#[derive(Debug)]
pub struct ZoneDisruption {
    pace: EvictionPace,
    nodes: BTreeMap<String, (EvictionZone, bool)>,
    zones: BTreeMap<EvictionZone, ZoneCounts>,
    /// Unhealthy nodes that are being evicted. All gangs on them may be stopped, at any time,
    /// because an earlier write may have failed.
    evicted_nodes: BTreeSet<String>,
}

impl ZoneDisruption {
    /// Returns a state without nodes.
    #[must_use]
    pub fn new(pace: EvictionPace) -> Self {
        Self {
            pace,
            nodes: BTreeMap::new(),
            zones: BTreeMap::new(),
            evicted_nodes: BTreeSet::new(),
        }
    }

    /// Records a node. Returns the zones whose state changes.
    pub fn apply(&mut self, node: &str, zone: EvictionZone, unhealthy: bool) -> Vec<ZoneChange> {
        if self.nodes.get(node) == Some(&(zone.clone(), unhealthy)) {
            return Vec::new();
        }
        self.replace_node(node, Some((zone, unhealthy)))
    }

    /// Removes a node. Returns the zones whose state changes.
    pub fn delete(&mut self, node: &str) -> Vec<ZoneChange> {
        self.replace_node(node, None)
    }

    fn replace_node(&mut self, node: &str, now: Option<(EvictionZone, bool)>) -> Vec<ZoneChange> {
        if !now.as_ref().is_some_and(|(_, unhealthy)| *unhealthy) {
            self.evicted_nodes.remove(node);
        }
        let before = match &now {
            Some(now) => self.nodes.insert(node.to_owned(), now.clone()),
            None => self.nodes.remove(node),
        };
        let changed_zones: BTreeSet<EvictionZone> =
            before.iter().chain(&now).map(|(z, _)| z.clone()).collect();
        let before_change = changed_zones
            .into_iter()
            .map(|zone| (self.is_disrupted(&zone), zone));
        let before_change: Vec<_> = before_change.collect();
        if let Some((zone, unhealthy)) = &before {
            let tally = self.zones.entry(zone.clone()).or_default();
            tally.nodes = tally.nodes.saturating_sub(1);
            tally.unhealthy = tally.unhealthy.saturating_sub(usize::from(*unhealthy));
        }
        if let Some((zone, unhealthy)) = &now {
            let tally = self.zones.entry(zone.clone()).or_default();
            tally.nodes = tally.nodes.saturating_add(1);
            tally.unhealthy = tally.unhealthy.saturating_add(usize::from(*unhealthy));
        }
        let changes = before_change
            .into_iter()
            .filter_map(|(was_disrupted, zone)| {
                let disrupted = self.is_disrupted(&zone);
                let tally = self.zones.get(&zone).copied().unwrap_or_default();
                (was_disrupted != disrupted).then_some(ZoneChange {
                    zone,
                    disrupted,
                    unhealthy: tally.unhealthy,
                    nodes: tally.nodes,
                })
            });
        let changes = changes.collect();
        self.zones.retain(|_, tally| tally.nodes > 0);
        changes
    }

    /// Returns the unhealthy nodes of a zone.
    #[must_use]
    pub fn unhealthy_nodes(&self, zone: &EvictionZone) -> BTreeSet<String> {
        let unhealthy = self
            .nodes
            .iter()
            .filter(|(_, (of, ill))| of == zone && *ill);
        unhealthy.map(|(name, _)| name.clone()).collect()
    }

    /// Returns true if too many nodes of the zone are unhealthy. The rule is that of
    /// `ComputeZoneState` for nodes that are not ready, but a zone of one or two nodes is never
    /// disrupted.
    fn is_disrupted(&self, zone: &EvictionZone) -> bool {
        let tally = self.zones.get(zone).copied().unwrap_or_default();
        // A count that overflows is larger than any cluster.
        let count = |nodes: usize| f64::from(u32::try_from(nodes).unwrap_or(u32::MAX));
        tally.unhealthy > TOLERATED_UNHEALTHY_NODES
            && count(tally.unhealthy) / count(tally.nodes) >= self.pace.threshold
    }

    /// Decides whether the pods of an unhealthy node may be evicted now.
    #[must_use]
    pub fn eviction_decision(&self, node: &str, now: Instant) -> EvictionDecision {
        if self.evicted_nodes.contains(node) {
            return EvictionDecision::Now;
        }
        // The node is not known to be unhealthy, or is gone by now.
        let Some((zone, true)) = self.nodes.get(node) else {
            return EvictionDecision::After(self.pace.interval);
        };
        if self.is_disrupted(zone) {
            return EvictionDecision::PartialDisruption(RECHECK_INTERVAL);
        }
        let next = self.zones.get(zone).and_then(|tally| tally.next_eviction);
        match next.filter(|next| *next > now) {
            Some(next) => EvictionDecision::After(next.saturating_duration_since(now)),
            None => EvictionDecision::Now,
        }
    }

    /// Records that pods of an unhealthy node are evicted. The first time, this starts the pause
    /// before the next node of the zone.
    pub fn record_eviction(&mut self, node: &str, now: Instant) {
        let Some((zone, true)) = self.nodes.get(node) else {
            return;
        };
        if self.evicted_nodes.insert(node.to_owned())
            && let Some(tally) = self.zones.get_mut(zone)
        {
            tally.next_eviction = now.checked_add(self.pace.interval);
        }
    }
}

/// The zone as it appears in logs.
impl fmt::Display for EvictionZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = if self.has_gpus { "with" } else { "without" };
        write!(f, "nodes {with} GPUs")?;
        match &self.name {
            Some(zone) => write!(f, " of zone {zone:?}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
