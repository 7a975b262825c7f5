//! The snapshot of an engine.

use super::super::Engine;
use super::super::gang_table::{GangStage, GangState, PlacedGang, PlacedState, group_flavors};
use super::super::kept_places::KeptPlace;
use super::{
    BackOffSnapshot, ChargeSnapshot, GangSnapshot, KeptPlaceSnapshot, LimitChargeSnapshot,
    PlaceSnapshot, PlacedStateSnapshot, PodRoomSnapshot, PodSnapshot, ProvisioningSnapshot,
    Snapshot, StoppingGangSnapshot, UsageLagSnapshot,
};
use std::collections::BTreeMap;

use crate::gang::Gang;
use crate::ids::PodKey;
use crate::node::Node;
use crate::quota::Demand;
use crate::resources::Resources;
use crate::state::{DemandIdx, GangIdx, KnownPod};

impl Engine {
    /// Returns the whole state of the engine.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut pods: Vec<PodSnapshot> = self
            .pods
            .known()
            .iter()
            .map(|p| self.pod_snapshot(p))
            .collect();
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
                .gangs
                .iter()
                .filter_map(|(at, state)| self.gang_snapshot(at, state))
                .collect(),
            stopping: self.stopping_snapshots(),
            back_offs: self.back_off_snapshots(),
            history: self.history(),
            reservations: self.reservations().cloned().collect(),
        }
    }

    fn node_snapshots(&self) -> Vec<Node> {
        let nodes = self.nodes.iter().map(|(at, facts)| {
            let offers = self.nodes.listed_resources(at).iter();
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

    fn pod_snapshot(&self, (key, pod): (&PodKey, &KnownPod)) -> PodSnapshot {
        PodSnapshot {
            pod: key.clone(),
            node: self.nodes.name(pod.node).clone(),
            request: self.pod_request(pod.demand),
            held: pod.in_placed_gang,
            leaves: self.pods.leaving_end(key),
        }
    }

    fn lag_snapshots(&self) -> Vec<UsageLagSnapshot> {
        // The snapshot omits lags of 0.
        let lags = self.queues.tree().lags().into_iter();
        let lags = lags.filter(|lag| lag.lag != 0);
        let mut lags: Vec<UsageLagSnapshot> = lags
            .map(|lag| UsageLagSnapshot {
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
        let place = match state.placed() {
            Some(placed) => Some(self.place_snapshot(at, placed)?),
            None => None,
        };
        Some(GangSnapshot {
            gang: Gang::clone(&state.gang),
            not_before: state.not_before,
            preempted: state.preempted,
            told: state.reported_reason.map(|reported| reported.reason),
            told_obstacle: state.reported_reason.and_then(|reported| reported.obstacle),
            place,
            idle: state.awaits_apply,
            kept: self
                .kept_places
                .get(at)
                .map(|keep| self.kept_place_snapshot(keep)),
            short_since: state.short_since,
            provisioning: state
                .provisioning
                .as_deref()
                .map(|known| ProvisioningSnapshot {
                    state: known.state.clone(),
                    flavors: group_flavors(&state.gang, &known.choices),
                }),
        })
    }

    fn back_off_snapshots(&self) -> Vec<BackOffSnapshot> {
        let all = self.back_offs.iter();
        all.map(|(queue, flavor, back_off)| BackOffSnapshot {
            queue: queue.clone(),
            flavor: flavor.clone(),
            until: back_off.until,
            failures: back_off.failures,
        })
        .collect()
    }

    fn stopping_snapshots(&self) -> Vec<StoppingGangSnapshot> {
        let mut pods: BTreeMap<GangIdx, Vec<PodKey>> = BTreeMap::new();
        for (pod, at) in self.pods.stopping() {
            pods.entry(at).or_default().push(pod.clone());
        }
        let stopping = pods.into_iter().filter_map(|(at, mut pods)| {
            let state = self.gangs.get(at)?;
            let GangStage::Stopping { by, .. } = *state.stage() else {
                return None;
            };
            pods.sort_unstable();
            let drawn = self.limits.leaving_amounts(at).into_iter();
            Some(StoppingGangSnapshot {
                gang: Gang::clone(&state.gang),
                pods,
                by,
                charged: self.charges(self.queues.leaving_charge(at).as_deref()),
                drawn: drawn
                    .map(|(limit, amount)| LimitChargeSnapshot { limit, amount })
                    .collect(),
            })
        });
        let mut stopping: Vec<StoppingGangSnapshot> = stopping.collect();
        stopping.sort_unstable_by(|a, b| (&a.gang.id, &a.pods).cmp(&(&b.gang.id, &b.pods)));
        stopping
    }

    fn kept_place_snapshot(&self, keep: &KeptPlace) -> KeptPlaceSnapshot {
        let pods = keep.pods.iter().map(|pod| PodRoomSnapshot {
            group: pod.group,
            index: pod.index,
            node: self.nodes.name(pod.node).clone(),
            request: self.pod_request(pod.demand),
            held: pod.pod_is_gone,
        });
        KeptPlaceSnapshot {
            gang: Gang::clone(&keep.gang),
            until: keep.until,
            by: keep.pods_gone_by,
            flavors: group_flavors(&keep.gang, &keep.choices),
            charged: self.charges(Some(&keep.charge)),
            pods: pods.collect(),
        }
    }

    fn pod_request(&self, demand: DemandIdx) -> Resources {
        let demand = self.catalog.demand(demand);
        let beside = demand.iter().filter(|(r, _)| *r != self.catalog.pods());
        beside.map(|(r, n)| (self.catalog.name(*r), *n)).collect()
    }

    /// Returns the charges, by name.
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

    fn place_snapshot(&self, at: GangIdx, placed: &PlacedGang) -> Option<PlaceSnapshot> {
        let demand = match placed.state() {
            PlacedState::Leaving { charged, .. } => Some(charged),
            PlacedState::Settled | PlacedState::Nominated => {
                self.queues.gang_charge(&placed.gang.queue, at)
            }
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
            standing: self.placed_state_snapshot(placed.state()),
            checkpoint: placed.checkpoint,
            protected: placed.protected_until,
            constraints: constraints.map(Option::unwrap_or_default).collect(),
            flavors: self.flavors(&self.gangs.get(at)?.gang.id)?,
            settled: groups().map(|g| g.confirmed().collect()).collect(),
            gone: groups().map(|g| g.misplaced().collect()).collect(),
            charged: self.charges(demand),
        })
    }

    fn placed_state_snapshot(&self, standing: &PlacedState) -> PlacedStateSnapshot {
        match standing {
            PlacedState::Settled => PlacedStateSnapshot::Settled,
            PlacedState::Leaving { since, .. } => PlacedStateSnapshot::Leaving { since: *since },
            PlacedState::Nominated => PlacedStateSnapshot::Nominated,
        }
    }
}
