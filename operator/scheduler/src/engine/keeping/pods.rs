//! Pods of gangs whose place is kept: nothing counts twice, and no room is lost between a pod and
//! its hold.

use super::super::Engine;
use crate::ids::PodKey;
use crate::state::{DemandIdx, NodeIdx, Pod};

impl Engine {
    /// Handles a pod that is seen for the first time. Returns true if it takes over from its hold:
    /// it is on that node and leaving.
    pub(in crate::engine) fn late_pod_takes_over(
        &mut self,
        pod: &PodKey,
        at: NodeIdx,
        demand: DemandIdx,
    ) -> bool {
        let Some((gang, kept)) = self.keeps.pod_mut(pod) else {
            return false;
        };
        if !kept.held || kept.node != at {
            return false;
        }
        let before = std::mem::replace(&mut kept.demand, demand);
        kept.held = false;
        self.catalog.retain_demand(demand);
        let by = self.keeps.get(gang).map(|keep| keep.by);
        let holds = self.catalog.demand(before);
        if before == demand {
            self.nodes.set_held(at, &holds, -1);
            self.refusals.clear();
            self.backfill.disturb();
        } else {
            self.give(at, &holds, 1, true);
            let holds = self.catalog.demand(demand);
            self.take(at, &holds, 1, false);
        }
        self.catalog.release_demand(before);
        if let Some(by) = by {
            self.departures.pod_leaves(pod.clone(), by);
        }
        true
    }

    /// Handles a pod that is gone. Returns true if its hold takes over its room.
    pub(in crate::engine) fn hold_takes_over(&mut self, pod: &PodKey, seen: Pod) -> bool {
        let Some((_, kept)) = self.keeps.pod_mut(pod) else {
            return false;
        };
        if kept.held || kept.node != seen.node {
            return false;
        }
        let before = std::mem::replace(&mut kept.demand, seen.demand);
        kept.held = true;
        // The hold takes over the pod's demand and node; its own former demand is released.
        self.catalog.release_demand(before);
        let holds = self.catalog.demand(seen.demand);
        self.nodes.set_held(seen.node, &holds, 1);
        self.nodes.unhold(seen.node);
        self.refusals.clear();
        self.backfill.disturb();
        true
    }
}
