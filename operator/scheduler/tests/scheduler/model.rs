//! What is there, as plain lists that are counted anew every time.

use std::collections::{BTreeMap, BTreeSet};

use trellis_scheduler::{
    Decay, Engine, Gang, GangId, Node, NodeName, Placement, PodKey, Queue, QueueName, ResourceName,
    Resources, Time, Topology, TopologyMode, TopologyName, TopologyRequest,
};

/// A gang that has its place, as a plain list of pods.
#[derive(Clone, Debug)]
pub struct Place {
    pub gang: Gang,
    pub placement: Placement,
    pub pods: Vec<(PodKey, NodeName, Resources)>,
    pub assumed: BTreeSet<PodKey>,
    pub since: Time,
    /// It holds no quota any more.
    pub leaving: bool,
    /// It follows these.
    pub follows: Option<BTreeSet<GangId>>,
}

/// What is there, counted anew every time.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub nodes: BTreeMap<NodeName, Node>,
    pub pods: BTreeMap<PodKey, (NodeName, Resources)>,
    pub queues: BTreeMap<QueueName, Queue>,
    pub topologies: BTreeMap<TopologyName, Topology>,
    pub gangs: BTreeMap<GangId, Gang>,
    pub back_off: BTreeMap<GangId, Time>,
    pub places: BTreeMap<GangId, Place>,
    pub preempted: BTreeSet<GangId>,
    pub now: Time,
}

pub fn with_pod(request: &Resources) -> BTreeMap<ResourceName, i64> {
    let own = request
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(r, n)| (r.clone(), n));
    own.chain([(ResourceName::new("pods"), 1)]).collect()
}

impl Model {
    pub fn free(&self, node: &Node) -> BTreeMap<ResourceName, i64> {
        let mut free: BTreeMap<_, _> = node
            .allocatable
            .iter()
            .map(|(r, n)| (r.clone(), n))
            .collect();
        let seen = self.pods.values();
        let assumed = self.places.values().flat_map(|p| {
            p.pods
                .iter()
                .filter(|(key, ..)| p.assumed.contains(key))
                .map(|(_, n, r)| (n, r))
        });
        for (at, request) in seen.map(|(n, r)| (n, r)).chain(assumed) {
            for (resource, amount) in with_pod(request) {
                if *at == node.name
                    && let Some(left) = free.get_mut(&resource)
                {
                    *left -= amount;
                }
            }
        }
        free
    }

    pub fn usage(&self, queue: &str) -> BTreeMap<ResourceName, i128> {
        let mut usage = BTreeMap::new();
        for place in self
            .places
            .values()
            .filter(|p| p.gang.queue.as_str() == queue && !p.leaving)
        {
            for group in &place.gang.groups {
                for (resource, amount) in with_pod(&group.request) {
                    *usage.entry(resource).or_default() +=
                        i128::from(amount) * i128::from(group.count);
                }
            }
        }
        usage.retain(|_, used| *used > 0);
        usage
    }

    pub fn place(&mut self, gang: &Gang, placement: &Placement) {
        let pods: Vec<_> = placement
            .iter()
            .map(|(name, index, node)| {
                let group = gang.groups.iter().find(|g| g.name == *name).unwrap();
                (
                    gang.pod_key(group, index),
                    node.clone(),
                    group.request.clone(),
                )
            })
            .collect();
        self.back_off.remove(&gang.id);
        let assumed = pods.iter().map(|(key, ..)| key.clone()).collect();
        let place = Place {
            gang: gang.clone(),
            placement: placement.clone(),
            pods,
            assumed,
            since: self.now,
            leaving: false,
            follows: None,
        };
        self.places.insert(gang.id.clone(), place);
    }

    pub fn see(&mut self, key: PodKey, node: NodeName, request: Resources) {
        if !self.pods.contains_key(&key) {
            for place in self.places.values_mut() {
                place.assumed.remove(&key);
            }
        }
        self.pods.insert(key, (node, request));
    }

    /// Whether pods on these nodes are as close as they must be.
    pub fn close<'a>(
        &self,
        request: &Option<TopologyRequest>,
        mut nodes: impl Iterator<Item = &'a NodeName>,
    ) -> bool {
        let (Some(request), Some(first)) = (request, nodes.next()) else {
            return true;
        };
        let topology = self.topologies.values().find_map(|t| {
            let depth = t.levels.iter().position(|level| *level == request.level)?;
            Some(&t.levels[..=depth])
        });
        let Some(levels) = topology else { return false };
        let domain = |node: &NodeName| -> Option<Vec<&String>> {
            let labels = &self.nodes[node].labels;
            levels.iter().map(|key| labels.get(key)).collect()
        };
        request.mode == TopologyMode::Preferred
            || domain(first).is_some() && nodes.all(|node| domain(node) == domain(first))
    }

    /// The names that a gang's pods have or could have.
    pub fn members(&self, at: usize) -> Vec<PodKey> {
        let mut keys = Vec::new();
        for g in 0..3 {
            for index in 0..3 {
                keys.push(PodKey::new(format!("team/w{at}-g{g}-{index}")));
            }
        }
        keys
    }

    /// An engine that is built from what is there.
    pub fn build(&self) -> Engine {
        let mut engine = Engine::with_decay(Decay::half_life(0));
        engine.advance(self.now);
        for gang in self.gangs.values() {
            let mut gang = gang.clone();
            gang.not_before = gang.not_before.max(self.back_off.get(&gang.id).copied());
            gang.preempted = self.preempted.contains(&gang.id);
            engine.apply_gang(gang);
        }
        for (key, (node, request)) in &self.pods {
            engine.apply_pod(key.clone(), node.clone(), request.clone());
        }
        engine.advance(self.now);
        let follows = |p: &&Place| p.follows.is_some();
        let first = self.places.values().filter(|p| !follows(p));
        for place in first.chain(self.places.values().filter(follows)) {
            let mut gang = place.gang.clone();
            gang.preempted = self.preempted.contains(&gang.id);
            // It ends by what is known by now.
            if let Some(now) = self.gangs.get(&gang.id) {
                gang.grace = now.grace;
                (gang.runtime, gang.predicted) = (now.runtime, now.predicted);
            }
            let placement = place.placement.clone();
            match &place.follows {
                None => engine.restore_gang(gang, placement, place.since),
                Some(victims) => {
                    let victims: Vec<GangId> = victims.iter().cloned().collect();
                    engine.restore_nomination(gang, placement, &victims);
                }
            }
            for (key, ..) in &place.pods {
                if !place.assumed.contains(key) {
                    engine.drop_assumed(key);
                }
            }
        }
        for queue in self.queues.values() {
            engine.apply_queue(queue.clone());
        }
        for node in self.nodes.values() {
            engine.apply_node(node.clone());
        }
        for topology in self.topologies.values() {
            engine.apply_topology(topology.clone());
        }
        engine
    }

    /// Pods of an earlier attempt that are still there, or a gang that leaves for
    /// nobody any more: only events tell that, so that a rebuilt engine cannot know.
    pub fn has_leftovers(&self) -> bool {
        let all = || self.places.values();
        let followed: BTreeSet<&GangId> =
            all().filter_map(|p| p.follows.as_ref()).flatten().collect();
        all().any(|p| p.assumed.iter().any(|key| self.pods.contains_key(key)))
            || all().any(|p| p.leaving && !followed.contains(&p.gang.id))
            || followed
                .iter()
                .any(|id| !self.places.get(*id).is_some_and(|p| p.leaving))
    }

    /// A gang has no place any more.
    pub fn unplace(&mut self, id: &GangId) {
        self.places.remove(id);
    }
}
