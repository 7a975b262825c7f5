//! Failed pods that restart while the other pods of their gang keep running.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::job::{AwaitedPodOptions, RestartAction, RestartScope, TaskGroup};

use super::failed_attempt::{ChargeResult, restart_backoff};
use super::{Evaluation, EvaluationResult, add_seconds, seconds_between};
use crate::failure::fault::{Blame, Fault, find_restart_rule};
use crate::observed::PodView;
use crate::plan_members;

/// Seconds before a failed pod outside the gang is created again. No limit counts these restarts,
/// so the pause must prevent a busy loop.
const OUTSIDE_BACKOFF: i64 = 60;
/// Shortest pause in seconds before a pod is created again if its failure counts against no limit.
const UNCOUNTED_BACKOFF: i64 = 10;
/// Seconds within which failures belong to one wave. When one rank fails, the others may fail a few
/// seconds later.
const WAVE_SECONDS: i64 = 30;
/// If the cluster stops a pod twice on its node within so many seconds, the pod is not created
/// there again.
const REPEAT_WINDOW: i64 = 600;

/// Indexes of pods, by task group.
pub(super) type PodsByGroup = BTreeMap<String, BTreeSet<u32>>;

/// Pods that a failure restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecoveryScope {
    Group,
    Slice,
    Pod,
}

/// A fault that restarts its pod or group while the other pods keep running.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    pub(super) fault: Fault,
    scope: RecoveryScope,
    /// True if the pods are a slice of the gang that cannot return to its nodes, so that another
    /// slice replaces it.
    pub(super) displaces: bool,
    /// True if the fault counts against a limit, provided that its blame does.
    counts_against_limit: bool,
}

impl Recovery {
    pub(super) fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl Evaluation<'_> {
    /// Returns the recovery from a fault while the other pods keep running. None if they cannot or
    /// should not keep running.
    pub(super) fn find_recovery(&self, fault: &Fault) -> Option<Recovery> {
        let (group, index) = (self.observed.spec.group(&fault.group)?, fault.index?);
        let rule = find_restart_rule(self.restart_rules(), fault).map(|(_, action)| action);
        let is_surplus = !self.is_part_of_gang(&group.name, index);
        let counts = rule != Some(RestartAction::RestartWithoutCounting)
            && group.is_in_gang()
            && !(is_surplus && fault.blame == Blame::Cluster);
        let recovery = |scope| {
            Some(Recovery {
                fault: fault.clone(),
                scope,
                displaces: false,
                counts_against_limit: counts,
            })
        };
        // A failure outside the gang never ends the job.
        if !group.is_in_gang() {
            return recovery(RecoveryScope::Pod);
        }
        if rule == Some(RestartAction::Fail) {
            return None;
        }
        let scope = self.restart_scope(group, index);
        if is_surplus {
            let ends_job = scope == RestartScope::Never && fault.blame == Blame::Job;
            let scope = match group.has_slices() {
                true => RecoveryScope::Slice,
                false => RecoveryScope::Pod,
            };
            return (!ends_job).then(|| recovery(scope)).flatten();
        }
        let scope = match (rule, scope) {
            (Some(RestartAction::RestartPod), _) => RecoveryScope::Pod,
            (Some(RestartAction::RestartGroup), _) => RecoveryScope::Group,
            (Some(RestartAction::RestartSlice), _) | (_, RestartScope::Slice)
                if group.has_slices() =>
            {
                RecoveryScope::Slice
            }
            (_, RestartScope::Pod) => RecoveryScope::Pod,
            (_, RestartScope::Group) => RecoveryScope::Group,
            (_, RestartScope::Gang | RestartScope::Never | RestartScope::Slice) => return None,
        };
        if self.can_restart_in_place(fault, group, index, scope) {
            return recovery(scope);
        }
        let displaced = Recovery {
            displaces: true,
            ..recovery(scope)?
        };
        self.can_be_displaced(group, index, scope)
            .then_some(displaced)
    }

    /// Returns true if another slice can replace the slice of the pod. Its pods find their peers
    /// without it, and the success of the job does not depend on it.
    fn can_be_displaced(&self, group: &TaskGroup, index: u32, scope: RecoveryScope) -> bool {
        let has_rank_0 = || {
            group
                .slice_of(index)
                .is_some_and(|slice| slice.contains(&0))
        };
        let is_needed = self.leader_group() == Some(&group.name) && has_rank_0();
        let is_alone = self.observed.spec.has_replica_groups(group);
        scope == RecoveryScope::Slice && is_alone && !is_needed
    }

    /// Returns true if the pods can run on their nodes again: the nodes take new pods, and no other
    /// gang uses the resources.
    fn can_restart_in_place(
        &self,
        fault: &Fault,
        group: &TaskGroup,
        index: u32,
        scope: RecoveryScope,
    ) -> bool {
        let slice = group.slice_of(index);
        let is_meant = |other: u32| match scope {
            RecoveryScope::Group => true,
            RecoveryScope::Slice => slice.as_ref().is_some_and(|slice| slice.contains(&other)),
            RecoveryScope::Pod => other == index,
        };
        let is_temporary = matches!(
            fault.reason,
            Reason::PodFailed | Reason::OutOfMemory | Reason::PodDisrupted
        );
        let is_place_free = || match scope {
            RecoveryScope::Pod => fault
                .node
                .as_deref()
                .is_none_or(|node| self.is_node_open(node)),
            RecoveryScope::Slice | RecoveryScope::Group => self.is_place_open(group, is_meant),
        };
        // A finished pod has released its resources, which another gang may hold by now.
        let is_whole = || {
            let mut indexes = self.gang_pods(group).filter(|index| is_meant(*index));
            indexes.all(|i| !self.finished.contains(&group.name, i))
        };
        let is_restarted = |pod: &&PodView| pod.group == group.name && is_meant(pod.index);
        let is_repeated = || {
            let last_failure = self.last_failure_time();
            let is_recent = last_failure
                .is_some_and(|at| seconds_between(at, self.observed.now) < REPEAT_WINDOW);
            is_recent
                && self
                    .attempt_pods
                    .pods()
                    .filter(is_restarted)
                    .any(|pod| pod.round > 0)
        };
        // Ten thousand failed pods may be checked at once, so the expensive checks come last.
        is_temporary
            && is_place_free()
            && (scope == RecoveryScope::Pod || is_whole())
            && !(fault.blame == Blame::Cluster && is_repeated())
    }

    /// Returns true if the nodes of these pods of the group take new pods.
    fn is_place_open(&self, group: &TaskGroup, is_meant: impl Fn(u32) -> bool) -> bool {
        let plan = self.observed.journal.plan.as_ref();
        let members = plan.into_iter().flat_map(plan_members);
        let mut nodes = members
            .filter(|(name, index, _)| *name == group.name && is_meant(*index))
            .map(|(.., node)| node);
        let mut last = None;
        // Pods with consecutive indexes are often on one node.
        nodes.all(|node| last.replace(node) == Some(node) || self.is_node_open(node))
    }

    /// Returns the time of the last failure of this attempt.
    fn last_failure_time(&self) -> Option<Timestamp> {
        let last = self.observed.status.last_failure.as_ref();
        let last = last.filter(|last| last.attempt == self.attempt());
        last.map(|last| last.time.0)
    }

    fn is_node_open(&self, node: &str) -> bool {
        !(self.observed.is_lost)(node)
            && (self.observed.unhealthy_reason)(node).is_none()
            && (self.observed.is_open)(node)
    }

    /// Returns the restart scope for a failure of that pod without a matching rule. The pods of an
    /// elastic group rendezvous at rank 0 and cannot continue without it; slices are worlds of their
    /// own.
    fn restart_scope(&self, group: &TaskGroup, index: u32) -> RestartScope {
        let restart = self.observed.spec.restart.as_ref();
        let leads = self.observed.spec.leader_group() == Some(&group.name) && index == 0;
        let default = match group.is_elastic() {
            _ if self.observed.spec.has_replica_groups(group) => RestartScope::Slice,
            true if !leads => RestartScope::Pod,
            _ => RestartScope::Gang,
        };
        restart.and_then(|r| r.scope).unwrap_or(default)
    }

    /// Restarts the pods. The restart counts once for all of them, and later failures of the same
    /// wave do not count again. The error is the end of the job if a limit is exhausted.
    pub(super) fn start_recoveries(
        mut self,
        recoveries: &[Recovery],
    ) -> Result<Self, Box<EvaluationResult>> {
        let find_charged = |blame: Blame| {
            let mut countable = recoveries.iter().filter(move |r| r.counts_against_limit);
            countable.find(|r| r.fault.blame == blame)
        };
        let charged = find_charged(Blame::Job).or_else(|| find_charged(Blame::Cluster));
        let Some(reported) = charged.or_else(|| recoveries.first()) else {
            return Ok(self);
        };
        let restart = self.observed.spec.restart.clone().unwrap_or_default();
        let mut awaited = self.awaited_pods();
        let joins_wave = self.joins_counted_wave(awaited.counted_round, recoveries);
        let rounds = u32::try_from(awaited.round).unwrap_or(u32::MAX);
        let mut wait = restart_backoff(&restart, rounds).max(UNCOUNTED_BACKOFF);
        if joins_wave {
            wait = 0;
        } else if let Some(charged) = charged {
            wait = match self.charge_restart(charged.fault.blame, &restart) {
                ChargeResult::Allowed(used) if charged.fault.blame == Blame::Job => {
                    restart_backoff(&restart, u32::try_from(used).unwrap_or(u32::MAX))
                }
                ChargeResult::Allowed(_) => 0,
                ChargeResult::Exhausted {
                    limit: limit_text,
                    reason,
                } => {
                    self.record_failure(&charged.fault, false);
                    let message = format!("{}; {limit_text}", charged.fault.message);
                    return Err(Box::new(self.fail_job(reason, message)));
                }
            };
        } else if recoveries.iter().all(|r| r.fault.blame == Blame::Cluster) && rounds == 0 {
            wait = 0;
        }
        for refused in recoveries.iter().map(Recovery::fault) {
            self.exclude_node(refused);
        }
        awaited.round = awaited.round.saturating_add(1);
        // The rate at which unhealthy nodes are vacated counts the recorded failures.
        if !joins_wave || reported.fault.reason == Reason::NodeUnhealthy {
            self.record_failure(&reported.fault, false);
        }
        if !joins_wave {
            awaited.counted_round = awaited.round;
        }
        let not_before = (wait > 0).then(|| Time(add_seconds(self.observed.now, wait)));
        let outside = Some(Time(add_seconds(self.observed.now, OUTSIDE_BACKOFF)));
        let hurried = reported.fault.blame == Blame::Job;
        let (displaced, others): (Vec<_>, Vec<_>) = recoveries.iter().partition(|r| r.displaces);
        for (recoveries, displaced) in [(others, false), (displaced, true)] {
            for (group, pods) in self.restarted_pods(recoveries) {
                let in_gang = self
                    .observed
                    .spec
                    .group(&group)
                    .is_some_and(TaskGroup::is_in_gang);
                let not_before = if in_gang { &not_before } else { &outside };
                let how = AwaitedPodOptions {
                    not_before: not_before.clone(),
                    hurried,
                    displaced,
                };
                awaited.await_pods(&group, &pods, how);
            }
        }
        self.replace_awaited(awaited);
        Ok(self)
    }

    /// Returns true if the last counted round is recent and all these pods are from earlier rounds.
    /// Then they failed in the same wave, or the cache is late.
    fn joins_counted_wave(&self, round: i64, recoveries: &[Recovery]) -> bool {
        let last_failure = self.last_failure_time();
        let is_recent =
            last_failure.is_some_and(|at| seconds_between(at, self.observed.now) < WAVE_SECONDS);
        if round <= 0 || !is_recent {
            return false;
        }
        let pods = self.attempt_pods.pods();
        let rounds = pods.map(|p| ((p.group.as_str(), p.index), p.round));
        let rounds: BTreeMap<(&str, u32), i64> = rounds.collect();
        let is_of_earlier_round = |recovery: &Recovery| {
            let index = recovery.fault.index.unwrap_or_default();
            let pod_round = rounds.get(&(recovery.fault.group.as_str(), index));
            pod_round.is_none_or(|pod_round| *pod_round < round)
        };
        recoveries.iter().all(is_of_earlier_round)
    }

    /// Returns the pods that restart, by group.
    pub(super) fn restarted_pods<'r>(
        &self,
        recoveries: impl IntoIterator<Item = &'r Recovery>,
    ) -> PodsByGroup {
        let mut pods_by_group = PodsByGroup::new();
        let mut whole_groups: BTreeSet<&str> = BTreeSet::new();
        for recovery in recoveries {
            let group = &recovery.fault.group;
            let pods = pods_by_group.entry(group.clone()).or_default();
            pods.extend(recovery.fault.index);
            if recovery.scope == RecoveryScope::Slice {
                let spec = self.observed.spec.group(group);
                let slice = spec.zip(recovery.fault.index);
                let slice = slice.and_then(|(spec, index)| spec.slice_of(index));
                pods.extend(slice.into_iter().flatten());
            }
            if recovery.scope == RecoveryScope::Group && whole_groups.insert(group) {
                let spec = self.observed.spec.group(group);
                pods.extend(spec.into_iter().flat_map(|spec| self.gang_pods(spec)));
                let group_pods = self.attempt_pods.pods().filter(|pod| pod.group == *group);
                pods.extend(group_pods.map(|pod| pod.index));
            }
        }
        pods_by_group
    }

    /// Returns a fault for each missing pod of the gang that is to be created on a node that takes no
    /// new pods, or whose slice waits for another slice to replace it.
    pub(super) fn closed_node_faults(&self) -> Vec<Fault> {
        if !self.awaited.has_any() {
            return Vec::new();
        }
        let plan = self.observed.journal.plan.as_ref();
        let pods = self.attempt_pods.pods();
        let existing: BTreeSet<_> = pods.map(|pod| (pod.group.as_str(), pod.index)).collect();
        let is_missing = |(group, index, _): &(&str, u32, &str)| {
            !existing.contains(&(*group, *index)) && self.awaited.contains(group, *index)
        };
        let members = plan.into_iter().flat_map(plan_members).filter(is_missing);
        let closed = members.filter(|(group, index, node)| {
            self.awaited.is_displaced(group, *index) || !self.is_node_open(node)
        });
        let faults = closed.map(|(group, index, node)| {
            let reason = match (
                (self.observed.is_lost)(node),
                (self.observed.unhealthy_reason)(node),
            ) {
                (true, _) => Reason::NodeLost,
                (false, Some(_)) => Reason::NodeUnhealthy,
                (false, None) => Reason::PodDisrupted,
            };
            let message = match self.awaited.is_displaced(group, index) {
                true => format!("no running slice can replace the slice of pod {index} of group {group:?}"),
                false => format!(
                    "node {node:?} takes no new pods; pod {index} of group {group:?} must start there"
                ),
            };
            Fault {
                group: group.to_owned(),
                index: Some(index),
                node: Some(node.to_owned()),
                ..Fault::for_gang(reason, message, Blame::Cluster)
            }
        });
        faults.collect()
    }

    /// Returns the deadline by which restarted pods must run.
    pub(super) fn recovery_deadline(&self) -> Option<Timestamp> {
        let waits = self.awaits_gang_pods() || self.attempt_pods.gang.counts.pending > 0;
        let since = self.last_failure_time().filter(|_| waits)?;
        let startup = self.startup_seconds();
        let restart = self.observed.spec.restart.clone().unwrap_or_default();
        let max_backoff = restart.max_backoff_seconds();
        Some(add_seconds(since, startup.saturating_add(max_backoff)))
    }

    /// Returns a fault if a restarted pod of a running gang does not start in time.
    pub(super) fn late_recovery_fault(&self) -> Option<Fault> {
        self.observed.status.running_time.as_ref()?;
        let obstacle = self.first_start_obstacle();
        if let Some((fault, _)) = obstacle.filter(|(_, until)| *until <= self.observed.now) {
            return Some(fault);
        }
        let end = self
            .recovery_deadline()
            .filter(|end| *end <= self.observed.now)?;
        let message = format!("pods that were started again did not run until {end}");
        Some(Fault::for_gang(Reason::StartupTimeout, message, Blame::Job))
    }
}
