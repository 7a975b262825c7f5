//! When the pods of an unhealthy node may be stopped. Whoever declares nodes unhealthy may be
//! broken himself, and would stop everything: as the node lifecycle controller evicts, nodes are
//! left one by one, and none where most of a zone falls ill at once. Pure: the time is an
//! argument.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use trellis_api::rules;

use super::slim::SlimNode;
use super::storage::ZONE_LABELS;

/// So many nodes of a zone may be unhealthy whatever their share (`ComputeZoneState`).
const FEW: usize = 2;

/// How long what stays on the nodes of a disrupted zone waits to be looked at, where nothing is
/// seen to change.
const LOOK: Duration = Duration::from_secs(60);

/// Nodes among which the share of those that are unhealthy is looked at: of a zone, those with
/// GPUs apart from the others. A health agent of GPUs knows nothing of other nodes, and these
/// would hide how many it has declared unhealthy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zone {
    region: Option<String>,
    name: Option<String>,
    has_gpus: bool,
}

impl Zone {
    /// The zone of a node.
    #[must_use]
    pub fn of(node: &SlimNode) -> Self {
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

/// What may be done about the pods of an unhealthy node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// They are stopped, and placed elsewhere.
    Now,
    /// Other nodes come first: it is asked again after that time.
    After(Duration),
    /// Too many nodes of the zone are unhealthy: it is asked again after that time.
    PartialDisruption(Duration),
}

/// How fast nodes are left, and from which share on they are not.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Share of a zone's nodes, from 0 to 1.
    pub threshold: f64,
    /// Time between two nodes of a zone.
    pub interval: Duration,
}

/// A zone whose state has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turned {
    /// Which.
    pub zone: Zone,
    /// Too many of its nodes are unhealthy now; false: no more.
    pub disrupted: bool,
    /// How many of its nodes are unhealthy.
    pub unhealthy: usize,
    /// How many it has.
    pub nodes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    nodes: usize,
    unhealthy: usize,
    /// When the next of its nodes may be left.
    next: Option<Instant>,
}

/// What is known of all nodes.
#[derive(Debug)]
pub struct Disruption {
    pace: Pace,
    nodes: BTreeMap<String, (Zone, bool)>,
    zones: BTreeMap<Zone, Tally>,
    /// Unhealthy nodes that are left: all of their gangs are stopped, also if a try fails.
    left: BTreeSet<String>,
}

impl Disruption {
    /// No node is known.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            nodes: BTreeMap::new(),
            zones: BTreeMap::new(),
            left: BTreeSet::new(),
        }
    }

    /// Takes a node as it is. Gives the zones whose state that changes.
    pub fn apply(&mut self, node: &str, zone: Zone, unhealthy: bool) -> Vec<Turned> {
        if self.nodes.get(node) == Some(&(zone.clone(), unhealthy)) {
            return Vec::new();
        }
        self.change(node, Some((zone, unhealthy)))
    }

    /// The Node object is gone. Gives the zones whose state that changes.
    pub fn delete(&mut self, node: &str) -> Vec<Turned> {
        self.change(node, None)
    }

    fn change(&mut self, node: &str, now: Option<(Zone, bool)>) -> Vec<Turned> {
        if !now.as_ref().is_some_and(|(_, unhealthy)| *unhealthy) {
            self.left.remove(node);
        }
        let before = match &now {
            Some(now) => self.nodes.insert(node.to_owned(), now.clone()),
            None => self.nodes.remove(node),
        };
        let touched: BTreeSet<Zone> = before.iter().chain(&now).map(|(z, _)| z.clone()).collect();
        let was = touched
            .into_iter()
            .map(|zone| (self.is_disrupted(&zone), zone));
        let was: Vec<_> = was.collect();
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
        let turned = was.into_iter().filter_map(|(was, zone)| {
            let disrupted = self.is_disrupted(&zone);
            let tally = self.zones.get(&zone).copied().unwrap_or_default();
            (was != disrupted).then_some(Turned {
                zone,
                disrupted,
                unhealthy: tally.unhealthy,
                nodes: tally.nodes,
            })
        });
        let turned = turned.collect();
        self.zones.retain(|_, tally| tally.nodes > 0);
        turned
    }

    /// The unhealthy nodes of a zone.
    #[must_use]
    pub fn unhealthy_of(&self, zone: &Zone) -> BTreeSet<String> {
        let unhealthy = self
            .nodes
            .iter()
            .filter(|(_, (of, ill))| of == zone && *ill);
        unhealthy.map(|(name, _)| name.clone()).collect()
    }

    /// As `ComputeZoneState` has it, of nodes that are unhealthy instead of not ready: but for a
    /// zone of one or two nodes that all are, which it calls disrupted too.
    fn is_disrupted(&self, zone: &Zone) -> bool {
        let tally = self.zones.get(zone).copied().unwrap_or_default();
        // More nodes than there are numbers for are more than there are.
        let count = |nodes: usize| f64::from(u32::try_from(nodes).unwrap_or(u32::MAX));
        tally.unhealthy > FEW && count(tally.unhealthy) / count(tally.nodes) >= self.pace.threshold
    }

    /// Whether the pods of an unhealthy node may be stopped now.
    #[must_use]
    pub fn may_leave(&self, node: &str, now: Instant) -> Leave {
        if self.left.contains(node) {
            return Leave::Now;
        }
        // Nobody has said that it is unhealthy, or it is gone by now.
        let Some((zone, true)) = self.nodes.get(node) else {
            return Leave::After(self.pace.interval);
        };
        if self.is_disrupted(zone) {
            return Leave::PartialDisruption(LOOK);
        }
        let next = self.zones.get(zone).and_then(|tally| tally.next);
        match next.filter(|next| *next > now) {
            Some(next) => Leave::After(next.saturating_duration_since(now)),
            None => Leave::Now,
        }
    }

    /// The pods of an unhealthy node are stopped: the first time it is the node's turn, and no
    /// other's of its zone for a while.
    pub fn left(&mut self, node: &str, now: Instant) {
        let Some((zone, true)) = self.nodes.get(node) else {
            return;
        };
        if self.left.insert(node.to_owned())
            && let Some(tally) = self.zones.get_mut(zone)
        {
            tally.next = now.checked_add(self.pace.interval);
        }
    }
}

/// In words, as logs have it.
impl fmt::Display for Zone {
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
