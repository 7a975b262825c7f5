//! Changes of the cluster: nodes, topologies, pods, queues and flavors.

use super::Engine;
use crate::ids::{FlavorName, NodeName, PodKey, QueueName, TopologyName};
use crate::node::Node;
use crate::queue::{Flavor, Queue};
use crate::queueing::Signal;
use crate::resources::Resources;
use crate::state::{DemandIdx, GangIdx, NodeIdx, Pod};
use crate::topology::Topology;

impl Engine {
    /// Adds or replaces a node. It may have shrunk below its usage: then its free amounts are
    /// negative, and no pod is placed there.
    pub fn apply_node(&mut self, node: Node) {
        if self.nodes.apply(node, &mut self.catalog) {
            self.nodes_changed();
        }
    }

    /// Removes a node. Pods on it are remembered until they are deleted, and count again if the
    /// node comes back.
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

    /// Removes a topology. A gang that asks for one of its levels waits, unless another topology
    /// has that level. Placed gangs stay.
    pub fn delete_topology(&mut self, topology: &TopologyName) {
        if self.nodes.delete_topology(topology) {
            self.topologies_changed();
        }
    }

    fn topologies_changed(&mut self) {
        self.refusals.clear();
        self.parking.raise(&Signal::Topologies, 1);
    }

    fn nodes_changed(&mut self) {
        self.refusals.clear();
        self.backfill.disturb();
        self.capacity_changed = true;
        self.parking.raise(&Signal::Nodes, 1);
    }

    /// Adds or replaces a pod that is bound to a node, of a gang or of any other owner, including
    /// terminating pods. It counts until it is deleted. `request` is what the pod uses of the node;
    /// 1 of `pods` is added.
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
        let held = match seen {
            Some(seen) => {
                self.pods.remove(&pod);
                self.take_pod(at, demand, seen.held);
                self.give_pod(seen);
                if seen.held {
                    self.look_for(&pod, Some((at, demand)));
                }
                seen.held
            }
            None if self.late_pod_takes_over(&pod, at, demand) => false,
            None => self.confirm(&pod, at, demand),
        };
        self.pods.insert(
            pod,
            Pod {
                node: at,
                demand,
                held,
            },
        );
    }

    /// Charges a pod that was not seen before. It replaces the assumed pod if it belongs to a
    /// placed gang. Returns true if it does.
    fn confirm(&mut self, pod: &PodKey, at: NodeIdx, demand: DemandIdx) -> bool {
        let owner = self.owner(pod);
        let held = owner.is_some();
        match owner.and_then(|owner| self.settle(owner)) {
            // The pod is as planned: nothing changes.
            Some(plan) if plan == (at, demand) => {}
            Some((planned_at, planned)) => {
                if let Some(owner) = owner {
                    self.set_there(owner, Some((at, demand)));
                }
                self.take_pod(at, demand, held);
                let planned = self.catalog.demand(planned);
                self.give(planned_at, &planned, 1, true);
            }
            None => {
                if let Some(owner) = owner {
                    self.set_there(owner, Some((at, demand)));
                }
                self.take_pod(at, demand, held);
            }
        }
        held
    }

    /// Records if a pod of a placed gang holds what was planned for it.
    fn look_for(&mut self, pod: &PodKey, seen: Option<(NodeIdx, DemandIdx)>) {
        if let Some(owner) = self.owner(pod) {
            self.set_there(owner, seen);
        }
    }

    /// Records this for the pod with this group and index.
    pub(super) fn set_there(
        &mut self,
        (gang, group, index): (GangIdx, usize, u32),
        seen: Option<(NodeIdx, DemandIdx)>,
    ) {
        let Some(placed) = self.placed_mut(gang) else {
            return;
        };
        let demand = placed.shape.groups.get(group).map(|g| g.demand_idx);
        if let Some(group) = placed.groups.get_mut(group) {
            let planned = group.node(index).zip(demand);
            group.set_there(index, planned.is_some() && planned == seen);
        }
    }

    /// Ends the assumption of a planned pod. Returns its planned node and demand if it was assumed.
    pub(super) fn settle(
        &mut self,
        (gang, group, index): (GangIdx, usize, u32),
    ) -> Option<(NodeIdx, DemandIdx)> {
        let placed = self.placed_mut(gang)?;
        let demand = placed.shape.groups.get(group)?.demand_idx;
        let group = placed.groups.get_mut(group)?;
        let node = group.node(index)?;
        group.settle(index).then_some((node, demand))
    }

    fn take_pod(&mut self, at: NodeIdx, demand: DemandIdx, held: bool) {
        let demand = self.catalog.demand(demand);
        self.take(at, &demand, 1, held);
    }

    fn give_pod(&mut self, pod: Pod) {
        let demand = self.catalog.demand(pod.demand);
        self.give(pod.node, &demand, 1, pod.held);
        self.catalog.release_demand(pod.demand);
        self.nodes.unhold(pod.node);
    }

    /// Removes a pod that is gone or has failed. The room of a placed gang's pod stays reserved as
    /// long as the gang is placed, because the caller decides if the gang restarts or only the pod.
    /// If the pod does not come back, call [`Engine::drop_assumed`].
    pub fn lose_pod(&mut self, pod: &PodKey) {
        let Some(seen) = self.pods.remove(pod) else {
            return;
        };
        self.pod_stays(pod);
        if self.hold_takes_over(pod, seen) {
            return;
        }
        if seen.held {
            self.assume(pod);
        }
        self.give_pod(seen);
    }

    /// Assumes the pod of a placed gang again, on its planned node.
    fn assume(&mut self, pod: &PodKey) {
        let Some((gang, number, index)) = self.owner(pod) else {
            return;
        };
        let Some(placed) = self.placed_mut(gang) else {
            return;
        };
        if placed.standing.is_leaving() {
            // The pods of a leaving gang do not come back.
            self.set_there((gang, number, index), None);
            return;
        }
        let demand = placed.shape.groups.get(number).map(|g| g.demand_idx);
        let group = placed.groups.get_mut(number);
        let (Some(demand), Some(group)) = (demand, group) else {
            return;
        };
        if let Some(node) = group.assume(index) {
            self.take_pod(node, demand, true);
        }
    }

    /// Removes a pod that is gone or has ended and holds nothing any more.
    pub fn delete_pod(&mut self, pod: &PodKey) {
        if let Some(seen) = self.pods.remove(pod) {
            self.pod_stays(pod);
            if self.hold_takes_over(pod, seen) {
                return;
            }
            if seen.held {
                self.look_for(pod, None);
            }
            self.give_pod(seen);
        }
    }

    /// The planned pod will never be seen (again) and holds nothing, because it ended before this
    /// engine saw it. Useful after [`Engine::restore_gang`]. Does nothing if the pod has been seen
    /// or is not planned.
    pub fn drop_assumed(&mut self, pod: &PodKey) {
        if let Some(owner) = self.owner(pod) {
            self.forgo(owner);
        }
    }

    /// Frees the room of a planned pod, if it is still assumed.
    pub(super) fn forgo(&mut self, owner: (GangIdx, usize, u32)) {
        if let Some((at, demand)) = self.settle(owner) {
            self.set_there(owner, None);
            let demand = self.catalog.demand(demand);
            self.give(at, &demand, 1, true);
        }
    }

    /// Adds or replaces a queue. Its gangs keep what they hold, even if that exceeds the quota.
    pub fn apply_queue(&mut self, queue: Queue) {
        if self.queues.apply(queue, &mut self.catalog) {
            self.queues_changed();
        }
    }

    /// Removes a queue: none of its gangs is started, and running gangs go on.
    pub fn delete_queue(&mut self, queue: &QueueName) {
        if self.queues.delete(queue) {
            self.queues_changed();
        }
    }

    /// Adds or replaces a flavor. Placed gangs keep their charges.
    pub fn apply_flavor(&mut self, flavor: Flavor) {
        if self.queues.flavors_mut().apply(flavor) {
            self.queues_changed();
        }
    }

    /// Removes a flavor: no gang is started with it, and running gangs go on.
    pub fn delete_flavor(&mut self, flavor: &FlavorName) {
        if self.queues.flavors_mut().delete(flavor) {
            self.queues_changed();
        }
    }

    fn queues_changed(&mut self) {
        self.config = self.config.saturating_add(1);
        self.backfill.disturb();
        self.parking.raise(&Signal::Queues, 1);
    }
}
