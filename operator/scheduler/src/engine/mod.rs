//! The engine: the live state, and what changes it.

mod admission;
mod beside;
mod by_node;
mod cluster;
mod cycle;
mod departures;
mod gangs;
mod heads;
mod hopeless;
mod keeping;
mod limits;
mod placed;
mod preempt;
mod quota_heads;
mod refusals;
mod reserving;
mod roster;
mod snapshot;
mod stages;
mod standing;
mod stopping;
mod trial;
mod ways;
mod withdrawing;
mod yielding;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::backfill::Backfill;
use crate::explain::{Certificate, WaitReason};
use crate::gang::Gang;
use crate::ids::{GangId, NodeName, PodKey, QueueName, ResourceName};
use crate::limits::{Ledger, Lines};
use crate::placement::{History, Packing, Placement};
use crate::queue::{GroupFlavors, QueueCounts};
use crate::queueing::{Parking, Queues, Signal, Waiting};
use crate::quota::Decay;
use crate::state::{Catalog, GangIdx, NodeIdx, Nodes, Pods, ResourceIdx, Shape};
use crate::time::Time;
use departures::Departures;
use keeping::Keeps;
use placed::Placed;
use refusals::Refusals;
use roster::Roster;
pub use snapshot::{
    ChargeSnapshot, DrawnSnapshot, GangSnapshot, KeepSnapshot, KeptPodSnapshot, LagSnapshot,
    PlaceSnapshot, PodSnapshot, Snapshot, StandingSnapshot, StoppingSnapshot,
};
pub use standing::{QueueMemory, QueueStanding, StandingLine, Totals};
use stopping::Stopping;
use ways::KnownWays;
use withdrawing::CyclePlacements;

/// The scheduling engine: a state machine over plain data.
///
/// Report the state of the cluster with `apply_*` and `delete_*`, in any order and as often as you
/// like: applying the same twice changes nothing. [`Engine::cycle`] returns what to do.
///
/// # Usage
///
/// Every pod counts once. A gang that is placed is charged at once: its pods are *assumed*.
/// [`Engine::apply_pod`] with the same key confirms a pod: from then on the reported node and
/// request count. [`Engine::delete_pod`] frees a confirmed pod. Giving up a gang
/// ([`Engine::release_gang`], [`Engine::delete_gang`]) frees the pods that are still assumed.
/// Confirmed pods count until they are gone, because a terminating pod holds its devices. A kept
/// place ([`Engine::keep_gang`]) counts even after that. The quota and limits of a deleted gang
/// ([`Engine::retire_gang`]) stay charged until its last pod is gone.
///
/// A pod that existed before the gang was placed, under the key of one of its pods, does not
/// confirm: both count until it is deleted. So a pod that is replaced by another of the same name
/// must be deleted before the new one is applied.
#[derive(Debug)]
pub struct Engine {
    catalog: Catalog,
    nodes: Nodes,
    pods: Pods,
    queues: Queues,
    limits: Ledger,
    lines: Lines,
    gangs: Roster,
    ids: BTreeMap<GangId, GangIdx>,
    /// Placed groups by `namespace/pod_prefix`, to find the gang of a pod.
    families: HashMap<String, SmallVec<[(GangIdx, usize); 1]>>,
    waiting: Waiting,
    parking: Parking,
    refusals: Refusals,
    packing: Packing,
    backfill: Backfill,
    placed: usize,
    /// Gangs that are placed once their victims have left.
    nominated: BTreeSet<GangIdx>,
    departures: Departures,
    stopping: Stopping,
    keeps: Keeps,
    /// Empty between cycles.
    cycle_placements: CyclePlacements,
    /// The latest time that the engine was given.
    now: Time,
    /// The version of queues and flavors. Results from another version are computed again.
    config: u64,
    /// Node capacity has changed since shares were last measured.
    capacity_changed: bool,
}

impl Default for Engine {
    fn default() -> Self {
        Self::with_decay(Decay::default())
    }
}

/// A gang and its stage.
#[derive(Debug)]
struct GangState {
    gang: Arc<Gang>,
    shape: Arc<Shape>,
    /// None: not computed yet.
    ways: Option<KnownWays>,
    /// The back-off of the last release.
    not_before: Option<Time>,
    /// It was preempted by another gang, or evicted because its queue was drained.
    preempted: bool,
    /// It has lost its place, and is not tried before it is applied again.
    idle: bool,
    /// The reason that a cycle last reported.
    told: Option<WaitReason>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Pending, with the explanation of the last try.
    Waiting(Option<Certificate>),
    Placed(Box<Placed>),
    /// The gang is deleted, but this many of its pods still stop; they should be gone at `by`.
    Stopping {
        pods: u32,
        by: Time,
    },
}

impl Engine {
    /// An engine without any cluster state.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An engine with another half-life of usage than 7 days.
    #[must_use]
    pub fn with_decay(decay: Decay) -> Self {
        let catalog = Catalog::default();
        Self {
            queues: Queues::new(&catalog, decay),
            catalog,
            nodes: Nodes::default(),
            limits: Ledger::default(),
            lines: Lines::default(),
            pods: Pods::default(),
            gangs: Roster::default(),
            ids: BTreeMap::new(),
            families: HashMap::new(),
            waiting: Waiting::default(),
            parking: Parking::default(),
            refusals: Refusals::default(),
            packing: Packing::default(),
            backfill: Backfill::default(),
            placed: 0,
            nominated: BTreeSet::new(),
            departures: Departures::default(),
            stopping: Stopping::default(),
            keeps: Keeps::default(),
            cycle_placements: CyclePlacements::default(),
            now: Time::default(),
            config: 0,
            capacity_changed: false,
        }
    }

    /// The explanation of a pending gang, as of its last try. The gang is tried again when
    /// something changes that could let it start or changes the reason. So the reason is current,
    /// but its numbers may be older; for current numbers see [`Engine::explain`]. None: the gang is
    /// not pending, or no cycle has tried it yet.
    #[must_use]
    pub fn certificate(&self, gang: &GangId) -> Option<&Certificate> {
        match &self.state(*self.ids.get(gang)?)?.stage {
            Stage::Waiting(certificate) => certificate.as_ref(),
            Stage::Placed(_) | Stage::Stopping { .. } => None,
        }
    }

    /// The position of a pending gang in its queue, from 1. The cost is linear in the gangs before
    /// it.
    #[must_use]
    pub fn position(&self, gang: &GangId) -> Option<usize> {
        self.waiting
            .position(&self.state(*self.ids.get(gang)?)?.gang)
    }

    /// The placement of a placed gang.
    #[must_use]
    pub fn placement(&self, gang: &GangId) -> Option<Placement> {
        match &self.state(*self.ids.get(gang)?)?.stage {
            Stage::Waiting(_) | Stage::Stopping { .. } => None,
            Stage::Placed(placed) => Some(placed.placement(&self.nodes)),
        }
    }

    /// Labels that identify the domain of `level` that the node is in. None: no topology has the
    /// level, or the node lacks one of its labels.
    #[must_use]
    pub fn domain_labels(&self, level: &str, node: &NodeName) -> Option<BTreeMap<String, String>> {
        self.nodes.domain_labels(level, node)
    }

    /// The flavors that a placed gang is charged to, by task group and resource. A group whose
    /// queue offers what the nodes have is charged to none.
    #[must_use]
    pub fn flavors(&self, gang: &GangId) -> Option<Vec<GroupFlavors>> {
        let Stage::Placed(placed) = &self.state(*self.ids.get(gang)?)?.stage else {
            return None;
        };
        Some(placed::given(&placed.gang, &placed.choices))
    }

    /// Free amount of each resource that a node lists, in base units; negative if the node shrank
    /// below its usage. None: there is no such node.
    #[must_use]
    pub fn free(&self, node: &NodeName) -> Option<BTreeMap<ResourceName, i64>> {
        let at = self.nodes.find(node)?;
        self.nodes.facts(at)?;
        let offers = self.nodes.offers(at).iter();
        Some(
            offers
                .map(|r| (self.catalog.name(*r), self.nodes.free(*r, at)))
                .collect(),
        )
    }

    /// Units of a queue's quota that placed gangs hold, by resource, in base units; a gang is
    /// charged as a whole. Empty if no gang holds any.
    #[must_use]
    pub fn queue_usage(&self, queue: &QueueName) -> BTreeMap<ResourceName, i128> {
        self.queues
            .usage(queue)
            .into_iter()
            .map(|(resource, used)| (self.catalog.name(resource), used))
            .collect()
    }

    /// The numbers of pending and placed gangs of each queue, without surplus. Queues without
    /// either are left out.
    #[must_use]
    pub fn queue_counts(&self) -> BTreeMap<QueueName, QueueCounts> {
        let mut counts: BTreeMap<QueueName, QueueCounts> = BTreeMap::new();
        for (queue, pending) in self.waiting.by_queue() {
            counts.entry(queue.clone()).or_default().pending = pending;
        }
        let holders = self.queues.holders();
        for (queue, admitted) in holders {
            counts.entry(queue.clone()).or_default().admitted = admitted;
        }
        for (_, keep) in self.keeps.iter().filter(|(_, keep)| !keep.gang.surplus) {
            // A gang with a kept place is charged, but not placed.
            if let Some(counts) = counts.get_mut(&keep.gang.queue) {
                counts.admitted = counts.admitted.saturating_sub(1);
            }
        }
        counts.retain(|_, counts| *counts != QueueCounts::default());
        counts
    }

    /// The pending gangs, by name.
    pub fn waiting(&self) -> impl Iterator<Item = &GangId> {
        let waits = |at: &GangIdx| {
            let state = self.state(*at);
            state.is_some_and(|state| matches!(state.stage, Stage::Waiting(_)))
        };
        let all = self.ids.iter();
        all.filter(move |(_, at)| waits(at)).map(|(id, _)| id)
    }

    /// The number of pending gangs.
    #[must_use]
    pub fn waiting_gangs(&self) -> usize {
        self.waiting.count()
    }

    /// The number of placed gangs.
    #[must_use]
    pub fn placed_gangs(&self) -> usize {
        self.placed
    }

    /// The number of known pods.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.pods.len()
    }

    /// The next time at which a cycle is worth running without any change: when the first back-off
    /// ends, when a gang is past an end that a reservation relies on, or when a kept place ends.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        let alarm = self.parking.next_alarm();
        let times = [alarm, self.backfill.expires(), self.keeps.first_end()];
        times.into_iter().flatten().min()
    }

    /// The history from which packing has learned: every gang that was applied, except surplus.
    /// Packing keeps nodes useful for similar gangs.
    #[must_use]
    pub fn history(&self) -> History {
        self.packing.export(&self.catalog)
    }

    /// Replaces what packing has learned by the history of another engine. With the same cluster
    /// and gangs it then makes the same decisions.
    pub fn restore_history(&mut self, history: &History) {
        self.packing.restore(&mut self.catalog, history);
        self.refusals.clear();
        self.backfill.disturb();
    }

    fn state(&self, at: GangIdx) -> Option<&GangState> {
        self.gangs.get(at.at())
    }

    fn state_mut(&mut self, at: GangIdx) -> Option<&mut GangState> {
        self.gangs.get_mut(at.at())
    }

    fn placed_mut(&mut self, at: GangIdx) -> Option<&mut Placed> {
        match &mut self.state_mut(at)?.stage {
            Stage::Placed(placed) => Some(placed),
            Stage::Waiting(_) | Stage::Stopping { .. } => None,
        }
    }

    /// Charges pods to a node, and wakes the gangs that wait for that.
    fn take(&mut self, node: NodeIdx, demand: &[(ResourceIdx, i64)], pods: u32, held: bool) {
        self.nodes.know_shares(&self.catalog);
        self.nodes.charge(node, demand, i64::from(pods), held);
        self.tell(demand, pods, Signal::Taken);
    }

    /// Releases the charge of pods, and wakes the gangs that wait for that.
    fn give(&mut self, node: NodeIdx, demand: &[(ResourceIdx, i64)], pods: u32, held: bool) {
        let times = i64::from(pods).saturating_neg();
        self.nodes.charge(node, demand, times, held);
        self.tell(demand, pods, Signal::Freed);
    }

    fn tell(
        &mut self,
        demand: &[(ResourceIdx, i64)],
        pods: u32,
        signal: impl Fn(ResourceIdx) -> Signal,
    ) {
        self.refusals.clear();
        self.backfill.disturb();
        let all = |need: i64| i128::from(need).saturating_mul(i128::from(pods));
        self.raise(demand.iter().map(|(r, need)| (*r, all(*need))), signal);
    }

    /// Raises the counters of resources that have been taken or freed.
    fn raise(
        &mut self,
        amounts: impl Iterator<Item = (ResourceIdx, i128)>,
        signal: impl Fn(ResourceIdx) -> Signal,
    ) {
        for (resource, amount) in amounts {
            self.parking.raise(&signal(resource), amount);
            if let Some((along, amount)) = self.nodes.along(resource, amount) {
                self.parking.raise(&signal(along), amount);
            }
        }
    }

    /// The gang, group and index of a pod of a placed gang. If several gangs claim the name, one in
    /// which the pod is still assumed.
    fn owner(&self, pod: &PodKey) -> Option<(GangIdx, usize, u32)> {
        let (family, digits) = pod.as_str().rsplit_once('-')?;
        let canonical = digits == "0" || !digits.starts_with(['0', '+']);
        let number: u32 = digits.parse().ok().filter(|_| canonical)?;
        let claims = self.families.get(family)?;
        // The owner, and if the pod is assumed.
        let claim = |(gang, group): &(GangIdx, usize)| {
            let Stage::Placed(placed) = &self.state(*gang)?.stage else {
                return None;
            };
            let first = placed.gang.groups.get(*group)?.first;
            let index = number.checked_sub(first)?;
            let planned = placed.groups.get(*group)?;
            let owner = (*gang, *group, index);
            (index < planned.count()).then(|| (owner, planned.is_assumed(index)))
        };
        let mut claims = claims.iter().filter_map(claim);
        let (first, is_assumed) = claims.next()?;
        match is_assumed {
            true => Some(first),
            false => Some(claims.find(|c| c.1).map_or(first, |(owner, _)| owner)),
        }
    }

    fn placed_group(&self, gang: GangIdx, group: usize) -> Option<&placed::PlacedGroup> {
        match &self.state(gang)?.stage {
            Stage::Placed(placed) => placed.groups.get(group),
            Stage::Waiting(_) | Stage::Stopping { .. } => None,
        }
    }
}
