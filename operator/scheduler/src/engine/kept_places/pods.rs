//! Pods of gangs with a kept place. Each pod counts once: either the pod itself or its hold, the
//! room that is kept for it.

use super::super::Engine;
use crate::ids::PodKey;
use crate::state::{DemandIdx, KnownPod, NodeIdx};
use crate::time::Time;

impl Engine {
    /// Handles a new pod. If the pod is on its kept node, it replaces its hold. Such a pod is
    /// leaving; returns when it should be gone.
    pub(in crate::engine) fn confirm_late_pod(
        &mut self,
        pod: &PodKey,
        at: NodeIdx,
        demand: DemandIdx,
    ) -> Option<Time> {
        let (gang, kept) = self.kept_places.pod_mut(pod)?;
        if !kept.pod_is_gone || kept.node != at {
            return None;
        }
        let before = std::mem::replace(&mut kept.demand, demand);
        kept.pod_is_gone = false;
        self.catalog.retain_demand(demand);
        let by = self.kept_places.get(gang)?.pods_gone_by;
        let holds = self.catalog.demand(before);
        if before == demand {
            self.nodes.mark_placed(at, &holds, -1);
            self.blockages.clear();
            self.reservations.mark_stale();
        } else {
            self.release_node(at, &holds, 1, true);
            let holds = self.catalog.demand(demand);
            self.charge_node(at, &holds, 1, false);
        }
        self.catalog.release_demand(before);
        Some(by)
    }

    /// Handles a pod that is gone. Returns true if its hold takes over the room.
    pub(in crate::engine) fn hold_room_of_gone_pod(
        &mut self,
        pod: &PodKey,
        seen: KnownPod,
    ) -> bool {
        let Some((_, kept)) = self.kept_places.pod_mut(pod) else {
            return false;
        };
        if kept.pod_is_gone || kept.node != seen.node {
            return false;
        }
        let before = std::mem::replace(&mut kept.demand, seen.demand);
        kept.pod_is_gone = true;
        // The hold takes over the pod's demand and node, and releases its own former demand.
        self.catalog.release_demand(before);
        let holds = self.catalog.demand(seen.demand);
        self.nodes.mark_placed(seen.node, &holds, 1);
        self.nodes.release_hold(seen.node);
        self.blockages.clear();
        self.reservations.mark_stale();
        true
    }
}
