//! Starts and ends the keeping of a place.

use std::sync::Arc;

use super::super::placed::{PlacedGroup, Standing};
use super::super::{Engine, Stage};
use super::{Keep, KeptPod};
use crate::ids::{GangId, NodeName, PodKey};
use crate::state::{DemandIdx, GangIdx, NodeIdx};
use crate::time::Time;

impl Engine {
    /// Keeps the place of a gang that restarts, on all its nodes except `except`: the room that its
    /// pods leave there, its quota and its limits. The gang is not tried before it is applied
    /// again, and then like any other gang; it returns to its former nodes if it fits there. No
    /// other gang is placed there before `until`, and none can preempt there, even if the gang
    /// finds another place.
    ///
    /// Everything is given back at `until`; when the gang is released, restored or deleted; and
    /// when its queue is deleted or stopped. A node that is gone or takes no pods stays kept, but
    /// is of no use.
    ///
    /// Returns false and does nothing if the gang has no place to keep: it is pending, nominated or
    /// leaving, or it is surplus, which has no claim to its place.
    pub fn keep_gang(&mut self, gang: &GangId, except: &[NodeName], until: Time) -> bool {
        let Some(&at) = self.ids.get(gang) else {
            return false;
        };
        let Some(Stage::Placed(placed)) = self.state(at).map(|state| &state.stage) else {
            return false;
        };
        if placed.standing != Standing::Settled || placed.gang.surplus {
            return false;
        }
        let except: Vec<NodeIdx> = except.iter().filter_map(|n| self.nodes.find(n)).collect();
        let Some(placed) = self.take_out(at) else {
            return false;
        };
        let gang = Arc::clone(&placed.gang);
        self.leave_families(at, &gang);
        let grace = self.state(at).map_or(gang.grace, |state| state.gang.grace);
        let mut keep = Keep {
            gang: Arc::clone(&gang),
            charge: self.queues.charge_of(&gang.queue, at).unwrap_or_default(),
            choices: placed.choices.clone(),
            until,
            by: self.now.plus(grace),
            pods: Vec::new(),
        };
        let mut gone: Vec<KeptPod> = Vec::new();
        let groups = gang.groups.iter().zip(&placed.shape.groups);
        for (number, ((group, shape), planned)) in groups.zip(&placed.groups).enumerate() {
            for index in 0..planned.count() {
                let key = gang.pod_key(group, index);
                let there = self.there(&key, (planned, index), shape.demand_idx);
                let Some((node, demand, held)) = there else {
                    let node = planned.node(index).filter(|node| !except.contains(node));
                    gone.extend(node.map(|node| KeptPod {
                        key,
                        group: number,
                        index,
                        node,
                        demand: shape.demand_idx,
                        held: true,
                    }));
                    continue;
                };
                if !held {
                    self.disown(key.clone(), keep.by);
                }
                if !except.contains(&node) {
                    keep.pods.push(KeptPod {
                        key,
                        group: number,
                        index,
                        node,
                        demand,
                        held,
                    });
                } else if held {
                    self.give(node, &shape.demand, 1, true);
                }
            }
        }
        // The room of pods that are gone is kept as far as no other pod has taken it.
        for pod in gone {
            if self.has_room(pod.node, pod.demand) {
                let demand = self.catalog.demand(pod.demand);
                self.take(pod.node, &demand, 1, true);
                keep.pods.push(pod);
            }
        }
        for pod in &keep.pods {
            self.nodes.hold_again(pod.node);
            self.catalog.retain_demand(pod.demand);
        }
        for (node, _) in placed.groups.iter().flat_map(PlacedGroup::runs) {
            self.nodes.unhold(*node);
        }
        self.drop_shape(&placed.shape);
        if let Some(state) = self.state_mut(at) {
            state.idle = true;
        }
        self.put_keep(at, keep);
        true
    }

    /// The node and demand that are charged for a planned pod, and if it is only assumed. None: the
    /// pod does not exist.
    fn there(
        &self,
        key: &PodKey,
        (planned, index): (&PlacedGroup, u32),
        demand: DemandIdx,
    ) -> Option<(NodeIdx, DemandIdx, bool)> {
        if planned.is_assumed(index) {
            return Some((planned.node(index)?, demand, true));
        }
        let seen = self.pods.get(key).filter(|seen| seen.held)?;
        Some((seen.node, seen.demand, false))
    }

    /// True if a pod fits on a node now. Parts of shared devices that have been released cannot be
    /// kept.
    fn has_room(&self, node: NodeIdx, demand: DemandIdx) -> bool {
        let demand = self.catalog.demand(demand);
        self.nodes.facts(node).is_some()
            && demand.iter().all(|(resource, need)| {
                self.nodes.shared_device(*resource).is_none()
                    && self.nodes.free(*resource, node) >= *need
            })
    }

    /// Keeps a place from now on. All that it holds must be charged.
    pub(in crate::engine) fn put_keep(&mut self, at: GangIdx, keep: Keep) {
        self.keeps.insert(at, keep);
        self.starts_to_end(at);
        self.refusals.clear();
        self.backfill.disturb();
    }

    /// Ends the keeping of a gang's place.
    pub(in crate::engine) fn give_keep_back(&mut self, at: GangIdx) {
        let Some(keep) = self.keeps.remove(at) else {
            return;
        };
        for pod in &keep.pods {
            if pod.held {
                let demand = self.catalog.demand(pod.demand);
                self.give(pod.node, &demand, 1, true);
            }
            self.forget_kept(pod);
        }
        self.has_ended(at, &keep.gang.id, &keep.gang.queue);
        self.give_quota_back(&keep.gang.queue, at);
        // The gang has no privilege any more, so it is tried again.
        self.look_again_at(at);
    }

    pub(super) fn forget_kept(&mut self, pod: &KeptPod) {
        self.catalog.release_demand(pod.demand);
        self.nodes.unhold(pod.node);
        self.refusals.clear();
    }

    /// Ends the keeping of places whose time is over or whose queue starts no gangs.
    pub(in crate::engine) fn settle_keeps(&mut self) {
        let now = self.now;
        let over = self
            .keeps
            .iter()
            .filter(|(_, keep)| keep.until <= now || self.queues.open(&keep.gang.queue).is_err());
        let over: Vec<GangIdx> = over.map(|(at, _)| at).collect();
        for at in over {
            let stops = self.held_with_pods(at);
            self.give_keep_back(at);
            if let Some(stops) = stops {
                self.stops(stops);
            }
        }
    }
}
