//! The engine: the live state, and the operations that change it.

mod admission;
mod backfill_placement;
mod blockage_cache;
mod choice_pruning;
mod cluster;
mod cycle;
mod departures;
mod flavor_assignment;
mod gang_table;
mod gangs;
mod heads;
mod limits;
mod node_report;

mod preempt;
mod queries;
mod queue_usage;
mod quota_heads;
mod reservations;
mod restart_places;
mod snapshot;
mod stages;
mod stopping;
mod trial;
mod withdrawal;
mod yielding_gangs;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::backfill::BackfillState;
use crate::explain::{WaitExplanation, WaitReason};
use crate::gang::Gang;
use crate::ids::{GangId, PodKey};
use crate::limits::{LimitLedger, PendingLimits};
use crate::placement::{PackingState, TaskHistory};
use crate::queueing::{Parking, PendingGangs, Queues, Signal};
use crate::quota::UsageDecay;
use crate::state::{Catalog, GangIdx, GangShape, KnownPods, NodeIdx, Nodes, ResourceIdx};
use crate::time::Time;
use blockage_cache::BlockageCache;
use departures::Departures;
use flavor_assignment::CachedAssignments;
use gang_table::{GangTable, PlacedGang};

pub use queue_usage::{QueueMemory, QueueUsage, QueueUsageLine, ResourceTotals};
use restart_places::RestartPlaces;
pub use snapshot::{
    ChargeSnapshot, GangSnapshot, LimitChargeSnapshot, PlaceSnapshot, PlacedStateSnapshot,
    PodRoomSnapshot, PodSnapshot, RestartPlaceSnapshot, Snapshot, StoppingGangSnapshot,
    UsageLagSnapshot,
};
use stopping::StoppingPods;
use withdrawal::CyclePlacements;

/// The scheduling engine: a state machine over plain data.
///
/// The caller reports the state of the cluster with `apply_*` and `delete_*`, in any order and any
/// number of times: applying the same object twice changes nothing. [`Engine::cycle`] returns the
/// decisions to carry out.
///
/// # Usage
///
/// Every pod counts once. The engine charges a gang as soon as it places it: its pods are
/// *assumed*. [`Engine::apply_pod`] with the same key confirms a pod: from then on its reported
/// node and request count. [`Engine::delete_pod`] frees a confirmed pod. [`Engine::release_gang`]
/// and [`Engine::delete_gang`] free the pods of a gang that are still assumed. Confirmed pods count
/// until they are gone, because a terminating pod holds its devices. A kept place
/// ([`Engine::keep_place`]) counts even after its pods are gone. The quota and limits of a deleted
/// gang ([`Engine::retire_gang`]) stay charged until its last pod is gone.
///
/// A pod that existed under the same key before the gang was placed does not confirm the gang's
/// pod. Both count until the old pod is deleted. So the caller must delete a replaced pod before it
/// applies the new pod of the same name.
#[derive(Debug)]
pub struct Engine {
    catalog: Catalog,
    nodes: Nodes,
    pods: KnownPods,
    queues: Queues,
    limits: LimitLedger,
    pending_limits: PendingLimits,
    gangs: GangTable,
    by_id: BTreeMap<GangId, GangIdx>,
    /// Placed groups by `namespace/pod_prefix`, to find the gang of a pod.
    pod_prefixes: HashMap<String, SmallVec<[(GangIdx, usize); 1]>>,
    pending: PendingGangs,
    parking: Parking,
    blockages: BlockageCache,
    packing: PackingState,
    backfill: BackfillState,
    placed_count: usize,
    /// Gangs that start once their victims have left.
    nominated: BTreeSet<GangIdx>,
    departures: Departures,
    stopping: StoppingPods,
    restart_places: RestartPlaces,
    /// Empty between cycles.
    cycle_placements: CyclePlacements,
    /// The latest time that a caller passed to the engine.
    now: Time,
    /// The version of queues and flavors. The engine recomputes results from another version.
    config_version: u64,
    /// True if node capacity has changed since shares were last measured.
    capacity_changed: bool,
}

impl Default for Engine {
    fn default() -> Self {
        Self::with_decay(UsageDecay::default())
    }
}

/// A gang and its stage.
#[derive(Debug)]
struct GangState {
    gang: Arc<Gang>,
    shape: Arc<GangShape>,
    /// None: not computed yet.
    assignments: Option<CachedAssignments>,
    /// The back-off of the last release.
    not_before: Option<Time>,
    /// True if another gang preempted it, or the engine evicted it because its queue was drained.
    preempted: bool,
    /// True if it has lost its place and is not tried before the caller applies it again.
    awaits_apply: bool,
    /// The reason that a cycle last reported.
    reported_reason: Option<WaitReason>,
    stage: GangStage,
}

#[derive(Debug)]
enum GangStage {
    /// Pending, with the explanation of the last try.
    Pending(Option<WaitExplanation>),
    Placed(Box<PlacedGang>),
    /// The gang is deleted, but this many of its pods are still stopping. They should be gone at
    /// `by`.
    Stopping {
        pods: u32,
        by: Time,
    },
}

impl Engine {
    /// Creates an engine without any cluster state.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an engine with a half-life of usage other than 7 days.
    #[must_use]
    pub fn with_decay(decay: UsageDecay) -> Self {
        let catalog = Catalog::default();
        Self {
            queues: Queues::new(&catalog, decay),
            catalog,
            nodes: Nodes::default(),
            limits: LimitLedger::default(),
            pending_limits: PendingLimits::default(),
            pods: KnownPods::default(),
            gangs: GangTable::default(),
            by_id: BTreeMap::new(),
            pod_prefixes: HashMap::new(),
            pending: PendingGangs::default(),
            parking: Parking::default(),
            blockages: BlockageCache::default(),
            packing: PackingState::default(),
            backfill: BackfillState::default(),
            placed_count: 0,
            nominated: BTreeSet::new(),
            departures: Departures::default(),
            stopping: StoppingPods::default(),
            restart_places: RestartPlaces::default(),
            cycle_placements: CyclePlacements::default(),
            now: Time::default(),
            config_version: 0,
            capacity_changed: false,
        }
    }

    /// Returns the history that packing has learned from: every applied gang, except surplus.
    /// Packing keeps nodes useful for similar gangs.
    #[must_use]
    pub fn history(&self) -> TaskHistory {
        self.packing.export(&self.catalog)
    }

    /// Replaces the learned history by that of another engine. With the same cluster and gangs,
    /// both engines then make the same decisions.
    pub fn restore_history(&mut self, history: &TaskHistory) {
        self.packing.restore(&mut self.catalog, history);
        self.blockages.clear();
        self.backfill.mark_stale();
    }

    fn state(&self, at: GangIdx) -> Option<&GangState> {
        self.gangs.get(at.at())
    }

    fn state_mut(&mut self, at: GangIdx) -> Option<&mut GangState> {
        self.gangs.get_mut(at.at())
    }

    fn placed_mut(&mut self, at: GangIdx) -> Option<&mut PlacedGang> {
        match &mut self.state_mut(at)?.stage {
            GangStage::Placed(placed) => Some(placed),
            GangStage::Pending(_) | GangStage::Stopping { .. } => None,
        }
    }

    /// Charges pods to a node, and wakes the gangs that wait for it.
    fn charge_node(&mut self, node: NodeIdx, demand: &[(ResourceIdx, i64)], pods: u32, held: bool) {
        self.nodes.enable_shares(&self.catalog);
        self.nodes.charge(node, demand, i64::from(pods), held);
        self.raise_for_pods(demand, pods, Signal::Taken);
    }

    /// Releases the charge of pods, and wakes the gangs that wait for it.
    fn release_node(
        &mut self,
        node: NodeIdx,
        demand: &[(ResourceIdx, i64)],
        pods: u32,
        held: bool,
    ) {
        let times = i64::from(pods).saturating_neg();
        self.nodes.charge(node, demand, times, held);
        self.raise_for_pods(demand, pods, Signal::Freed);
    }

    fn raise_for_pods(
        &mut self,
        demand: &[(ResourceIdx, i64)],
        pods: u32,
        signal: impl Fn(ResourceIdx) -> Signal,
    ) {
        self.blockages.clear();
        self.backfill.mark_stale();
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
            if let Some((along, amount)) = self.nodes.coupled_resource(resource, amount) {
                self.parking.raise(&signal(along), amount);
            }
        }
    }

    /// Returns the gang, group and index of a pod of a placed gang. If several gangs claim the
    /// name, prefers one in which the pod is still assumed.
    fn pod_owner(&self, pod: &PodKey) -> Option<(GangIdx, usize, u32)> {
        let (family, digits) = pod.as_str().rsplit_once('-')?;
        let canonical = digits == "0" || !digits.starts_with(['0', '+']);
        let number: u32 = digits.parse().ok().filter(|_| canonical)?;
        let claims = self.pod_prefixes.get(family)?;
        // The owner, and if the pod is assumed.
        let claim = |(gang, group): &(GangIdx, usize)| {
            let GangStage::Placed(placed) = &self.state(*gang)?.stage else {
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

    fn placed_group(&self, gang: GangIdx, group: usize) -> Option<&gang_table::PlacedGroup> {
        match &self.state(gang)?.stage {
            GangStage::Placed(placed) => placed.groups.get(group),
            GangStage::Pending(_) | GangStage::Stopping { .. } => None,
        }
    }
}
