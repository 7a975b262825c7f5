//! Begins and ends the provisioning of nodes for a gang.

use std::sync::Arc;
use std::time::Duration;

use super::super::Engine;
use super::super::cycle::CycleLog;
use super::super::gang_table::{self, choices_from_flavors};
use super::super::kept_places::{KeptPlace, LiftedPlace, PodRoom};
use super::{GangProvisioning, ProvisioningPlan};
use crate::decision::Decision;
use crate::explain::{WaitDetail, WaitReason};
use crate::gang::Gang;
use crate::ids::{FlavorName, GangId};
use crate::provisioning::{FlavorGrowth, NodeRequest, Provisioning};
use crate::queue::GroupFlavors;
use crate::queueing::{Blockage, GangClass, OrderKey, Signal, WakeCondition};
use crate::state::GangIdx;
use crate::time::Time;

/// Pause after a failed order before the next order of the same gang. The caller reports the failure
/// during the pause.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

impl Engine {
    /// Keeps the place of a plan for a gang, with its planned nodes. Returns the decision to
    /// provision the nodes, if they are not provisioned already.
    pub(in crate::engine) fn provision(
        &mut self,
        at: GangIdx,
        lifted: Option<Box<LiftedPlace>>,
        plan: ProvisioningPlan,
        log: &mut CycleLog,
    ) -> Option<Decision> {
        let gang = Arc::clone(&self.gangs.get(at)?.gang);
        if self.keeps_place(at, &gang, &plan) {
            // An unchanged place stays: a change would wake the other gangs with orders, and they
            // would wake this gang again.
            self.put_back_place(lifted);
            let known = self.gangs.get(at)?.provisioning.as_deref()?;
            let detail = self.provisioning_detail(&known.state);
            self.park_provisioned(at, detail, plan.wake, log);
            return None;
        }
        self.spend_place(lifted);
        let (state, is_new) = self.advance_provisioning(at, &plan);
        let until = self.provisioning_end(&state);
        let choices = plan.assignment.choices.clone();
        let request = is_new.then(|| NodeRequest {
            gang: gang.id.clone(),
            nodes: state.wanted.clone(),
            flavors: gang_table::group_flavors(&gang, &choices),
            until,
        });
        let detail = self.provisioning_detail(&state);
        let pods = self.room_of_plan(&gang, &plan);
        self.charge_gang(at, &gang, plan.assignment.demand.clone());
        if let Some(known) = self.gangs.get_mut(at) {
            known.provisioning = Some(Box::new(GangProvisioning {
                state,
                choices: choices.clone(),
            }));
        }
        self.provisioning.insert(at);
        let charge = self.queues.shared_charge(&gang.queue, at);
        let keep = KeptPlace {
            charge: charge.unwrap_or_default(),
            gang,
            choices,
            until,
            pods_gone_by: self.now,
            pods,
        };
        self.insert_kept_place(at, keep);
        self.park_provisioned(at, detail, plan.wake, log);
        request.map(Decision::Provision)
    }

    /// True if a gang with nodes on order keeps exactly the place of a plan.
    fn keeps_place(&self, at: GangIdx, gang: &Gang, plan: &ProvisioningPlan) -> bool {
        let provisioning = self
            .gangs
            .get(at)
            .and_then(|state| state.provisioning.as_deref());
        let keep = self.kept_places.get(at);
        let Some((known, keep)) = provisioning.zip(keep) else {
            return false;
        };
        let kept = keep
            .pods
            .iter()
            .map(|pod| (pod.group, self.nodes.name(pod.node)));
        let groups = gang.groups.iter().enumerate();
        let planned = groups.flat_map(|(number, group)| {
            let runs = plan.placement.runs_of(group);
            let nodes = runs.flat_map(|(node, pods)| (0..pods).map(move |_| node));
            nodes.map(move |node| (number, node))
        });
        *keep.gang == *gang && known.choices == plan.assignment.choices && kept.eq(planned)
    }

    fn provisioning_detail(&self, state: &Provisioning) -> WaitDetail {
        WaitDetail::Provisioning {
            nodes: state.wanted.clone(),
            arrived: state.progress().1,
            until: self.provisioning_end(state),
        }
    }

    /// Parks a gang with nodes on order until a node arrives, or the plan's condition is met.
    fn park_provisioned(
        &mut self,
        at: GangIdx,
        detail: WaitDetail,
        mut wake: WakeCondition,
        log: &mut CycleLog,
    ) {
        wake.on_least_rise(Signal::Nodes, 1);
        self.block_gang(at, Blockage::new(detail, wake), log);
    }

    /// Returns the state of a gang's provisioning with this plan, and if it begins now.
    fn advance_provisioning(&self, at: GangIdx, plan: &ProvisioningPlan) -> (Provisioning, bool) {
        let missing = plan.nodes.clone();
        let before = self
            .gangs
            .get(at)
            .and_then(|state| state.provisioning.as_deref());
        let Some(before) = before else {
            let limit = |growth: &FlavorGrowth| growth.timeout;
            let state = Provisioning {
                since: self.now,
                timeout: self.now.plus(self.shortest(missing.keys(), limit)),
                first_arrival: None,
                wanted: missing.clone(),
                missing,
            };
            return (state, true);
        };
        let since = before.state.since;
        let first_arrival = before.state.first_arrival;
        let state = Provisioning {
            missing,
            first_arrival: first_arrival
                .or_else(|| self.has_new_node(plan, since).then_some(self.now)),
            ..before.state.clone()
        };
        (state, false)
    }

    /// True if the plan has a node that was added since this time. Older nodes join an order when
    /// they become free.
    fn has_new_node(&self, plan: &ProvisioningPlan, since: Time) -> bool {
        let runs = plan.placement.groups().iter().flat_map(|group| &group.runs);
        let mut nodes = runs.filter_map(|(node, _)| self.nodes.find(node));
        nodes.any(|node| self.nodes.was_added_since(node, since))
    }

    /// Returns when the engine gives the nodes up.
    fn provisioning_end(&self, state: &Provisioning) -> Time {
        let idle = self.shortest(state.wanted.keys(), |growth| growth.idle);
        let idle_end = state.first_arrival.map(|first| first.plus(idle));
        idle_end.map_or(state.timeout, |end| end.min(state.timeout))
    }

    /// Returns the shortest of the flavors' limits.
    fn shortest<'a>(
        &self,
        flavors: impl Iterator<Item = &'a FlavorName>,
        limit: impl Fn(&FlavorGrowth) -> Duration,
    ) -> Duration {
        let growths = flavors.filter_map(|flavor| self.queues.flavors().growth(flavor));
        growths.map(limit).min().unwrap_or_default()
    }

    /// Charges the pods of a plan to their nodes, and returns their room.
    fn room_of_plan(&mut self, gang: &Gang, plan: &ProvisioningPlan) -> Vec<PodRoom> {
        let mut pods = Vec::new();
        let shapes = Arc::clone(&plan.assignment.shape);
        let groups = gang.groups.iter().zip(&shapes.groups).enumerate();
        for (number, (group, shape)) in groups {
            let mut index = 0_u32;
            for (name, count) in plan.placement.runs_of(group) {
                let Some(node) = (0..count).map(|_| self.nodes.hold(name)).last() else {
                    continue;
                };
                self.charge_node(node, &shape.demand, count, true);
                for _ in 0..count {
                    self.catalog.retain_demand(shape.demand_idx);
                    pods.push(PodRoom {
                        key: gang.pod_key(group, index),
                        group: number,
                        index,
                        node,
                        demand: shape.demand_idx,
                        pod_is_gone: true,
                    });
                    index = index.saturating_add(1);
                }
            }
        }
        pods
    }

    /// Releases the kept place of each gang with an order if a gang with an earlier turn is due. The
    /// earlier gang may use the new nodes, and the later gang is tried at its own turn.
    pub(in crate::engine) fn release_places_of_later_gangs(&mut self) {
        for at in self.provisioning.clone() {
            if self.has_due_predecessor(at) {
                self.release_kept_place(at);
            }
        }
    }

    fn has_due_predecessor(&mut self, at: GangIdx) -> bool {
        let Some(gang) = self.gangs.get(at).map(|state| Arc::clone(&state.gang)) else {
            return false;
        };
        if !self.kept_places.contains(at) {
            return false;
        }
        let first = self
            .scheduling_queue
            .next_due(GangClass::Gangs, &gang.queue);
        let first = first.and_then(|first| self.gangs.get(first));
        let own = first.is_some_and(|first| {
            first.gang.id != gang.id && OrderKey::for_gang(&first.gang) < OrderKey::for_gang(&gang)
        });
        own || self.owes_quota_to_due_gang(&gang)
    }

    /// True if the queue of a gang owes its quota to the next gang of another queue.
    fn owes_quota_to_due_gang(&mut self, gang: &Gang) -> bool {
        let Some(holder) = self.queues.leaf(&gang.queue) else {
            return false;
        };
        let due = self.scheduling_queue.due_queues(GangClass::Gangs);
        due.iter().filter(|name| **name != gang.queue).any(|name| {
            let next = self.scheduling_queue.next_due(GangClass::Gangs, name);
            let assignments = next.and_then(|at| self.assignments(at)?.ok());
            let queue = self.queues.leaf(name);
            queue.zip(assignments).is_some_and(|(queue, assignments)| {
                let mut demands = assignments.iter().map(|assignment| &assignment.demand);
                demands.any(|demand| self.queues.tree().is_owed(queue, demand, holder))
            })
        })
    }

    /// Ends the provisioning for each gang whose order is late, whose queue is stopped, or whose
    /// queue, policies or flavors no longer permit new nodes.
    pub(in crate::engine) fn expire_provisioning(&mut self) -> Vec<Decision> {
        let mut ended = Vec::new();
        for at in self.provisioning.clone() {
            let Some(state) = self.gangs.get(at) else {
                continue;
            };
            let Some(provisioning) = state.provisioning.as_deref() else {
                continue;
            };
            let gang = Arc::clone(&state.gang);
            let provisioning = provisioning.state.clone();
            let is_late = self.provisioning_end(&provisioning) <= self.now;
            if is_late {
                for flavor in provisioning.missing.keys() {
                    self.back_offs.add_failure(&gang.queue, flavor, self.now);
                }
            } else if self.queues.check_open(&gang.queue).is_ok()
                && self.provisioning_policy(&gang).is_some()
                && !provisioning
                    .wanted
                    .keys()
                    .any(|flavor| gang.denied_flavors.contains_key(flavor))
            {
                continue;
            }
            ended.extend(self.end_provisioning(at, is_late));
        }
        ended
    }

    /// Ends the provisioning for each pending gang whose wait reason is no longer Provisioning. Such a
    /// gang has lost its quota or its room, or `max_nodes` is now too small. Otherwise the autoscaler
    /// would add nodes that the engine does not count.
    pub(in crate::engine) fn end_uncounted_provisioning(&mut self) -> Vec<Decision> {
        let all = self.provisioning.clone().into_iter();
        let lost = all.filter(|at| {
            let state = self.gangs.get(*at).filter(|state| state.is_pending());
            let explanation = state.and_then(|state| state.explanation());
            explanation.is_some_and(|explanation| explanation.reason != WaitReason::Provisioning)
        });
        let lost: Vec<GangIdx> = lost.collect();
        let ended = lost.into_iter();
        ended
            .filter_map(|at| self.end_provisioning(at, false))
            .collect()
    }

    /// Ends the provisioning for a gang.
    fn end_provisioning(&mut self, at: GangIdx, is_late: bool) -> Option<Decision> {
        let state = self.gangs.get(at)?;
        let (gang, queue) = (state.gang.id.clone(), state.gang.queue.clone());
        let provisioning = state.provisioning.as_deref()?.state.clone();
        self.forget_provisioning(at);
        self.release_kept_place(at);
        // After a late order the queue's delay does not start anew, so the engine tries the next flavor
        // before this flavor's back-off ends.
        let policy = self.queues.config(&queue).map(|queue| queue.provisioning);
        let delay = policy.filter(|_| is_late).map(|policy| policy.after);
        let delay = i64::try_from(delay.unwrap_or_default().as_millis()).unwrap_or(0);
        if let Some(state) = self.gangs.get_mut(at) {
            let since = self
                .now
                .plus(PAUSE_AFTER_FAILURE)
                .plus_millis(delay.saturating_neg());
            state.short_since = Some(since);
            state.reported_reason = None;
        }
        Some(Decision::EndProvisioning {
            gang,
            provisioning,
            is_late,
        })
    }

    /// Forgets the provisioning for a gang that starts, leaves or is deleted.
    pub(in crate::engine) fn forget_provisioning(&mut self, at: GangIdx) {
        if !self.provisioning.remove(&at) {
            return;
        }
        if let Some(state) = self.gangs.get_mut(at) {
            state.provisioning = None;
        }
        // Another gang may ask for nodes now.
        self.scheduling_queue.raise(&Signal::Queues, 1);
    }

    /// Records that the nodes which were provisioned for a gang are there.
    pub(in crate::engine) fn finish_provisioning(&mut self, at: GangIdx) {
        let state = self.gangs.get(at);
        let known =
            state.and_then(|state| Some((state.gang.queue.clone(), state.provisioning.as_ref()?)));
        if let Some((queue, provisioning)) = known {
            let came: Vec<FlavorName> = provisioning.state.wanted.keys().cloned().collect();
            self.back_offs.clear(&queue, &came);
            self.forget_provisioning(at);
        }
    }

    /// Restores the provisioning for a pending gang, after [`Engine::apply_gang`]. A new leader
    /// calls it for nodes that its predecessor has asked for. The gang holds quota and room again
    /// once a cycle has tried it.
    pub fn restore_provisioning(
        &mut self,
        gang: &GangId,
        flavors: &[GroupFlavors],
        provisioning: Provisioning,
    ) {
        if let Some(at) = self.gangs.find(gang) {
            self.insert_provisioning(at, flavors, provisioning);
            self.make_due(at);
        }
    }

    /// Gives up the provisioning for a gang in the next cycle, as if its time were over. The caller
    /// calls it when the autoscaler adds no nodes.
    pub fn fail_provisioning(&mut self, gang: &GangId) {
        let at = self.gangs.find(gang);
        let state = at.and_then(|at| self.gangs.get_mut(at));
        if let Some(provisioning) = state.and_then(|state| state.provisioning.as_mut()) {
            provisioning.state.timeout = self.now;
        }
    }

    pub(in crate::engine) fn insert_provisioning(
        &mut self,
        at: GangIdx,
        flavors: &[GroupFlavors],
        provisioning: Provisioning,
    ) {
        let Some(state) = self.gangs.get_mut(at).filter(|state| state.is_pending()) else {
            return;
        };
        let choices = choices_from_flavors(&state.gang, flavors);
        state.provisioning = Some(Box::new(GangProvisioning {
            state: provisioning,
            choices,
        }));
        self.provisioning.insert(at);
    }

    /// Returns the provisioning for a gang. None: the engine waits for no new nodes for it.
    #[must_use]
    pub fn provisioning(&self, gang: &GangId) -> Option<&Provisioning> {
        let state = self.gangs.get(self.gangs.find(gang)?)?;
        Some(&state.provisioning.as_deref()?.state)
    }

    /// Returns all gangs for which nodes are provisioned.
    pub fn provisioned_gangs(&self) -> impl Iterator<Item = (&GangId, &Provisioning)> {
        let states = self.provisioning.iter();
        let states = states.filter_map(|at| self.gangs.get(*at));
        states.filter_map(|state| Some((&state.gang.id, &state.provisioning.as_deref()?.state)))
    }

    /// Returns when the first provisioning ends.
    pub(in crate::engine) fn first_provisioning_end(&self) -> Option<Time> {
        let provisioned = self.provisioned_gangs();
        provisioned
            .map(|(_, state)| self.provisioning_end(state))
            .min()
    }
}
