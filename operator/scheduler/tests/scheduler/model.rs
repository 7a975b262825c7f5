//! The state of the cluster as plain lists, counted anew every time.

pub(super) mod kept_places;
pub(super) mod limits;
pub(super) mod quota;
pub(super) mod stopping;

use std::collections::{BTreeMap, BTreeSet};

use trellis_scheduler::{
    Engine, Gang, GangId, LimitClosure, LimitName, Node, NodeName, Placement, PodKey, Queue,
    QueueName, ResourceName, Resources, Time, Topology, TopologyName, TopologyRequest, UsageDecay,
};

use crate::model::kept_places::ModelKeptPlace;
use crate::model::stopping::ModelStoppingGang;

/// A placed gang, as a plain list of pods.
#[derive(Clone, Debug)]
pub struct ModelPlace {
    pub gang: Gang,
    pub placement: Placement,
    pub pods: Vec<(PodKey, NodeName, Resources)>,
    pub assumed: BTreeSet<PodKey>,
    pub since: Time,
    /// When it began to leave. Its preemptors then count its former charge as free.
    pub leaving: Option<Time>,
    /// The gang cannot be a victim before this time.
    pub protected: Option<Time>,
    pub checkpoint: Option<Time>,
    /// The gang starts after these gangs have left.
    pub victims: Option<BTreeSet<GangId>>,
}

/// The state of the cluster, counted anew every time.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub kept_places: BTreeMap<GangId, ModelKeptPlace>,
    /// Gangs that the engine does not try before the next apply.
    pub idle: BTreeSet<GangId>,
    pub stopping: Vec<ModelStoppingGang>,
    pub nodes: BTreeMap<NodeName, Node>,
    pub pods: BTreeMap<PodKey, (NodeName, Resources)>,
    /// Pods of gangs that are no longer placed, and when they should be gone.
    pub leaving_pods: BTreeMap<PodKey, Time>,
    pub queues: BTreeMap<QueueName, Queue>,
    pub topologies: BTreeMap<TopologyName, Topology>,
    pub gangs: BTreeMap<GangId, Gang>,
    pub back_off: BTreeMap<GangId, Time>,
    pub places: BTreeMap<GangId, ModelPlace>,
    pub preempted: BTreeSet<GangId>,
    pub closed: BTreeMap<LimitName, LimitClosure>,
    pub now: Time,
}

fn add_usage(sums: &mut BTreeMap<ResourceName, i128>, gang: &Gang) {
    for group in &gang.groups {
        for (resource, amount) in with_pod(&group.request) {
            *sums.entry(resource).or_default() += i128::from(amount) * i128::from(group.count);
        }
    }
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
        let kept = self.kept_places.values().flat_map(|kept| &kept.pods);
        let kept = kept
            .filter(|pod| pod.pod_is_gone)
            .map(|p| (&p.node, &p.request));
        let seen = seen.map(|(n, r)| (n, r));
        for (at, request) in seen.chain(assumed).chain(kept) {
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

    /// Returns the charges to a queue. Quota of leaving gangs counts for their preemptors.
    pub fn usage(&self, queue: &str) -> BTreeMap<ResourceName, i128> {
        self.sum(queue, |place| place.leaving.is_none())
    }

    /// Returns the units that running gangs hold. Leaving gangs still run, and their preemptors do
    /// not run yet.
    pub fn running_usage(&self, queue: &str) -> BTreeMap<ResourceName, i128> {
        let mut runs = self.sum(queue, |place| place.victims.is_none());
        for stopping in self
            .stopping
            .iter()
            .filter(|s| s.gang.queue.as_str() == queue)
        {
            add_usage(&mut runs, &stopping.gang);
        }
        runs
    }

    fn sum(
        &self,
        queue: &str,
        counts: impl Fn(&&ModelPlace) -> bool,
    ) -> BTreeMap<ResourceName, i128> {
        let mut usage = BTreeMap::new();
        let placed = self.places.values().filter(counts);
        let kept = self.kept_places.values().map(|kept| &kept.gang);
        let all = placed.map(|place| &place.gang).chain(kept);
        for gang in all.filter(|gang| gang.queue.as_str() == queue) {
            add_usage(&mut usage, gang);
        }
        usage.retain(|_, used| *used > 0);
        usage
    }

    pub fn place(&mut self, gang: &Gang, placement: &Placement) {
        let pods: Vec<_> = placement
            .iter()
            .map(|(name, index, node)| {
                let (group, key) = gang.member_pod(name, index).unwrap();
                (key, node.clone(), group.request.clone())
            })
            .collect();
        self.back_off.remove(&gang.id);
        self.kept_places.remove(&gang.id);
        let assumed = pods.iter().map(|(key, ..)| key.clone()).collect();
        let place = ModelPlace {
            gang: gang.clone(),
            placement: placement.clone(),
            pods,
            assumed,
            since: self.now,
            leaving: None,
            protected: None,
            checkpoint: None,
            victims: None,
        };
        self.places.insert(gang.id.clone(), place);
    }

    pub fn apply_pod(&mut self, key: PodKey, node: NodeName, request: Resources) {
        if !self.pods.contains_key(&key) {
            for place in self.places.values_mut() {
                place.assumed.remove(&key);
            }
            self.confirm_late_pod(&key, &node, &request);
        }
        self.pods.insert(key, (node, request));
    }

    /// Returns true if pods on these nodes are as close as they must be.
    pub fn is_close<'a>(
        &self,
        request: &Option<TopologyRequest>,
        mut nodes: impl Iterator<Item = &'a NodeName>,
    ) -> bool {
        let (Some(request), Some(first)) = (request, nodes.next()) else {
            return true;
        };
        let (required, preferred) = (request.required_level(), request.preferred_level());
        let depth = |topology: &Topology, level: &str| {
            topology.levels.iter().position(|known| known.name == level)
        };
        let level = required.or(preferred).unwrap();
        let mut all = self.topologies.values();
        let Some(topology) = all.find(|topology| depth(topology, level).is_some()) else {
            return false;
        };
        let Some(required) = required.and_then(|level| depth(topology, level)) else {
            return true;
        };
        if preferred.is_some_and(|level| depth(topology, level) <= Some(required)) {
            return false;
        }
        let levels = &topology.levels[..=required];
        let domain = |node: &NodeName| -> Option<Vec<&String>> {
            let labels = &self.nodes[node].labels;
            let keys = levels.iter().map(|level| &level.node_label);
            keys.map(|key| labels.get(key)).collect()
        };
        domain(first).is_some() && nodes.all(|node| domain(node) == domain(first))
    }

    /// Returns the names that a gang's pods have or could have.
    pub fn members(&self, at: usize) -> Vec<PodKey> {
        let mut keys = Vec::new();
        for g in 0..3 {
            for index in 0..3 {
                keys.push(PodKey::new(format!("team/w{at}-g{g}-{index}")));
            }
        }
        keys
    }

    /// Returns an engine that is built from this state.
    pub fn to_engine(&self) -> Engine {
        let mut engine = Engine::with_decay(UsageDecay::with_half_life(0));
        for gang in self.gangs.values() {
            let mut gang = gang.clone();
            gang.not_before = gang.not_before.max(self.back_off.get(&gang.id).copied());
            gang.preempted = self.preempted.contains(&gang.id);
            engine.apply_gang(gang);
        }
        let (theirs, others): (Vec<_>, Vec<_>) = self
            .pods
            .iter()
            .partition(|(key, _)| self.is_placed_pod(key));
        let apply = |engine: &mut Engine, pods: Vec<(&PodKey, &(NodeName, Resources))>| {
            for (key, (node, request)) in pods {
                engine.apply_pod(key.clone(), node.clone(), request.clone());
            }
        };
        apply(&mut engine, others);
        for (key, by) in &self.leaving_pods {
            engine.mark_pod_leaving(key, *by);
        }
        // The placements and the starts of leaving, in the order of events.
        let mut story: Vec<(Time, u8, &ModelPlace)> = Vec::new();
        for place in self.places.values() {
            story.push((place.since, u8::from(place.victims.is_some()) * 2, place));
            story.extend(place.leaving.map(|since| (since, 1, place)));
        }
        story.sort_by(|a, b| (a.0, a.1, &a.2.gang.id).cmp(&(b.0, b.1, &b.2.gang.id)));
        for (time, what, place) in story {
            engine.advance(time);
            match what {
                1 => evict(&mut engine, &place.gang.id),
                _ => self.put_place(&mut engine, place),
            }
        }
        apply(&mut engine, theirs);
        for place in self.places.values() {
            for (key, ..) in &place.pods {
                if !place.assumed.contains(key) {
                    engine.drop_assumed(key);
                }
            }
        }
        engine.advance(self.now);
        for queue in self.queues.values() {
            engine.apply_queue(queue.clone());
        }
        for node in self.nodes.values() {
            engine.apply_node(node.clone());
        }
        for (limit, closure) in &self.closed {
            engine.close_limit(limit.clone(), closure.clone());
        }
        for topology in self.topologies.values() {
            engine.apply_topology(topology.clone());
        }
        engine
    }

    fn put_place(&self, engine: &mut Engine, place: &ModelPlace) {
        let id = &place.gang.id;
        let mut gang = place.gang.clone();
        gang.preempted = self.preempted.contains(id);
        // The current facts decide its end.
        if let Some(now) = self.gangs.get(id) {
            gang.grace = now.grace;
            gang.draws = now.draws.clone();
            (gang.runtime, gang.predicted) = (now.runtime, now.predicted);
        }
        let placement = place.placement.clone();
        match &place.victims {
            None => engine.restore_gang(gang, placement, place.since),
            Some(victims) => {
                let victims: Vec<GangId> = victims.iter().cloned().collect();
                engine.restore_nomination(gang, placement, &victims);
            }
        }
        // The current requirements count for a nominated gang, and for a gang that is pending
        // again.
        if let Some(now) = self.gangs.get(id) {
            let mut now = now.clone();
            now.preempted = self.preempted.contains(id);
            engine.apply_gang(now);
        }
        if let Some(until) = place.protected {
            evict(engine, id);
            engine.cancel_departure(id, until);
        }
        if let Some(at) = place.checkpoint {
            engine.record_checkpoint(id, at);
        }
    }

    /// Returns true if a known pod belongs to a placed gang.
    fn is_placed_pod(&self, key: &PodKey) -> bool {
        let mut places = self.places.values();
        places.any(|p| p.pods.iter().any(|(k, ..)| k == key) && !p.assumed.contains(key))
    }

    /// Returns true if a pod of an earlier attempt has the name of a planned pod. Only the events
    /// show that it is a different pod, so a rebuilt engine cannot know it.
    pub fn has_leftovers(&self) -> bool {
        // A rebuilt engine does not know kept places either.
        if !self.kept_places.is_empty() || !self.idle.is_empty() || !self.stopping.is_empty() {
            return true;
        }
        self.places.values().any(|place| {
            place.pods.iter().any(|(key, planned, _)| {
                let seen = self.pods.get(key);
                place.assumed.contains(key) && seen.is_some_and(|(node, _)| node == planned)
            })
        })
    }

    /// Removes the place of a gang. Its existing pods are then leaving.
    pub fn unplace(&mut self, id: &GangId) {
        self.kept_places.remove(id);
        self.idle.remove(id);
        let Some(place) = self.places.remove(id) else {
            return;
        };
        let grace = self.gangs.get(id).map_or(place.gang.grace, |g| g.grace);
        let by = place.leaving.unwrap_or(self.now).plus(grace);
        for (key, ..) in &place.pods {
            if !place.assumed.contains(key) && self.pods.contains_key(key) {
                self.leaving_pods.insert(key.clone(), by);
            }
        }
        self.finish_leaving(id);
    }

    /// Returns true if a gang that is placed now had a nomination for this placement, with its
    /// current requirements.
    pub fn is_nominated_placement(&self, id: &GangId, placement: &Placement) -> bool {
        let Some(place) = self.places.get(id) else {
            return false;
        };
        let asks = |gang: &Gang| -> Vec<_> {
            let groups = gang.groups.iter();
            groups
                .map(|g| (g.name.clone(), g.count, g.request.clone()))
                .collect()
        };
        place.placement == *placement && asks(&place.gang) == asks(&self.gangs[id])
    }
    /// Removes a gang from the victims that nominated gangs wait for.
    pub fn finish_leaving(&mut self, id: &GangId) {
        for place in self.places.values_mut() {
            if let Some(victims) = &mut place.victims {
                victims.remove(id);
            }
        }
    }

    /// Places a gang here, without checks.
    pub fn restore(&mut self, gang: &Gang, placement: &Placement) {
        self.unplace(&gang.id);
        self.place(gang, placement);
        let Some(place) = self.places.get_mut(&gang.id) else {
            return;
        };
        let mut confirmed = Vec::new();
        for (key, planned, _) in &place.pods {
            if self.pods.get(key).is_some_and(|(node, _)| node == planned) {
                place.assumed.remove(key);
                self.leaving_pods.remove(key);
                confirmed.push(key.clone());
            }
        }
        for key in confirmed {
            self.remove_stopping_pod(&key);
        }
    }

    /// Removes a pod. Keeps its room if it belongs to a placed gang.
    pub fn lose_pod(&mut self, key: &PodKey) {
        if self.pods.contains_key(key) {
            for place in self.places.values_mut() {
                if place.pods.iter().any(|(pod, ..)| pod == key) {
                    place.assumed.insert(key.clone());
                }
            }
        }
        self.delete_pod(key);
    }

    pub fn delete_pod(&mut self, key: &PodKey) {
        let seen = self.pods.remove(key);
        self.leaving_pods.remove(key);
        if let Some((node, request)) = seen {
            self.reserve_room_of_gone_pod(key, &node, &request);
            self.remove_stopping_pod(key);
        }
    }
}

/// Makes a gang leave, as the victim of a gang that is deleted at once.
fn evict(engine: &mut Engine, id: &GangId) {
    let nobody = Gang::new(GangId::new("x/nobody"), QueueName::new("x"), vec![]);
    let nobody_id = nobody.id.clone();
    engine.restore_nomination(nobody, Placement::default(), std::slice::from_ref(id));
    engine.delete_gang(&nobody_id);
}
