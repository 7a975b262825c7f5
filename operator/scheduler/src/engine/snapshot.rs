//! All that an engine knows, as plain data, to be decided again elsewhere.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::placed::{Nomination, Placed, PlacedGroup, Standing};
use super::ways::Way;
use super::{Engine, GangState, Stage};
use crate::backfill::Reservation;
use crate::constraints::Constraints;
use crate::explain::WaitReason;
use crate::gang::{Gang, TaskGroup};
use crate::ids::{FlavorName, GangId, NodeName, PodKey, QueueName, ResourceName};
use crate::node::Node;
use crate::placement::{History, Placement, Runs};
use crate::queue::{Flavor, GroupFlavors, Queue};
use crate::quota::{Decay, FlavorResource, Lag};
use crate::resources::Resources;
use crate::state::{GangIdx, NodeIdx, Pod};
use crate::time::Time;
use crate::topology::Topology;

/// All that an engine knows: one that is built from it decides the same.
///
/// Lists are in the order of their names, so that equal engines make equal
/// snapshots. What an engine only remembers to be faster is not in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    /// The latest time that the engine was told.
    pub now: Time,
    /// How it forgets usage.
    pub decay: Decay,
    /// Nodes that are there.
    pub nodes: Vec<Node>,
    /// Pods that have been seen.
    pub pods: Vec<PodSnapshot>,
    /// Every flavor that was ever named, in that order: what is equal otherwise
    /// is told in it.
    pub flavor_names: Vec<FlavorName>,
    /// Flavors that are defined.
    pub flavors: Vec<Flavor>,
    /// Topologies.
    pub topologies: Vec<Topology>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// What queues have held.
    pub lags: Vec<LagSnapshot>,
    /// Gangs.
    pub gangs: Vec<GangSnapshot>,
    /// The typical tasks.
    pub history: History,
    /// What was last told to be kept for gangs. What is kept now is worked out anew.
    pub reservations: Vec<Reservation>,
}

/// A pod that has been seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSnapshot {
    /// Its name.
    pub pod: PodKey,
    /// Its node.
    pub node: NodeName,
    /// What it holds, beside the pod itself.
    pub request: Resources,
    /// It is one of a gang that has its place.
    pub held: bool,
}

/// How far what a queue has held lags behind what it holds: an integer in the
/// engine's own measure, to the last bit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LagSnapshot {
    /// The queue.
    pub queue: QueueName,
    /// The resource.
    pub resource: ResourceName,
    /// The lag, as of the beginning of that half-life.
    #[serde(with = "wide")]
    pub lag: i128,
    /// Half-lives since the epoch.
    pub epoch: i64,
}

/// A gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GangSnapshot {
    /// As it was last applied.
    pub gang: Gang,
    /// The back-off of the last release.
    pub not_before: Option<Time>,
    /// It had to leave its place for another, or since its queue was drained.
    pub preempted: bool,
    /// The reason to wait that was last told.
    pub told: Option<WaitReason>,
    /// None: it waits.
    pub place: Option<PlaceSnapshot>,
}

/// The place of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlaceSnapshot {
    /// The gang as it was placed.
    pub gang: Gang,
    /// Where its pods go.
    pub placement: Placement,
    /// When it got it.
    pub since: Time,
    /// What the place is to it.
    pub standing: StandingSnapshot,
    /// When its work was last safe.
    pub checkpoint: Option<Time>,
    /// It is no victim before this time.
    pub protected: Option<Time>,
    /// What the pods of each task group ask of nodes, their flavors' labels
    /// among it as these were when it was placed.
    pub constraints: Vec<Constraints>,
    /// The flavors that it was given.
    pub flavors: Vec<GroupFlavors>,
    /// Pods that are not assumed, by their index, for each task group.
    pub settled: Vec<Vec<u32>>,
    /// Pods that do not hold what was planned, in the same way.
    pub gone: Vec<Vec<u32>>,
    /// What its queue is charged with; once it leaves, what it was.
    pub charged: Vec<ChargeSnapshot>,
}

/// What a placed gang's place is to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum StandingSnapshot {
    /// Its pods are there or are being created.
    Settled,
    /// Its pods come when its victims' are gone.
    Nominated {
        /// Whom it follows.
        victims: Vec<GangId>,
        /// Their pods that have still not gone.
        pods: Vec<PodKey>,
    },
    /// It is leaving.
    Leaving,
}

/// So much of a resource of a flavor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChargeSnapshot {
    /// The flavor.
    pub flavor: FlavorName,
    /// The resource.
    pub resource: ResourceName,
    /// In base units.
    #[serde(with = "wide")]
    pub amount: i128,
}

/// Numbers of 128 bits as text: JSON has none.
mod wide {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(
        number: &i128,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i128, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl Engine {
    /// All that it knows.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut pods: Vec<PodSnapshot> = self.pods.iter().map(|p| self.pod_snapshot(p)).collect();
        pods.sort_unstable_by(|a, b| a.pod.cmp(&b.pod));
        let flavors = self.queues.flavors();
        Snapshot {
            now: self.now,
            decay: self.queues.tree().decay(),
            nodes: self.node_snapshots(),
            pods,
            flavor_names: flavors.names().to_vec(),
            flavors: flavors.defined().cloned().collect(),
            topologies: self.nodes.domains().topologies().collect(),
            queues: self.queues.configs().cloned().collect(),
            lags: self.lag_snapshots(),
            gangs: self
                .ids
                .values()
                .filter_map(|at| self.gang_snapshot(*at, self.state(*at)?))
                .collect(),
            history: self.history(),
            reservations: self.reservations().cloned().collect(),
        }
    }

    fn node_snapshots(&self) -> Vec<Node> {
        let nodes = self.nodes.iter().map(|(at, facts)| {
            let offers = self.nodes.offers(at).iter();
            let amount = |r| (self.catalog.name(r), self.nodes.allocatable(r, at));
            Node {
                labels: facts.labels.clone(),
                taints: facts.taints.clone(),
                ready: facts.ready,
                unschedulable: facts.unschedulable,
                unhealthy: facts.unhealthy.clone(),
                ..Node::new(
                    self.nodes.name(at).clone(),
                    offers.map(|r| amount(*r)).collect(),
                )
            }
        });
        nodes.collect()
    }

    fn pod_snapshot(&self, (key, pod): (&PodKey, &Pod)) -> PodSnapshot {
        let demand = self.catalog.demand(pod.demand);
        let beside = demand.iter().filter(|(r, _)| *r != self.catalog.pods());
        PodSnapshot {
            pod: key.clone(),
            node: self.nodes.name(pod.node).clone(),
            request: beside.map(|(r, n)| (self.catalog.name(*r), *n)).collect(),
            held: pod.held,
        }
    }

    fn lag_snapshots(&self) -> Vec<LagSnapshot> {
        let lags = self.queues.tree().lags().into_iter();
        let mut lags: Vec<LagSnapshot> = lags
            .map(|lag| LagSnapshot {
                queue: lag.queue,
                resource: self.catalog.name(lag.resource),
                lag: lag.lag,
                epoch: lag.epoch,
            })
            .collect();
        lags.sort_unstable_by(|a, b| (&a.queue, &a.resource).cmp(&(&b.queue, &b.resource)));
        lags
    }

    fn gang_snapshot(&self, at: GangIdx, state: &GangState) -> Option<GangSnapshot> {
        let place = match &state.stage {
            Stage::Waiting(_) => None,
            Stage::Placed(placed) => Some(self.place_snapshot(at, placed)?),
        };
        Some(GangSnapshot {
            gang: Gang::clone(&state.gang),
            not_before: state.not_before,
            preempted: state.preempted,
            told: state.told,
            place,
        })
    }

    fn place_snapshot(&self, at: GangIdx, placed: &Placed) -> Option<PlaceSnapshot> {
        let flavors = self.queues.flavors();
        let mut charged: Vec<ChargeSnapshot> = placed
            .demand
            .iter()
            .map(|(what, amount)| ChargeSnapshot {
                flavor: flavors.name(what.flavor).cloned().unwrap_or_default(),
                resource: self.catalog.name(what.resource),
                amount,
            })
            .collect();
        charged.sort_unstable_by(|a, b| (&a.flavor, &a.resource).cmp(&(&b.flavor, &b.resource)));
        let constraints = placed.shape.groups.iter().map(|group| {
            let signature = self.catalog.signature(group.signature);
            signature.map(|s| s.constraints().clone())
        });
        let groups = || placed.groups.iter();
        Some(PlaceSnapshot {
            gang: Gang::clone(&placed.gang),
            placement: placed.placement(&self.nodes),
            since: placed.since,
            standing: self.standing_snapshot(&placed.standing),
            checkpoint: placed.checkpoint,
            protected: placed.protected,
            constraints: constraints.map(Option::unwrap_or_default).collect(),
            flavors: self.flavors(&self.state(at)?.gang.id)?,
            settled: groups().map(|g| g.settled().collect()).collect(),
            gone: groups().map(|g| g.gone().collect()).collect(),
            charged,
        })
    }

    fn standing_snapshot(&self, standing: &Standing) -> StandingSnapshot {
        let nomination = match standing {
            Standing::Settled => return StandingSnapshot::Settled,
            Standing::Leaving => return StandingSnapshot::Leaving,
            Standing::Nominated(nomination) => nomination,
        };
        let victims = nomination.victims.iter();
        let mut victims: Vec<GangId> = victims
            .filter_map(|victim| Some(self.state(*victim)?.gang.id.clone()))
            .collect();
        victims.sort_unstable();
        let still_there = |(pod, node): &&(PodKey, NodeIdx)| {
            let seen = self.pods.get(pod);
            seen.is_some_and(|seen| seen.node == *node)
        };
        let pods = nomination.pods.iter().filter(still_there);
        let mut pods: Vec<PodKey> = pods.map(|(pod, _)| pod.clone()).collect();
        pods.sort_unstable();
        StandingSnapshot::Nominated { victims, pods }
    }

    /// An engine that knows all this, and decides what the one would that the
    /// snapshot is of.
    #[must_use]
    pub fn from_snapshot(snapshot: &Snapshot) -> Self {
        let mut engine = Self::with_decay(snapshot.decay);
        engine.advance(snapshot.now);
        for flavor in &snapshot.flavor_names {
            engine.queues.flavors_mut().number(flavor);
        }
        for node in &snapshot.nodes {
            engine.apply_node(node.clone());
        }
        for flavor in &snapshot.flavors {
            engine.apply_flavor(flavor.clone());
        }
        for topology in &snapshot.topologies {
            engine.apply_topology(topology.clone());
        }
        for queue in &snapshot.queues {
            engine.apply_queue(queue.clone());
        }
        for pod in &snapshot.pods {
            engine.put_pod(pod);
        }
        for gang in &snapshot.gangs {
            engine.put_gang(gang);
        }
        for gang in &snapshot.gangs {
            engine.put_standing(gang);
        }
        let lags: Vec<Lag> = snapshot
            .lags
            .iter()
            .map(|told| Lag {
                queue: told.queue.clone(),
                resource: engine.catalog.pin(&told.resource),
                lag: told.lag,
                epoch: told.epoch,
            })
            .collect();
        engine.queues.restore_lags(lags);
        engine.restore_history(&snapshot.history);
        let told = snapshot.reservations.iter();
        engine.backfill.told = told.map(|r| (r.gang.clone(), r.clone())).collect();
        engine
    }

    fn put_pod(&mut self, pod: &PodSnapshot) {
        let demand = self.catalog.acquire_demand(&pod.request);
        let node = self.nodes.hold(&pod.node);
        let amounts = self.catalog.demand(demand);
        self.take(node, &amounts, 1, pod.held);
        let held = pod.held;
        self.pods
            .insert(pod.pod.clone(), Pod { node, demand, held });
    }

    fn put_gang(&mut self, told: &GangSnapshot) {
        let place = told.place.as_ref();
        let gang = place.map_or(&told.gang, |place| &place.gang);
        let at = self.insert(gang.clone(), Stage::Waiting(None));
        if let Some(state) = self.state_mut(at) {
            state.not_before = told.not_before;
            state.preempted = told.preempted;
            state.told = told.told;
        }
        match place {
            None => self.wait(at),
            Some(place) => {
                self.put_place(at, place);
                self.update(at, told.gang.clone());
            }
        }
    }

    fn put_place(&mut self, at: GangIdx, place: &PlaceSnapshot) {
        let mut constrained = place.gang.clone();
        for (group, constraints) in constrained.groups.iter_mut().zip(&place.constraints) {
            group.constraints = constraints.clone();
        }
        let shape = Arc::new(self.catalog.acquire_shape(&constrained));
        let mut amounts = Vec::new();
        for charge in &place.charged {
            let resource = self.catalog.pin(&charge.resource);
            let flavor = self.queues.flavors_mut().number(&charge.flavor);
            amounts.push((FlavorResource { flavor, resource }, charge.amount));
        }
        let choices = place.flavors.iter().map(|g| g.flavors.clone()).collect();
        let way = Way::charged(Arc::clone(&shape), amounts.into_iter().collect(), choices);
        let of = |group: &TaskGroup| place.placement.runs(&group.name).unwrap_or(&[]);
        let groups: Vec<Runs> = place
            .gang
            .groups
            .iter()
            .map(|group| {
                let runs = of(group).iter();
                runs.map(|(node, pods)| (self.nodes.hold(node), *pods))
                    .collect()
            })
            .collect();
        self.settle_place(at, &way, groups.clone(), place.since);
        // The place has holds of its own now.
        for (node, _) in groups.iter().flatten() {
            self.nodes.unhold(*node);
        }
        let mut assumed = Vec::new();
        if let Some(placed) = self.placed_mut(at) {
            placed.checkpoint = place.checkpoint;
            placed.protected = place.protected;
            for (group, settled) in placed.groups.iter_mut().zip(&place.settled) {
                for index in settled {
                    group.settle(*index);
                }
            }
            for (group, gone) in placed.groups.iter_mut().zip(&place.gone) {
                for index in gone {
                    group.set_there(*index, false);
                }
            }
            assumed.extend(placed.groups.iter().map(PlacedGroup::assumed));
        }
        for (group, runs) in shape.groups.iter().zip(assumed) {
            for (node, pods) in runs {
                self.take(node, &group.demand, pods, true);
            }
        }
        self.drop_shape(&shape);
    }

    /// What its place is to a gang, once all that it may follow are there.
    fn put_standing(&mut self, told: &GangSnapshot) {
        let Some(place) = &told.place else { return };
        let Some(&at) = self.ids.get(&told.gang.id) else {
            return;
        };
        let standing = match &place.standing {
            StandingSnapshot::Settled => return,
            StandingSnapshot::Leaving => {
                self.give_quota_back(&place.gang.queue, at);
                Standing::Leaving
            }
            StandingSnapshot::Nominated { victims, pods } => {
                self.nominated.insert(at);
                let victims = victims.iter().filter_map(|id| self.ids.get(id).copied());
                let pods = pods.iter().filter_map(|pod| {
                    let node = self.pods.get(pod)?.node;
                    Some((pod.clone(), node))
                });
                Standing::Nominated(Nomination {
                    victims: victims.collect(),
                    pods: pods.collect(),
                })
            }
        };
        if let Some(placed) = self.placed_mut(at) {
            placed.standing = standing;
        }
    }

    /// The gangs that wait, by name.
    pub fn waiting(&self) -> impl Iterator<Item = &GangId> {
        let waits = |at: &GangIdx| {
            let state = self.state(*at);
            state.is_some_and(|state| matches!(state.stage, Stage::Waiting(_)))
        };
        let all = self.ids.iter();
        all.filter(move |(_, at)| waits(at)).map(|(id, _)| id)
    }
}
