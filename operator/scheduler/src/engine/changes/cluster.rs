//! Changes of the cluster: nodes, topologies, pods, queues and flavors.

use super::super::Engine;
use crate::ids::{FlavorName, NodeName, PodKey, QueueName, TopologyName};
use crate::node::Node;
use crate::queue::{Flavor, Queue};
use crate::queueing::Signal;
use crate::resources::Resources;
use crate::state::{DemandIdx, GangIdx, KnownPod, NodeIdx};
use crate::topology::Topology;

impl Engine {
    /// Adds or replaces a node. If the node shrank below its usage, its free amounts are negative,
    /// and the engine places no pod there.
    pub fn apply_node(&mut self, node: Node) {
        if self.nodes.apply(node, self.now, &mut self.catalog) {
            self.nodes_changed();
        }
    }

    /// Removes a node. The engine keeps its pods until they are deleted, and counts them again if
    /// the node comes back.
    pub fn delete_node(&mut self, node: &NodeName) {
        if self.nodes.delete(node) {
            self.nodes_changed();
        }
    }

    /// Adds or replaces a topology. Placed gangs stay where they are.
    pub fn apply_topology(&mut self, topology: Topology) {
        if self.nodes.apply_topology(topology) {
            self.topologies_changed();
        }
    }

    /// Removes a topology. A gang that requests one of its levels waits, unless another topology
    /// has that level. Placed gangs stay.
    pub fn delete_topology(&mut self, topology: &TopologyName) {
        if self.nodes.delete_topology(topology) {
            self.topologies_changed();
        }
    }

    fn topologies_changed(&mut self) {
        self.blockages.clear();
        self.scheduling_queue.raise(&Signal::Topologies, 1);
    }

    fn nodes_changed(&mut self) {
        self.blockages.clear();
        self.reservations.mark_stale();
        self.scheduling_queue.raise(&Signal::Nodes, 1);
    }

    /// Adds or replaces a pod that is bound to a node. The pod may belong to a gang or to any other
    /// owner, and may be terminating. It counts until it is deleted. `request` is its usage of the
    /// node; the engine adds 1 of `pods`.
    pub fn apply_pod(&mut self, pod: PodKey, node: NodeName, request: Resources) {
        let demand = self.catalog.acquire_demand(&request);
        let seen = self.pods.get(&pod).copied();
        if let Some(seen) = seen
            && seen.demand == demand
            && self.nodes.find(&node) == Some(seen.node)
        {
            self.catalog.release_demand(demand);
            return;
        }
        let at = self.nodes.hold(&node);
        let mut leaves = None;
        let held = match seen {
            Some(seen) => {
                self.charge_pod(at, demand, seen.in_placed_gang);
                self.release_pod(seen);
                if seen.in_placed_gang {
                    self.record_pod(&pod, Some((at, demand)));
                }
                seen.in_placed_gang
            }
            None => {
                leaves = self.confirm_late_pod(&pod, at, demand);
                leaves.is_none() && self.confirm_pod(&pod, at, demand)
            }
        };
        let leaving = leaves.map(|by| (pod.clone(), by));
        self.pods.insert(
            pod,
            KnownPod {
                node: at,
                demand,
                in_placed_gang: held,
            },
        );
        if let Some((pod, by)) = leaving {
            self.pods.mark_leaving(&pod, by);
        }
    }

    /// Charges a new pod. If it belongs to a placed gang, it replaces the assumed pod. Returns true
    /// if it belongs to one.
    fn confirm_pod(&mut self, pod: &PodKey, at: NodeIdx, demand: DemandIdx) -> bool {
        let owner = self.gangs.pod_owner(pod);
        let held = owner.is_some();
        match owner.and_then(|owner| self.confirm_assumed(owner)) {
            // The pod is on its planned node with its planned demand: nothing changes.
            Some(plan) if plan == (at, demand) => {}
            Some((planned_at, planned)) => {
                if let Some(owner) = owner {
                    self.set_pod_in_place(owner, Some((at, demand)));
                }
                self.charge_pod(at, demand, held);
                let planned = self.catalog.demand(planned);
                self.release_node(planned_at, &planned, 1, true);
            }
            None => {
                if let Some(owner) = owner {
                    self.set_pod_in_place(owner, Some((at, demand)));
                }
                self.charge_pod(at, demand, held);
            }
        }
        held
    }

    /// Records if a pod of a placed gang has its planned node and demand.
    fn record_pod(&mut self, pod: &PodKey, seen: Option<(NodeIdx, DemandIdx)>) {
        if let Some(owner) = self.gangs.pod_owner(pod) {
            self.set_pod_in_place(owner, seen);
        }
    }

    /// Does the same for a pod given by gang, group and index.
    pub(in crate::engine) fn set_pod_in_place(
        &mut self,
        (gang, group, index): (GangIdx, usize, u32),
        seen: Option<(NodeIdx, DemandIdx)>,
    ) {
        let Some(placed) = self.gangs.placed_mut(gang) else {
            return;
        };
        let demand = placed.shape.groups.get(group).map(|g| g.demand_idx);
        if let Some(group) = placed.groups.get_mut(group) {
            let planned = group.node(index).zip(demand);
            group.set_in_place(index, planned.is_some() && planned == seen);
        }
    }

    /// Ends the assumption of a planned pod. Returns its planned node and demand if it was assumed.
    pub(in crate::engine) fn confirm_assumed(
        &mut self,
        (gang, group, index): (GangIdx, usize, u32),
    ) -> Option<(NodeIdx, DemandIdx)> {
        let placed = self.gangs.placed_mut(gang)?;
        let demand = placed.shape.groups.get(group)?.demand_idx;
        let group = placed.groups.get_mut(group)?;
        let node = group.node(index)?;
        group.confirm(index).then_some((node, demand))
    }

    fn charge_pod(&mut self, at: NodeIdx, demand: DemandIdx, held: bool) {
        let demand = self.catalog.demand(demand);
        self.charge_node(at, &demand, 1, held);
    }

    fn release_pod(&mut self, pod: KnownPod) {
        let demand = self.catalog.demand(pod.demand);
        self.release_node(pod.node, &demand, 1, pod.in_placed_gang);
        self.catalog.release_demand(pod.demand);
        self.nodes.release_hold(pod.node);
    }

    /// Removes a pod from the known pods. The caller releases its charge.
    fn take_pod(&mut self, pod: &PodKey) -> Option<KnownPod> {
        let (seen, stopping) = self.pods.remove(pod)?;
        if let Some(gang) = stopping {
            self.count_stopped_pod(gang);
        }
        Some(seen)
    }

    /// Removes a pod that is gone or has failed. The room of a placed gang's pod stays reserved
    /// while the gang is placed: the caller decides if the whole gang or only the pod restarts. If
    /// the pod does not come back, call [`Engine::drop_assumed`].
    pub fn lose_pod(&mut self, pod: &PodKey) {
        let Some(seen) = self.take_pod(pod) else {
            return;
        };
        if self.hold_room_of_gone_pod(pod, seen) {
            return;
        }
        if seen.in_placed_gang {
            self.assume_pod(pod);
        }
        self.release_pod(seen);
    }

    /// Assumes the pod of a placed gang again, on its planned node.
    fn assume_pod(&mut self, pod: &PodKey) {
        let Some((gang, number, index)) = self.gangs.pod_owner(pod) else {
            return;
        };
        let Some(placed) = self.gangs.placed_mut(gang) else {
            return;
        };
        if placed.state().is_leaving() {
            // The pods of a leaving gang do not come back.
            self.set_pod_in_place((gang, number, index), None);
            return;
        }
        let demand = placed.shape.groups.get(number).map(|g| g.demand_idx);
        let group = placed.groups.get_mut(number);
        let (Some(demand), Some(group)) = (demand, group) else {
            return;
        };
        if let Some(node) = group.assume(index) {
            self.charge_pod(node, demand, true);
        }
    }

    /// Removes a pod that no longer exists or has ended.
    pub fn delete_pod(&mut self, pod: &PodKey) {
        if let Some(seen) = self.take_pod(pod) {
            if self.hold_room_of_gone_pod(pod, seen) {
                return;
            }
            if seen.in_placed_gang {
                self.record_pod(pod, None);
            }
            self.release_pod(seen);
        }
    }

    /// Frees the room of a planned pod that will not appear (again), for example because it ended
    /// before this engine saw it. The caller needs it after [`Engine::restore_gang`]. Does nothing
    /// if the engine has seen the pod or the pod is not planned.
    pub fn drop_assumed(&mut self, pod: &PodKey) {
        if let Some(owner) = self.gangs.pod_owner(pod) {
            self.free_assumed(owner);
        }
    }

    /// Frees the room of a planned pod, if it is still assumed.
    pub(in crate::engine) fn free_assumed(&mut self, owner: (GangIdx, usize, u32)) {
        if let Some((at, demand)) = self.confirm_assumed(owner) {
            self.set_pod_in_place(owner, None);
            let demand = self.catalog.demand(demand);
            self.release_node(at, &demand, 1, true);
        }
    }

    /// Adds or replaces a queue. Its placed gangs stay, even above the new quota.
    pub fn apply_queue(&mut self, queue: Queue) {
        if self.queues.apply(queue, &mut self.catalog) {
            self.queues_changed();
        }
    }

    /// Removes a queue. Its pending gangs do not start; its placed gangs stay.
    pub fn delete_queue(&mut self, queue: &QueueName) {
        if self.queues.delete(queue) {
            self.queues_changed();
        }
    }

    /// Adds or replaces a flavor. Placed gangs keep their charges.
    pub fn apply_flavor(&mut self, flavor: Flavor) {
        if self.queues.apply_flavor(flavor) {
            self.queues_changed();
        }
    }

    /// Removes a flavor. No gang starts with it; placed gangs stay.
    pub fn delete_flavor(&mut self, flavor: &FlavorName) {
        if self.queues.delete_flavor(flavor) {
            self.queues_changed();
        }
    }

    fn queues_changed(&mut self) {
        self.reservations.mark_stale();
        self.scheduling_queue.raise(&Signal::Queues, 1);
    }
}
