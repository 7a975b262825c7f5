//! Starts and ends keeping a place.

use std::sync::Arc;

use super::super::Engine;
use super::super::gang_table::{PlacedGroup, PlacedState};
use super::{KeptPlace, PodRoom};
use crate::ids::{GangId, NodeName, PodKey};
use crate::state::{DemandIdx, GangIdx, NodeIdx};
use crate::time::Time;

impl Engine {
    /// Keeps the place of a gang that restarts, on all its nodes except `except`: the room that its
    /// pods leave there, its quota and its limits. The engine does not try the gang before the
    /// caller applies it again, and then tries it like any other gang. The gang returns to its
    /// former nodes if it fits there. Before `until`, no other gang is placed or can preempt there.
    ///
    /// The engine gives everything back at `until`, when the gang is released, restored or deleted,
    /// or when its queue is deleted or stopped. A node that is gone or takes no pods stays kept,
    /// but the gang cannot use it.
    ///
    /// Returns false and does nothing if the gang has no place to keep: it is pending, nominated or
    /// leaving, or it is surplus, which has no claim to its place.
    pub fn keep_place(&mut self, gang: &GangId, except: &[NodeName], until: Time) -> bool {
        let Some(at) = self.gangs.find(gang) else {
            return false;
        };
        let Some(placed) = self.gangs.placed(at) else {
            return false;
        };
        if *placed.state() != PlacedState::Settled || placed.gang.surplus {
            return false;
        }
        let except: Vec<NodeIdx> = except.iter().filter_map(|n| self.nodes.find(n)).collect();
        let Some(placed) = self.take_placed(at) else {
            return false;
        };
        let gang = Arc::clone(&placed.gang);
        let grace = self
            .gangs
            .get(at)
            .map_or(gang.grace, |state| state.gang.grace);
        let mut keep = KeptPlace {
            gang: Arc::clone(&gang),
            charge: self
                .queues
                .shared_charge(&gang.queue, at)
                .unwrap_or_default(),
            choices: placed.choices.clone(),
            until,
            pods_gone_by: self.now.plus(grace),
            pods: Vec::new(),
        };
        let mut gone: Vec<PodRoom> = Vec::new();
        let groups = gang.groups.iter().zip(&placed.shape.groups);
        for (number, ((group, shape), planned)) in groups.zip(&placed.groups).enumerate() {
            for index in 0..planned.count() {
                let key = gang.pod_key(group, index);
                let there = self.current_charge(&key, (planned, index), shape.demand_idx);
                let Some((node, demand, held)) = there else {
                    let node = planned.node(index).filter(|node| !except.contains(node));
                    gone.extend(node.map(|node| PodRoom {
                        key,
                        group: number,
                        index,
                        node,
                        demand: shape.demand_idx,
                        pod_is_gone: true,
                    }));
                    continue;
                };
                if !held {
                    self.detach_pod(&key, keep.pods_gone_by);
                }
                if !except.contains(&node) {
                    keep.pods.push(PodRoom {
                        key,
                        group: number,
                        index,
                        node,
                        demand,
                        pod_is_gone: held,
                    });
                } else if held {
                    self.release_node(node, &shape.demand, 1, true);
                }
            }
        }
        // Keep the room of gone pods, unless another pod has taken it.
        for pod in gone {
            if self.has_room(pod.node, pod.demand) {
                let demand = self.catalog.demand(pod.demand);
                self.charge_node(pod.node, &demand, 1, true);
                keep.pods.push(pod);
            }
        }
        for pod in &keep.pods {
            self.nodes.add_hold(pod.node);
            self.catalog.retain_demand(pod.demand);
        }
        for (node, _) in placed.groups.iter().flat_map(PlacedGroup::runs) {
            self.nodes.release_hold(*node);
        }
        self.drop_shape(&placed.shape);
        if let Some(state) = self.gangs.get_mut(at) {
            state.awaits_apply = true;
        }
        self.insert_kept_place(at, keep);
        true
    }

    /// Returns the node and demand that are charged for a planned pod, and if the pod is only
    /// assumed. None: the pod does not exist.
    fn current_charge(
        &self,
        key: &PodKey,
        (planned, index): (&PlacedGroup, u32),
        demand: DemandIdx,
    ) -> Option<(NodeIdx, DemandIdx, bool)> {
        if planned.is_assumed(index) {
            return Some((planned.node(index)?, demand, true));
        }
        let seen = self.pods.get(key).filter(|seen| seen.in_placed_gang)?;
        Some((seen.node, seen.demand, false))
    }

    /// True if a pod fits on a node now. The engine cannot keep released parts of shared devices.
    fn has_room(&self, node: NodeIdx, demand: DemandIdx) -> bool {
        let demand = self.catalog.demand(demand);
        self.nodes.properties(node).is_some()
            && demand.iter().all(|(resource, need)| {
                self.nodes.shared_device(*resource).is_none()
                    && self.nodes.free(*resource, node) >= *need
            })
    }

    /// Keeps a place from now on. The caller must have charged everything that it holds.
    pub(in crate::engine) fn insert_kept_place(&mut self, at: GangIdx, keep: KeptPlace) {
        self.kept_places.insert(at, keep);
        self.insert_end(at);
        self.blockages.clear();
        self.reservations.mark_stale();
    }

    /// Stops keeping a gang's place.
    pub(in crate::engine) fn release_kept_place(&mut self, at: GangIdx) {
        let Some(keep) = self.kept_places.remove(at) else {
            return;
        };
        for pod in &keep.pods {
            if pod.pod_is_gone {
                let demand = self.catalog.demand(pod.demand);
                self.release_node(pod.node, &demand, 1, true);
            }
            self.release_pod_room(pod);
        }
        self.reservations
            .remove_end(at, &keep.gang.id, &keep.gang.queue);
        self.release_charge(&keep.gang.queue, at);
        // The gang has no kept place any more, so the engine tries it again.
        self.make_due(at);
    }

    pub(super) fn release_pod_room(&mut self, pod: &PodRoom) {
        self.catalog.release_demand(pod.demand);
        self.nodes.release_hold(pod.node);
        self.blockages.clear();
    }

    /// Stops keeping places whose time is over or whose queue starts no gangs.
    pub(in crate::engine) fn expire_kept_places(&mut self) {
        let now = self.now;
        let over = self.kept_places.iter().filter(|(_, keep)| {
            keep.until <= now || self.queues.check_open(&keep.gang.queue).is_err()
        });
        let over: Vec<GangIdx> = over.map(|(at, _)| at).collect();
        for at in over {
            let stops = self.deleted_gang(at);
            self.release_kept_place(at);
            if let Some(stops) = stops {
                self.add_stopping(stops);
            }
        }
    }
}
