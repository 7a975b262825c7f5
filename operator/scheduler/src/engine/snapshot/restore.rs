//! Builds an engine from a snapshot.

use std::sync::Arc;

use super::super::Engine;
use super::super::changes::DeletedGang;
use super::super::flavor_assignment::FlavorAssignment;
use super::super::gang_table::{PlacedGroup, choices_from_flavors};
use super::super::kept_places::{KeptPlace, PodRoom};
use super::super::provisioning::BackOff;
use super::{
    BackOffSnapshot, ChargeSnapshot, GangSnapshot, KeptPlaceSnapshot, PlaceSnapshot,
    PlacedStateSnapshot, PodSnapshot, Snapshot, StoppingGangSnapshot,
};
use crate::explain::ReportedReason;
use crate::placement::PodRuns;
use crate::quota::{Demand, FlavorResource, UsageLag};
use crate::state::{GangIdx, KnownPod};

impl Engine {
    /// Creates an engine with this state. It makes the same decisions as the engine of the
    /// snapshot.
    #[must_use]
    pub fn from_snapshot(snapshot: &Snapshot) -> Self {
        let mut engine = Self::with_decay(snapshot.decay);
        engine.advance(snapshot.now);
        for flavor in &snapshot.flavor_names {
            engine.queues.intern_flavor(flavor);
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
        for (limit, closure) in &snapshot.closed {
            engine.close_limit(limit.clone(), closure.clone());
        }
        for pod in &snapshot.pods {
            engine.put_pod(pod);
        }
        for gang in &snapshot.gangs {
            engine.put_gang(gang);
        }
        for gang in &snapshot.gangs {
            engine.put_placed_state(gang);
        }
        for saved in &snapshot.stopping {
            engine.put_stopping(saved);
        }
        for saved in &snapshot.back_offs {
            engine.put_back_off(saved);
        }
        let lags: Vec<UsageLag> = snapshot
            .lags
            .iter()
            .map(|saved| UsageLag {
                queue: saved.queue.clone(),
                resource: engine.catalog.pin(&saved.resource),
                lag: saved.lag,
                epoch: saved.epoch,
            })
            .collect();
        engine.queues.restore_lags(lags);
        engine.restore_history(&snapshot.history);
        engine
            .reservations
            .restore_reported(snapshot.reservations.iter().cloned());
        engine
    }

    fn put_pod(&mut self, pod: &PodSnapshot) {
        let demand = self.catalog.acquire_demand(&pod.request);
        let node = self.nodes.hold(&pod.node);
        let amounts = self.catalog.demand(demand);
        self.charge_node(node, &amounts, 1, pod.held);
        let held = pod.held;
        self.pods.insert(
            pod.pod.clone(),
            KnownPod {
                node,
                demand,
                in_placed_gang: held,
            },
        );
        if let Some(by) = pod.leaves {
            self.mark_pod_leaving(&pod.pod, by);
        }
    }

    fn put_gang(&mut self, saved: &GangSnapshot) {
        let place = saved.place.as_ref();
        let gang = place.map_or(&saved.gang, |place| &place.gang);
        let at = self.insert(gang.clone());
        if let Some(state) = self.gangs.get_mut(at) {
            state.not_before = saved.not_before;
            state.preempted = saved.preempted;
            state.reported_reason = saved.told.map(|reason| ReportedReason {
                reason,
                obstacle: saved.told_obstacle,
            });
            state.short_since = saved.short_since;
        }
        if let Some(saved) = &saved.provisioning {
            self.insert_provisioning(at, &saved.flavors, saved.state.clone());
        }
        if let Some(kept) = &saved.kept {
            self.put_kept_place(at, kept);
        }
        match place {
            None if saved.idle => {
                if let Some(state) = self.gangs.get_mut(at) {
                    state.awaits_apply = true;
                }
            }
            None => self.make_pending(at),
            Some(place) => {
                self.put_place(at, place);
                self.update(at, saved.gang.clone());
            }
        }
    }

    fn put_back_off(&mut self, saved: &BackOffSnapshot) {
        let back_off = BackOff {
            until: saved.until,
            failures: saved.failures,
        };
        let (queue, flavor) = (saved.queue.clone(), saved.flavor.clone());
        self.back_offs.insert(queue, flavor, back_off);
    }

    fn put_stopping(&mut self, saved: &StoppingGangSnapshot) {
        let charged = self.put_charges(&saved.charged);
        let drawn = saved.drawn.iter();
        self.add_stopping(DeletedGang {
            gang: Arc::new(saved.gang.clone()),
            charged,
            drawn: drawn.map(|d| (d.limit.clone(), d.amount)).collect(),
            pods: saved.pods.clone(),
            gone_by: saved.by,
        });
    }

    fn put_charges(&mut self, charges: &[ChargeSnapshot]) -> Demand {
        let mut amounts = Vec::new();
        for charge in charges {
            let resource = self.catalog.pin(&charge.resource);
            let flavor = self.queues.intern_flavor(&charge.flavor);
            amounts.push((FlavorResource { flavor, resource }, charge.amount));
        }
        amounts.into_iter().collect()
    }

    fn put_kept_place(&mut self, at: GangIdx, kept: &KeptPlaceSnapshot) {
        let charged = self.put_charges(&kept.charged);
        let gang = Arc::new(kept.gang.clone());
        self.charge_gang(at, &gang, charged);
        let mut pods = Vec::with_capacity(kept.pods.len());
        for saved in &kept.pods {
            let demand = self.catalog.acquire_demand(&saved.request);
            let node = self.nodes.hold(&saved.node);
            if saved.held {
                let amounts = self.catalog.demand(demand);
                self.charge_node(node, &amounts, 1, true);
            }
            let Some(group) = gang.groups.get(saved.group) else {
                continue;
            };
            pods.push(PodRoom {
                key: gang.pod_key(group, saved.index),
                group: saved.group,
                index: saved.index,
                node,
                demand,
                pod_is_gone: saved.held,
            });
        }
        let keep = KeptPlace {
            choices: choices_from_flavors(&kept.gang, &kept.flavors),
            charge: self
                .queues
                .shared_charge(&gang.queue, at)
                .unwrap_or_default(),
            gang,
            until: kept.until,
            pods_gone_by: kept.by,
            pods,
        };
        self.insert_kept_place(at, keep);
    }

    fn put_place(&mut self, at: GangIdx, place: &PlaceSnapshot) {
        let mut constrained = place.gang.clone();
        for (group, constraints) in constrained.groups.iter_mut().zip(&place.constraints) {
            group.constraints = constraints.clone();
        }
        let shape = Arc::new(self.catalog.acquire_shape(&constrained));
        let charged = self.put_charges(&place.charged);
        let choices = choices_from_flavors(&place.gang, &place.flavors);
        let way = FlavorAssignment::from_charge(Arc::clone(&shape), charged, choices);
        let groups: Vec<PodRuns> = place
            .gang
            .groups
            .iter()
            .map(|group| {
                let runs = place.placement.runs_of(group);
                runs.map(|(node, pods)| (self.nodes.hold(node), pods))
                    .collect()
            })
            .collect();
        self.record_place(at, &way, groups.clone(), place.since);
        // The placed gang now holds its own references to the nodes.
        for (node, _) in groups.iter().flatten() {
            self.nodes.release_hold(*node);
        }
        let mut assumed = Vec::new();
        if let Some(placed) = self.gangs.placed_mut(at) {
            placed.checkpoint = place.checkpoint;
            placed.protected_until = place.protected;
            for (group, settled) in placed.groups.iter_mut().zip(&place.settled) {
                for index in settled {
                    group.confirm(*index);
                }
            }
            for (group, gone) in placed.groups.iter_mut().zip(&place.gone) {
                for index in gone {
                    group.set_in_place(*index, false);
                }
            }
            assumed.extend(placed.groups.iter().map(PlacedGroup::assumed_runs));
        }
        for (group, runs) in shape.groups.iter().zip(assumed) {
            for (node, pods) in runs {
                self.charge_node(node, &group.demand, pods, true);
            }
        }
        self.drop_shape(&shape);
    }

    /// Restores the state of a gang's place. The caller must have added all gangs, so that victims
    /// exist.
    fn put_placed_state(&mut self, saved: &GangSnapshot) {
        let Some(place) = &saved.place else { return };
        let Some(at) = self.gangs.find(&saved.gang.id) else {
            return;
        };
        match &place.standing {
            PlacedStateSnapshot::Settled => {}
            PlacedStateSnapshot::Leaving { since } => {
                self.start_leaving_since(at, *since);
            }
            PlacedStateSnapshot::Nominated => self.mark_nominated(at),
        }
    }
}
