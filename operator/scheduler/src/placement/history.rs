//! The typical tasks: pods of the gangs that the engine has learned.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::constraints::Constraints;
use crate::ids::ResourceName;
use crate::resources::Resources;
use crate::state::{Catalog, DemandIdx, GangShape, GroupShape, ResourceIdx, SignatureIdx};
use crate::topology::{NODE_LEVEL, SliceLayer, TopologyRequest};

/// Number of the most frequent task shapes, with which packing measures fragmentation: one per bit
/// of a profile.
pub(super) const MAX_TYPICAL_TASKS: usize = 128;
/// Number of task shapes to count: twice as many, so that the next ones can move up.
const MAX_COUNTED_TASKS: usize = MAX_TYPICAL_TASKS.saturating_mul(2);
/// Number of new pods after which older pods count half: roughly the pods of 10,000 nodes.
const HALF_LIFE: u64 = 1 << 16;

/// The typical tasks that an engine has learned. An engine that restores them makes the same
/// decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskHistory {
    tasks: Vec<TaskRecord>,
    since: u64,
    known: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct TaskRecord {
    request: Resources,
    device: ResourceName,
    constraints: Constraints,
    /// Coarse to fine. Empty: no level holds the pods together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slices: Vec<SliceLayer>,
    pods: u64,
    weight: u64,
}

/// Pods by needs, constraints and slices, and their weights as of the last renewal.
///
/// Renewals update the weights. One happens when the number of new pods reaches the number of pods
/// at the last renewal, or a half-life. So the weights always include at least half of all pods,
/// and a thousand gangs cost ten renewals. Scores do not change between renewals. A
/// size of slices that is new causes a renewal at once, because otherwise its domains could all be
/// broken before it counts.
#[derive(Debug, Default)]
pub(super) struct TaskCounts {
    tasks: BTreeMap<TaskKey, TaskCount>,
    /// Pods since the last renewal.
    since: u64,
    /// Pods counted at the last renewal.
    known: u64,
    version: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TaskKey {
    demand: DemandIdx,
    signature: SignatureIdx,
    slices: Vec<SliceLayer>,
}

#[derive(Clone, Copy, Debug)]
struct TaskCount {
    device: ResourceIdx,
    pods: u64,
    weight: u64,
}

/// A typical task.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypicalTask<'a> {
    pub(super) demand: DemandIdx,
    pub(super) signature: SignatureIdx,
    pub(super) device: ResourceIdx,
    /// The pods that a gang needs in one domain, coarse to fine.
    pub(super) slices: &'a [SliceLayer],
    pub(super) weight: u64,
}

impl TaskCounts {
    /// Counts the pods of a gang that need devices.
    pub(super) fn learn(&mut self, catalog: &mut Catalog, shape: &GangShape) {
        let mut has_new_size = false;
        for group in &shape.groups {
            if let Some(device) = group.device.filter(|_| group.count > 0) {
                let key = TaskKey {
                    demand: group.demand_idx,
                    signature: group.signature,
                    slices: needed_slices(shape, group),
                };
                has_new_size |= !key.slices.is_empty() && !self.tasks.contains_key(&key);
                self.count(catalog, key, group.count, device);
            }
        }
        if has_new_size || self.since >= self.known.min(HALF_LIFE) {
            self.renew(catalog);
        }
    }

    fn count(&mut self, catalog: &mut Catalog, key: TaskKey, pods: u32, device: ResourceIdx) {
        let pods = u64::from(pods);
        self.since = self.since.saturating_add(pods);
        if let Some(task) = self.tasks.get_mut(&key) {
            task.pods = task.pods.saturating_add(pods);
            return;
        }
        if self.tasks.len() >= MAX_COUNTED_TASKS {
            self.drop_lightest(catalog);
        }
        catalog.retain(key.demand, key.signature);
        let task = TaskCount {
            device,
            pods,
            weight: 0,
        };
        self.tasks.insert(key, task);
    }

    /// Returns the keys by number of pods, the most frequent first. Ties are broken by content,
    /// because indexes depend on the order of arrival.
    fn keys_by_frequency(&self, catalog: &Catalog) -> Vec<TaskKey> {
        let mut keys: Vec<_> = self.tasks.iter().collect();
        keys.sort_by_cached_key(|(key, task)| {
            let (request, constraints) = task_content(catalog, key);
            (Reverse(task.pods), request, constraints, &key.slices)
        });
        keys.into_iter().map(|(key, _)| key.clone()).collect()
    }

    /// Drops the lighter half.
    fn drop_lightest(&mut self, catalog: &mut Catalog) {
        for key in self
            .keys_by_frequency(catalog)
            .into_iter()
            .skip(MAX_TYPICAL_TASKS)
        {
            self.tasks.remove(&key);
            catalog.release(key.demand, key.signature);
        }
    }

    fn renew(&mut self, catalog: &Catalog) {
        if self.known >= HALF_LIFE {
            for task in self.tasks.values_mut() {
                task.pods = task.pods.div_ceil(2);
            }
        }
        self.since = 0;
        self.known = 0;
        for (place, key) in self.keys_by_frequency(catalog).into_iter().enumerate() {
            if let Some(task) = self.tasks.get_mut(&key) {
                self.known = self.known.saturating_add(task.pods);
                task.weight = if place < MAX_TYPICAL_TASKS {
                    task.pods
                } else {
                    0
                };
            }
        }
        self.version = self.version.saturating_add(1);
    }

    /// Returns the number of renewals so far.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the typical tasks as of the last renewal.
    pub(super) fn typical_tasks(&self) -> impl Iterator<Item = TypicalTask<'_>> {
        let weighty = self.tasks.iter().filter(|(_, task)| task.weight > 0);
        weighty.map(|(key, task)| TypicalTask {
            demand: key.demand,
            signature: key.signature,
            device: task.device,
            slices: &key.slices,
            weight: task.weight,
        })
    }

    /// Exports the history by content, so that another engine can restore it.
    pub(super) fn export(&self, catalog: &Catalog) -> TaskHistory {
        let task = |(key, count): (&TaskKey, &TaskCount)| {
            let (request, constraints) = task_content(catalog, key);
            TaskRecord {
                request,
                device: catalog.name(count.device),
                constraints,
                slices: key.slices.clone(),
                pods: count.pods,
                weight: count.weight,
            }
        };
        let mut tasks: Vec<TaskRecord> = self.tasks.iter().map(task).collect();
        tasks.sort_unstable();
        TaskHistory {
            tasks,
            since: self.since,
            known: self.known,
        }
    }

    /// Replaces the history by that of another engine.
    pub(super) fn restore(&mut self, catalog: &mut Catalog, history: &TaskHistory) {
        for key in std::mem::take(&mut self.tasks).into_keys() {
            catalog.release(key.demand, key.signature);
        }
        for task in &history.tasks {
            let demand = catalog.acquire_demand(&task.request);
            let signature = catalog.acquire_constraints(&task.constraints);
            let Some(device) = catalog.resource(&task.device) else {
                catalog.release(demand, signature);
                continue;
            };
            let count = TaskCount {
                device,
                pods: task.pods,
                weight: task.weight,
            };
            let slices = task.slices.clone();
            let key = TaskKey {
                demand,
                signature,
                slices,
            };
            self.tasks.insert(key, count);
        }
        self.since = history.since;
        self.known = history.known;
        self.version = self.version.saturating_add(1);
    }
}

/// Returns the request and constraints of a task.
fn task_content(catalog: &Catalog, key: &TaskKey) -> (Resources, Constraints) {
    let demand = catalog.demand(key.demand);
    let request = demand
        .iter()
        .filter(|(resource, _)| *resource != catalog.pods())
        .map(|(resource, amount)| (catalog.name(*resource), *amount))
        .collect();
    let constraints = catalog
        .signature(key.signature)
        .map(|s| s.constraints().clone());
    (request, constraints.unwrap_or_default())
}

/// Returns the pods of a group that must be in one domain, coarse to fine: all pods in a domain of
/// the required levels, and each slice in a domain of its level. A single pod is always in one
/// domain.
fn needed_slices(shape: &GangShape, group: &GroupShape) -> Vec<SliceLayer> {
    let requests = [&shape.topology, &group.topology];
    let required = requests.into_iter().flatten();
    let required = required.filter_map(TopologyRequest::required_level);
    let required = required.filter(|level| *level != NODE_LEVEL);
    let whole = required.map(|level| SliceLayer::new(level, group.count));
    let all = whole.chain(group.slices.iter().cloned());
    all.filter(|layer| layer.pods > 1).collect()
}
