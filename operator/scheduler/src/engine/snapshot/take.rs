//! The snapshot of an engine.

use super::super::keeping::Keep;
use super::super::placed::{Placed, Standing, given};
use super::super::{Engine, GangState, Stage};
use super::{
    ChargeSnapshot, DrawnSnapshot, GangSnapshot, KeepSnapshot, KeptPodSnapshot, LagSnapshot,
    PlaceSnapshot, PodSnapshot, Snapshot, StandingSnapshot, StoppingSnapshot,
};
use std::collections::BTreeMap;

use crate::gang::Gang;
use crate::ids::PodKey;
use crate::node::Node;
use crate::quota::Demand;
use crate::resources::Resources;
use crate::state::{DemandIdx, GangIdx, Pod};

impl Engine {
    /// The whole state of the engine.
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
            closed: self
                .closed_limits()
                .map(|(limit, closure)| (limit.clone(), closure.clone()))
                .collect(),
            gangs: self
                .ids
                .values()
                .filter_map(|at| self.gang_snapshot(*at, self.state(*at)?))
                .collect(),
            stopping: self.stopping_snapshots(),
            history: self.history(),
            reservations: self.reservations().cloned().collect(),
        }
    }

    fn node_snapshots(&self) -> Vec<Node> {
        let nodes = self.nodes.iter().map(|(at, facts)| {
            let offers = self.nodes.offers(at).iter();
            let amount = |r| (self.catalog.name(r), self.nodes.allocatable(r, at));
            Node {
                labels: facts.labels.to_map(),
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
        PodSnapshot {
            pod: key.clone(),
            node: self.nodes.name(pod.node).clone(),
            request: self.request(pod.demand),
            held: pod.held,
            leaves: self.departures.of_pod(key),
        }
    }

    fn lag_snapshots(&self) -> Vec<LagSnapshot> {
        // A lag of 0 is left out.
        let lags = self.queues.tree().lags().into_iter();
        let lags = lags.filter(|lag| lag.lag != 0);
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
            Stage::Waiting(_) | Stage::Stopping { .. } => None,
            Stage::Placed(placed) => Some(self.place_snapshot(at, placed)?),
        };
        Some(GangSnapshot {
            gang: Gang::clone(&state.gang),
            not_before: state.not_before,
            preempted: state.preempted,
            told: state.told,
            place,
            idle: state.idle,
            kept: self.keeps.get(at).map(|keep| self.keep_snapshot(keep)),
        })
    }

    fn stopping_snapshots(&self) -> Vec<StoppingSnapshot> {
        let mut pods: BTreeMap<GangIdx, Vec<PodKey>> = BTreeMap::new();
        for (pod, at) in self.stopping.pods() {
            pods.entry(at).or_default().push(pod.clone());
        }
        let told = pods.into_iter().filter_map(|(at, mut pods)| {
            let state = self.state(at)?;
            let Stage::Stopping { by, .. } = state.stage else {
                return None;
            };
            pods.sort_unstable();
            let drawn = self.limits.left_by(at).into_iter();
            Some(StoppingSnapshot {
                gang: Gang::clone(&state.gang),
                pods,
                by,
                charged: self.charges(self.queues.left_by(at).as_deref()),
                drawn: drawn
                    .map(|(limit, amount)| DrawnSnapshot { limit, amount })
                    .collect(),
            })
        });
        let mut told: Vec<StoppingSnapshot> = told.collect();
        told.sort_unstable_by(|a, b| (&a.gang.id, &a.pods).cmp(&(&b.gang.id, &b.pods)));
        told
    }

    fn keep_snapshot(&self, keep: &Keep) -> KeepSnapshot {
        let pods = keep.pods.iter().map(|pod| KeptPodSnapshot {
            group: pod.group,
            index: pod.index,
            node: self.nodes.name(pod.node).clone(),
            request: self.request(pod.demand),
            held: pod.held,
        });
        KeepSnapshot {
            gang: Gang::clone(&keep.gang),
            until: keep.until,
            by: keep.by,
            flavors: given(&keep.gang, &keep.choices),
            charged: self.charges(Some(&keep.charge)),
            pods: pods.collect(),
        }
    }

    fn request(&self, demand: DemandIdx) -> Resources {
        let demand = self.catalog.demand(demand);
        let beside = demand.iter().filter(|(r, _)| *r != self.catalog.pods());
        beside.map(|(r, n)| (self.catalog.name(*r), *n)).collect()
    }

    /// The charges, by name.
    fn charges(&self, demand: Option<&Demand>) -> Vec<ChargeSnapshot> {
        let flavors = self.queues.flavors();
        let mut charged: Vec<ChargeSnapshot> = demand
            .into_iter()
            .flat_map(Demand::iter)
            .map(|(what, amount)| ChargeSnapshot {
                flavor: flavors.name(what.flavor).cloned().unwrap_or_default(),
                resource: self.catalog.name(what.resource),
                amount,
            })
            .collect();
        charged.sort_unstable_by(|a, b| (&a.flavor, &a.resource).cmp(&(&b.flavor, &b.resource)));
        charged
    }

    fn place_snapshot(&self, at: GangIdx, placed: &Placed) -> Option<PlaceSnapshot> {
        let demand = match &placed.standing {
            Standing::Leaving { charged, .. } => Some(charged),
            Standing::Settled | Standing::Nominated => self.queues.held(&placed.gang.queue, at),
        };
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
            charged: self.charges(demand),
        })
    }

    fn standing_snapshot(&self, standing: &Standing) -> StandingSnapshot {
        match standing {
            Standing::Settled => StandingSnapshot::Settled,
            Standing::Leaving { since, .. } => StandingSnapshot::Leaving { since: *since },
            Standing::Nominated => StandingSnapshot::Nominated,
        }
    }
}
