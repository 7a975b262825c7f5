//! Finds the failure that ends an attempt, and the budget that its restart counts against.

pub(super) mod fault;

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::{RestartAction, RestartRule};
use trellis_api::pod_group::Plan;
use trellis_api::{Reason, names};

use super::lifecycle::{AwaitedIndex, BadNodes, FinishedIndex, NamedPod};
use crate::failure::fault::{Blame, Fault, find_restart_rule};
use crate::observed::{EvictionDecision, PodPhase, PodView};
use crate::plan_members;

/// A restart rule that matches a failure: its position and its action.
type RuleMatch = (usize, RestartAction);

/// An attempt and the state of its nodes.
#[derive(Clone, Copy)]
pub struct ObservedAttempt<'a> {
    /// The pods of the attempt that are judged.
    pub pods: &'a [NamedPod<'a>],
    /// The plan of the attempt.
    pub plan: Option<&'a Plan>,
    /// Nodes of the attempt that are lost or unhealthy.
    pub nodes: &'a BadNodes<'a>,
    /// Tells whether the pods on an unhealthy node may be evicted now.
    pub eviction_decision: &'a dyn Fn(&str) -> EvictionDecision,
    /// The job's rules for failures.
    pub rules: &'a [RestartRule],
    /// The group of rank 0, if its success is the job's success.
    pub leader_group: Option<&'a str>,
    /// True if some pods still run or have succeeded, so that failures of other pods may be
    /// ignored.
    pub can_ignore_failures: bool,
    /// Pods that have finished: their absence is no failure.
    pub finished: &'a FinishedIndex<'a>,
    /// Pods that are still to be created: their absence is no failure.
    pub awaited: &'a AwaitedIndex,
}

/// The result of judging an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// The failure that ends the attempt.
    pub fault: Option<Fault>,
    /// An unhealthy node that the attempt stays on for now.
    pub unhealthy_node: Option<(String, EvictionDecision)>,
}

impl ObservedAttempt<'_> {
    /// Diagnoses the attempt. One failure often causes other failures, so the failure closest to
    /// the cause wins: a lost node, an unhealthy node, a pod that the kubelet refused, a pod that
    /// was evicted or deleted, then the failure of a container. So ranks that fail because the node
    /// of another rank is lost do not count against the job's budget.
    #[must_use]
    pub(crate) fn diagnose(&self) -> Diagnosis {
        let mut unhealthy_node = None;
        let fault = self
            .find_fault(|name, pod| self.lost_node_fault(name, pod))
            .or_else(|| {
                self.find_fault(|name, pod| {
                    self.unhealthy_node_fault(name, pod, &mut unhealthy_node)
                })
            })
            .or_else(|| self.find_fault(kubelet_refusal))
            .or_else(|| self.find_fault(|name, pod| self.disruption_fault(name, pod)))
            .or_else(|| self.missing_pod_faults().next())
            .or_else(|| self.first_container_fault());
        Diagnosis {
            fault,
            unhealthy_node,
        }
    }

    /// Returns the failure of each pod that has failed or is missing.
    pub fn faults(&self) -> impl Iterator<Item = Fault> {
        let find_pod_fault = |&(name, pod): &NamedPod<'_>| {
            self.lost_node_fault(name, pod)
                .or_else(|| self.unhealthy_node_fault(name, pod, &mut None))
                .or_else(|| kubelet_refusal(name, pod))
                .or_else(|| self.disruption_fault(name, pod))
                .or_else(|| container_fault(name, pod).filter(|_| !self.is_ignored(pod)))
        };
        self.pods
            .iter()
            .filter_map(find_pod_fault)
            .chain(self.missing_pod_faults())
    }

    fn find_fault(&self, mut find: impl FnMut(&str, &PodView) -> Option<Fault>) -> Option<Fault> {
        self.pods.iter().find_map(|(name, pod)| find(name, pod))
    }

    fn lost_node_fault(&self, name: &str, pod: &PodView) -> Option<Fault> {
        let node = pod.node.as_deref()?;
        let is_lost = !pod.phase.is_over() && self.nodes.is_lost(node);
        let message = || format!("node {node:?} of pod {name:?} is lost");
        is_lost.then(|| Fault::for_pod(name, pod, Reason::NodeLost, message(), Blame::Cluster))
    }

    /// Returns the failure of an unhealthy node. A rank that failed on the node counts as the
    /// node's failure, too, even if other pods leave the node later.
    fn unhealthy_node_fault(
        &self,
        name: &str,
        pod: &PodView,
        unhealthy_node: &mut Option<(String, EvictionDecision)>,
    ) -> Option<Fault> {
        let node = pod.node.as_deref()?;
        if pod.phase == PodPhase::Succeeded || self.is_ignored(pod) {
            return None;
        }
        let reason = self.nodes.unhealthy_reason(node)?;
        if !pod.phase.is_over() {
            let decision = (self.eviction_decision)(node);
            if decision != EvictionDecision::Now {
                unhealthy_node.get_or_insert_with(|| (node.to_owned(), decision));
                return None;
            }
        }
        let message = format!("node {node:?} of pod {name:?} is unhealthy: {reason}");
        let fault = Fault::for_pod(name, pod, Reason::NodeUnhealthy, message, Blame::Cluster);
        Some(fault)
    }

    /// Returns the failure of a pod that is being evicted or deleted. If its container has ended,
    /// the kubelet's reason is kept for the restart rules.
    fn disruption_fault(&self, name: &str, pod: &PodView) -> Option<Fault> {
        let is_disrupted = pod.is_disrupted || is_stopped_by_deletion(pod);
        if !is_disrupted || self.is_ignored(pod) {
            return None;
        }
        let message = format!("pod {name:?} is being deleted or evicted by another client");
        let fault = Fault::for_pod(name, pod, Reason::PodDisrupted, message, Blame::Cluster);
        Some(match container_fault(name, pod) {
            Some(container) => Fault {
                reason: fault.reason,
                blame: fault.blame,
                message: fault.message,
                ..container
            },
            None => fault,
        })
    }

    /// Returns the failure of a container. If several have failed, the one with the first matching
    /// rule wins; without a rule, the one that ended first, which most likely caused the others.
    fn first_container_fault(&self) -> Option<Fault> {
        let failed = self.pods.iter().filter_map(|(name, pod)| {
            let PodPhase::Failed { at, .. } = &pod.phase else {
                return None;
            };
            let (fault, rule) = self.fault_with_rule(name, pod)?;
            if self.is_failure_ignored(pod, rule) {
                return None;
            }
            let rank = rule.map_or(usize::MAX, |(at, _)| at);
            Some(((rank, at.is_none(), *at, (*name).to_owned()), fault))
        });
        let first = failed.min_by(|(a, _), (b, _)| a.cmp(b));
        first.map(|(_, fault)| fault)
    }

    /// Returns true if the pod has failed and a rule ignores that failure.
    pub(super) fn is_ignored(&self, pod: &PodView) -> bool {
        let failed = self.fault_with_rule("", pod);
        failed.is_some_and(|(_, rule)| self.is_failure_ignored(pod, rule))
    }

    /// Returns the failure of a pod's container, and the rule that matches it.
    fn fault_with_rule(&self, name: &str, pod: &PodView) -> Option<(Fault, Option<RuleMatch>)> {
        let fault = container_fault(name, pod)?;
        let rule = find_restart_rule(self.rules, &fault);
        Some((fault, rule))
    }

    fn is_failure_ignored(&self, pod: &PodView, rule: Option<RuleMatch>) -> bool {
        let is_rule_ignore = rule.is_some_and(|(_, action)| action == RestartAction::Ignore);
        // The leader's failure is never ignored, because no other pod's success makes the job
        // succeed.
        let is_leader = self.leader_group == Some(pod.group.as_str()) && pod.index == 0;
        is_rule_ignore && !is_leader && self.can_ignore_failures
    }

    /// Returns the pods of the plan that are gone although they had not ended: another client has
    /// deleted them.
    fn missing_pod_faults(&self) -> impl Iterator<Item = Fault> {
        let planned = |plan: &Plan| {
            let counts = plan.assignments.iter().map(|a| a.count);
            counts.fold(0_i64, i64::saturating_add)
        };
        let there = i64::try_from(self.pods.len()).unwrap_or(i64::MAX);
        // This compares names only if a pod is missing, so the usual case costs one comparison.
        let plan = self.plan.filter(|plan| there < planned(plan));
        let pods = plan.into_iter().flat_map(|_| self.pods);
        let present = pods.map(|(_, pod)| (pod.group.as_str(), pod.index));
        let present: BTreeSet<(&str, u32)> = present.collect();
        let members = plan.into_iter().flat_map(plan_members);
        let missing = members.filter(move |(group, index, _)| {
            !present.contains(&(*group, *index))
                && !self.finished.contains(group, *index)
                && !self.awaited.contains(group, *index)
        });
        missing.map(|(group, index, node)| {
            let pod_name = names::pod_name("", group, index);
            let message = format!("pod {index} of group {group:?} was deleted by another client");
            Fault {
                pod: pod_name.trim_start_matches('-').to_owned(),
                group: group.to_owned(),
                index: Some(index),
                node: Some(node.to_owned()),
                ..Fault::for_gang(Reason::PodDisrupted, message, Blame::Cluster)
            }
        })
    }
}

/// Returns true if the pod is being deleted and had not failed before: its exit code then only
/// shows how it reacts to the stop.
fn is_stopped_by_deletion(pod: &PodView) -> bool {
    let stopped = |ended_at: Option<Timestamp>| match (pod.deletion_requested, ended_at) {
        (Some(requested_at), Some(ended_at)) => ended_at >= requested_at,
        _ => false,
    };
    match &pod.phase {
        PodPhase::Failed { at, .. } => pod.deleting && stopped(*at),
        phase => pod.deleting && !phase.is_over(),
    }
}

fn kubelet_refusal(name: &str, pod: &PodView) -> Option<Fault> {
    let PodPhase::Refused { reason } = &pod.phase else {
        return None;
    };
    let node = pod.node.as_deref().unwrap_or_default();
    let message = format!("the kubelet of node {node:?} refused pod {name:?}: {reason}");
    Some(Fault {
        kubelet_reason: reason.clone(),
        ..Fault::for_pod(name, pod, Reason::KubeletRefused, message, Blame::Cluster)
    })
}

/// Reasons by which a pod ends because of its node and not of its container (kubelet: node
/// shutdown, a node that came back empty, eviction).
const NODE_REASONS: [&str; 5] = [
    "ContainerStatusUnknown",
    "NodeLost",
    "NodeShutdown",
    "Terminated",
    "Evicted",
];

/// Returns the failure of the pod's own container. None if the pod has not failed.
fn container_fault(name: &str, pod: &PodView) -> Option<Fault> {
    let PodPhase::Failed {
        exit_code,
        reason: word,
        last_line,
        ..
    } = &pod.phase
    else {
        return None;
    };
    let node = pod.node.as_deref().unwrap_or_default();
    let new_fault = |reason, message, blame| Fault {
        exit_code: *exit_code,
        last_line: last_line.clone(),
        kubelet_reason: word.clone(),
        ..Fault::for_pod(name, pod, reason, message, blame)
    };
    if NODE_REASONS.contains(&word.as_str()) {
        let message = format!("pod {name:?} was stopped by node {node:?}: {word}");
        return Some(new_fault(Reason::PodDisrupted, message, Blame::Cluster));
    }
    let reason = match word.as_str() {
        "OOMKilled" => Reason::OutOfMemory,
        _ => Reason::PodFailed,
    };
    let code = exit_code.map_or_else(String::new, |c| format!(" with exit code {c}"));
    let log_line = last_line.as_deref();
    let log_line = log_line.map_or_else(String::new, |line| format!("; it said: {line}"));
    let message = format!("pod {name:?} on node {node:?} failed{code}: {word}{log_line}");
    Some(new_fault(reason, message, Blame::Job))
}
