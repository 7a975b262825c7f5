//! What the cluster has: nodes, pods, queues.

use super::Engine;
use crate::ids::{FlavorName, NodeName, PodKey, QueueName, TopologyName};
use crate::node::Node;
use crate::queue::{Flavor, Queue};
use crate::queueing::Signal;
use crate::resources::Resources;
use crate::state::{DemandIdx, GangIdx, NodeIdx, Pod};
use crate::topology::Topology;

impl Engine {
    /// Takes a node as it is now. It may have shrunk below what is used on it:
    /// then its free amounts are negative, and nothing is placed there.
    pub fn apply_node(&mut self, node: Node) {
        if self.nodes.apply(node, &mut self.catalog) {
            self.nodes_changed();
        }
    }

    /// The node is gone. Pods on it are remembered until they are deleted, and
    /// count again if it comes back.
    pub fn delete_node(&mut self, node: &NodeName) {
        if self.nodes.delete(node) {
            self.nodes_changed();
        }
    }

    /// Takes a topology as it is now. What runs stays where it is.
    pub fn apply_topology(&mut self, topology: Topology) {
        if self.nodes.apply_topology(topology) {
            self.topologies_changed();
        }
    }

    /// The topology is gone: what asked for a level of it waits, unless another
    /// topology has that level; what runs goes on.
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

    /// Takes a pod that is bound to a node as it is now: of a gang or anybody
    /// else's, terminating ones too. It counts until it is deleted. `request` is
    /// what the node must have for it; 1 of `pods` is added.
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

    /// Charges a pod that was not seen before, in the place of the assumed one
    /// if it is a gang's. Says whether it is.
    fn confirm(&mut self, pod: &PodKey, at: NodeIdx, demand: DemandIdx) -> bool {
        let owner = self.owner(pod);
        let held = owner.is_some();
        match owner.and_then(|owner| self.settle(owner)) {
            // As planned: nothing changes.
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

    /// Whether a pod of a placed gang, seen there or gone, holds what was planned.
    fn look_for(&mut self, pod: &PodKey, seen: Option<(NodeIdx, DemandIdx)>) {
        if let Some(owner) = self.owner(pod) {
            self.set_there(owner, seen);
        }
    }

    /// The same.
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

    /// A planned pod is no longer assumed: where it was planned, if it was.
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

    /// The pod is gone, or has failed. If it is a placed gang's its place is kept, as
    /// long as the gang's: whether the gang restarts, or the pod alone where it was, is
    /// found out by others. That it does neither [`Engine::drop_assumed`] says.
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

    /// A pod of a placed gang that was seen is assumed again, where it was planned.
    fn assume(&mut self, pod: &PodKey) {
        let Some((gang, number, index)) = self.owner(pod) else {
            return;
        };
        let Some(placed) = self.placed_mut(gang) else {
            return;
        };
        if placed.standing.is_leaving() {
            // Its pods do not come again.
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

    /// The pod is gone, or has ended and holds nothing any more.
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

    /// The planned pod will not be seen (any more), and holds nothing: it ended
    /// before this engine saw it. Of use after [`Engine::restore_gang`]; nothing
    /// happens where the pod has been seen or is not planned.
    pub fn drop_assumed(&mut self, pod: &PodKey) {
        if let Some(owner) = self.owner(pod) {
            self.forgo(owner);
        }
    }

    /// The planned pod holds nothing, if it is still assumed.
    pub(super) fn forgo(&mut self, owner: (GangIdx, usize, u32)) {
        if let Some((at, demand)) = self.settle(owner) {
            self.set_there(owner, None);
            let demand = self.catalog.demand(demand);
            self.give(at, &demand, 1, true);
        }
    }

    /// Takes a queue as it is now. What its gangs hold stays theirs, even if it
    /// is more than the quota.
    pub fn apply_queue(&mut self, queue: Queue) {
        if self.queues.apply(queue, &mut self.catalog) {
            self.queues_changed();
        }
    }

    /// The queue is gone: nothing of it is started, what runs goes on.
    pub fn delete_queue(&mut self, queue: &QueueName) {
        if self.queues.delete(queue) {
            self.queues_changed();
        }
    }

    /// Takes a flavor as it is now. Gangs that are placed stay what they are
    /// charged for.
    pub fn apply_flavor(&mut self, flavor: Flavor) {
        if self.queues.flavors_mut().apply(flavor) {
            self.queues_changed();
        }
    }

    /// The flavor is gone: nothing is started with it, what runs goes on.
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
