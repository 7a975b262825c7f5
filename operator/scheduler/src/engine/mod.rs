//! The engine: the live state, and the operations that change it.
//!
//! Each part of the state owns its fields and has tests of its own. `gang_table` has the gangs with
//! their stages, and `pod_table` the pods. `scheduling_queue` has the pending gangs and the signals
//! that they wait for, and `blockage_cache` recent refusals. `kept_places` has the places that
//! are kept for restarting gangs, and `crate::backfill` the reservations.
//!
//! The other files change several parts together. `cycle` is the scheduling cycle from top to
//! bottom: `admission` decides if a gang may start, `preempt` finds victims, and `reservations` the
//! gangs with reserved room. `provisioning` finds new nodes for gangs that lack room. `changes`
//! applies the changes that the caller reports, and `reports` answers its queries. `stages`,
//! `charges` and `node_usage` are the steps that these share.

mod admission;
mod blockage_cache;
mod changes;
mod charges;
mod cycle;
mod flavor_assignment;
mod gang_table;
mod gang_transitions;
mod kept_places;
mod node_usage;
mod pod_table;
mod preempt;
mod provisioning;
mod reports;
mod reservations;
mod scheduling_queue;
mod snapshot;

use std::collections::BTreeSet;

use crate::backfill::ReservationTable;
use crate::limits::LimitLedger;
use crate::placement::{PackingRule, PackingState, TaskHistory};
use crate::queueing::Queues;
use crate::quota::UsageDecay;
use crate::state::{Catalog, GangIdx, Nodes};
use crate::time::Time;
use blockage_cache::BlockageCache;
use cycle::CyclePlacements;
use gang_table::GangTable;
use kept_places::KeptPlaces;
use pod_table::PodTable;
use provisioning::ProvisioningBackOffs;
pub use reports::{DomainTotals, QueueMemory, QueueUsage, QueueUsageLine, ResourceTotals};
use scheduling_queue::SchedulingQueue;
pub use snapshot::{
    BackOffSnapshot, ChargeSnapshot, GangSnapshot, KeptPlaceSnapshot, LimitChargeSnapshot,
    PlaceSnapshot, PlacedStateSnapshot, PodRoomSnapshot, PodSnapshot, ProvisioningSnapshot,
    Snapshot, StoppingGangSnapshot, UsageLagSnapshot,
};

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
    pods: PodTable,
    queues: Queues,
    limits: LimitLedger,
    gangs: GangTable,
    scheduling_queue: SchedulingQueue,
    blockages: BlockageCache,
    packing: PackingState,
    reservations: ReservationTable,
    kept_places: KeptPlaces,
    /// The gangs for which nodes are provisioned.
    provisioning: BTreeSet<GangIdx>,
    /// Flavors whose nodes did not come in time.
    back_offs: ProvisioningBackOffs,
    /// True if the explanation of a blocked gang names the smallest change that would let it start.
    finds_changes: bool,
    /// Empty between cycles.
    cycle_placements: CyclePlacements,
    /// The latest time that a caller passed to the engine.
    now: Time,
}

impl Default for Engine {
    fn default() -> Self {
        Self::with_decay(UsageDecay::default())
    }
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
            pods: PodTable::default(),
            gangs: GangTable::default(),
            scheduling_queue: SchedulingQueue::default(),
            blockages: BlockageCache::default(),
            packing: PackingState::default(),
            reservations: ReservationTable::default(),
            kept_places: KeptPlaces::default(),
            provisioning: BTreeSet::new(),
            back_offs: ProvisioningBackOffs::default(),
            finds_changes: true,
            cycle_placements: CyclePlacements::default(),
            now: Time::default(),
        }
    }

    /// Returns the engine without the search for changes that would let blocked gangs start. The search
    /// is a large part of a cycle, and changes no other decision.
    pub(crate) fn without_change_search(mut self) -> Self {
        self.finds_changes = false;
        self
    }

    /// Sets the rule by which packing orders nodes. The caller sets it before the first cycle.
    pub fn set_packing_rule(&mut self, rule: PackingRule) {
        self.packing.set_rule(rule);
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
        self.reservations.mark_stale();
    }
}
