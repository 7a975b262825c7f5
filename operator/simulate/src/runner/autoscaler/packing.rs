//! Packs pods on nodes, as autoscalers do to find the number of nodes that the pods need: each pod
//! takes the first node with room, and new nodes come last.

use trellis_scheduler::{Constraints, FlavorName, Node, ResourceName, Resources};

use super::ComingNode;

/// Equal pods that need room.
#[derive(Clone, Debug)]
pub(super) struct PendingPods {
    pub(super) count: u32,
    /// Resources of one pod, including 1 of `pods`.
    pub(super) request: Resources,
    pub(super) constraints: Constraints,
}

/// The state of a node that takes pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BinState {
    Existing,
    Coming(ComingNode),
    /// The node is not bought yet.
    New(FlavorName),
}

/// A node with the room that is left on it.
#[derive(Clone, Debug)]
pub(super) struct Bin {
    pub(super) node: Node,
    pub(super) state: BinState,
    pub(super) free: Resources,
    /// True if a pod has been packed on it.
    pub(super) is_needed: bool,
}

impl Bin {
    /// Returns an empty node.
    pub(super) fn new(node: Node, state: BinState) -> Self {
        Self {
            state,
            free: node.allocatable.clone(),
            node,
            is_needed: false,
        }
    }

    /// Takes room away.
    pub(super) fn take(&mut self, request: &Resources, pods: u32) {
        for (resource, need) in request.iter() {
            let left = self.free.get(resource);
            let need = need.saturating_mul(i64::from(pods));
            self.free
                .set(resource.clone(), left.saturating_sub(need).max(0));
        }
    }

    /// Returns how many of the pods have room.
    fn count_room(&self, pods: &PendingPods) -> u32 {
        if !pods.constraints.are_met_by(&self.node) {
            return 0;
        }
        let needs = pods.request.iter().filter(|(_, need)| *need > 0);
        let room = needs.map(|(resource, need)| {
            let room = self.free.get(resource).checked_div(need).unwrap_or(0);
            u32::try_from(room).unwrap_or(u32::MAX)
        });
        room.min().unwrap_or(u32::MAX)
    }

    /// Packs pods, and returns the number of pods that are left.
    pub(super) fn pack(&mut self, pods: &PendingPods, count: u32) -> u32 {
        let packed = self.count_room(pods).min(count);
        if packed > 0 {
            self.take(&pods.request, packed);
            self.is_needed = true;
        }
        count.saturating_sub(packed)
    }
}

/// Packs pods on nodes. Adds new nodes while pods are left, as long as `new_node` returns some.
pub(super) fn pack_on(
    bins: &mut Vec<Bin>,
    pods: &PendingPods,
    mut new_node: impl FnMut(&[Bin]) -> Option<Bin>,
) {
    let mut left = pods.count;
    for bin in bins.iter_mut() {
        left = bin.pack(pods, left);
    }
    while left > 0
        && let Some(mut bin) = new_node(bins)
    {
        let after = bin.pack(pods, left);
        if after == left {
            return;
        }
        left = after;
        bins.push(bin);
    }
}

/// Adds the room of one pod to its request.
pub(super) fn with_pod(request: &Resources) -> Resources {
    let mut all = request.clone();
    all.set(ResourceName::new("pods"), 1);
    all
}

#[cfg(test)]
mod tests {
    use trellis_scheduler::NodeName;

    use super::*;

    const GPU: &str = "nvidia.com/gpu";

    fn bin(name: &str, gpus: i64) -> Bin {
        let offers = Resources::new().with("pods", 110).with(GPU, gpus);
        Bin::new(Node::new(NodeName::new(name), offers), BinState::Existing)
    }

    fn pods(count: u32, gpus: i64) -> PendingPods {
        PendingPods {
            count,
            request: with_pod(&Resources::new().with(GPU, gpus)),
            constraints: Constraints::default(),
        }
    }

    fn needed(bins: &[Bin]) -> Vec<&str> {
        let needed = bins.iter().filter(|bin| bin.is_needed);
        needed.map(|bin| bin.node.name.as_str()).collect()
    }

    #[test]
    fn pods_share_a_node_until_it_is_full() {
        let mut bins = vec![bin("a", 8), bin("b", 8), bin("c", 8)];
        pack_on(&mut bins, &pods(3, 3), |_| None);
        pack_on(&mut bins, &pods(2, 2), |_| None);
        assert_eq!(needed(&bins), ["a", "b"]);
    }

    #[test]
    fn new_nodes_come_only_for_pods_that_are_left_and_fit() {
        let mut bins = vec![bin("a", 8)];
        let new_node = |bins: &[Bin]| (bins.len() < 4).then(|| bin("new", 8));
        pack_on(&mut bins, &pods(1, 9), new_node);
        assert_eq!(needed(&bins), [""; 0]);
        pack_on(&mut bins, &pods(2, 8), new_node);
        assert_eq!(needed(&bins), ["a", "new"]);
        pack_on(&mut bins, &pods(9, 8), new_node);
        assert_eq!(bins.len(), 4, "the stock is the limit");
    }

    #[test]
    fn pods_stay_off_nodes_that_their_constraints_exclude() {
        let mut bins = vec![bin("a", 8), bin("b", 8)];
        bins[1].node.labels.insert("pool".into(), "h100".into());
        let mut set = pods(1, 1);
        set.constraints.node_selector = [("pool".into(), "h100".into())].into();
        pack_on(&mut bins, &set, |_| None);
        assert_eq!(needed(&bins), ["b"]);
    }
}
