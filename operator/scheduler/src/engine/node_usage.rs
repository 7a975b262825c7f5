//! Usage of nodes by pods. Each change invalidates the results that the engine has computed from
//! the usage before, and wakes the gangs that wait for it.

use super::Engine;
use crate::queueing::Signal;
use crate::state::{NodeIdx, ResourceIdx};

impl Engine {
    /// Charges pods to a node, and wakes the gangs that wait for it.
    pub(super) fn charge_node(
        &mut self,
        node: NodeIdx,
        demand: &[(ResourceIdx, i64)],
        pods: u32,
        held: bool,
    ) {
        self.nodes.enable_shares(&self.catalog);
        self.nodes.charge(node, demand, i64::from(pods), held);
        self.raise_for_pods(demand, pods, Signal::Taken);
    }

    /// Releases the charge of pods, and wakes the gangs that wait for it.
    pub(super) fn release_node(
        &mut self,
        node: NodeIdx,
        demand: &[(ResourceIdx, i64)],
        pods: u32,
        held: bool,
    ) {
        let times = i64::from(pods).saturating_neg();
        self.nodes.charge(node, demand, times, held);
        self.raise_for_pods(demand, pods, Signal::Freed);
    }

    pub(super) fn raise_for_pods(
        &mut self,
        demand: &[(ResourceIdx, i64)],
        pods: u32,
        signal: impl Fn(ResourceIdx) -> Signal,
    ) {
        self.blockages.clear();
        self.reservations.mark_stale();
        let all = |need: i64| i128::from(need).saturating_mul(i128::from(pods));
        self.raise(demand.iter().map(|(r, need)| (*r, all(*need))), signal);
    }

    /// Raises the counters of resources that have been taken or freed.
    pub(super) fn raise(
        &mut self,
        amounts: impl Iterator<Item = (ResourceIdx, i128)>,
        signal: impl Fn(ResourceIdx) -> Signal,
    ) {
        for (resource, amount) in amounts {
            self.scheduling_queue.raise(&signal(resource), amount);
            if let Some((along, amount)) = self.nodes.coupled_resource(resource, amount) {
                self.scheduling_queue.raise(&signal(along), amount);
            }
        }
    }
}
