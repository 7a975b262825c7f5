//! Failed pods that are started again while the others run on.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::job::{RestartAction, RestartScope, TaskGroup};

use super::failed_attempt::{ChargeResult, restart_backoff};
use super::{Evaluation, EvaluationResult, add_seconds, seconds_between};
use crate::fault::{Blame, Fault, find_restart_rule};
use crate::observed::PodView;
use crate::plan_members;

/// Seconds before a failed pod outside the gang is created again. It costs the job nothing, so the
/// pause must prevent a busy loop.
const OUTSIDE_BACKOFF: i64 = 60;
/// Shortest pause in seconds before a pod is created again whose failure counts against no limit.
const UNCOUNTED_BACKOFF: i64 = 10;
/// Seconds within which failures belong together: agents that lose a peer end one after the other.
const WAVE_SECONDS: i64 = 30;
/// Seconds within which a pod that the cluster has stopped twice on a node is not tried there a
/// third time.
const REPEAT_WINDOW: i64 = 600;

/// Pods that a failure restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecoveryScope {
    Group,
    Pod,
}

/// A fault whose pod is started again while the others run on.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    fault: Fault,
    scope: RecoveryScope,
    /// True if the fault counts against a limit, provided that its blame does.
    counts_against_limit: bool,
}

impl Recovery {
    pub(super) fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl Evaluation<'_> {
    /// Returns the recovery from a fault while the other pods run on. None if they cannot or should
    /// not run on.
    pub(super) fn find_recovery(&self, fault: &Fault) -> Option<Recovery> {
        let (group, index) = (self.observed.spec.group(&fault.group)?, fault.index?);
        let rule = find_restart_rule(self.restart_rules(), fault).map(|(_, action)| action);
        let is_surplus = index >= group.gang_size();
        let counts = rule != Some(RestartAction::RestartWithoutCounting)
            && group.is_in_gang()
            && !(is_surplus && fault.blame == Blame::Cluster);
        let recovery = |scope| {
            Some(Recovery {
                fault: fault.clone(),
                scope,
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
            let ends = scope == RestartScope::Never && fault.blame == Blame::Job;
            return (!ends).then(|| recovery(RecoveryScope::Pod)).flatten();
        }
        let scope = match (rule, scope) {
            (Some(RestartAction::RestartPod), _) => RecoveryScope::Pod,
            (Some(RestartAction::RestartGroup), _) => RecoveryScope::Group,
            (_, RestartScope::Pod) => RecoveryScope::Pod,
            (_, RestartScope::Group) => RecoveryScope::Group,
            (_, RestartScope::Gang | RestartScope::Never) => return None,
        };
        if !self.can_restart_in_place(fault, group, index, scope) {
            return None;
        }
        recovery(scope)
    }

    /// Returns true if the pods can run on their nodes again: the nodes take new pods, and still
    /// have the room.
    fn can_restart_in_place(
        &self,
        fault: &Fault,
        group: &TaskGroup,
        index: u32,
        scope: RecoveryScope,
    ) -> bool {
        let passes = matches!(
            fault.reason,
            Reason::PodFailed | Reason::OutOfMemory | Reason::PodDisrupted
        );
        let stays = || match scope {
            RecoveryScope::Pod => fault
                .node
                .as_deref()
                .is_none_or(|node| self.is_node_open(node)),
            RecoveryScope::Group => self.is_place_open(group),
        };
        // A finished pod has released its resources, which another gang may hold by now.
        let is_whole = || {
            let mut indexes = 0..group.gang_size();
            indexes.all(|i| !self.finished.contains(&group.name, i))
        };
        let own = |pod: &&PodView| match scope {
            RecoveryScope::Group => pod.group == group.name,
            RecoveryScope::Pod => pod.group == group.name && pod.index == index,
        };
        let twice = || {
            let before = self.last_failure_time();
            let soon =
                before.is_some_and(|at| seconds_between(at, self.observed.now) < REPEAT_WINDOW);
            soon && self
                .attempt_pods
                .pods()
                .filter(own)
                .any(|pod| pod.round > 0)
        };
        // Ten thousand failed pods may be checked at once, so the expensive checks come last.
        passes
            && stays()
            && (scope == RecoveryScope::Pod || is_whole())
            && !(fault.blame == Blame::Cluster && twice())
    }

    /// Returns true if all nodes of the group's place take new pods.
    fn is_place_open(&self, group: &TaskGroup) -> bool {
        let plan = self.observed.journal.plan.as_ref();
        let runs = plan.into_iter().flat_map(|plan| &plan.assignments);
        let mut own = runs.filter(|run| run.group == group.name);
        own.all(|run| self.is_node_open(&run.node))
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
    /// elastic group rendezvous at rank 0 and cannot continue without it.
    fn restart_scope(&self, group: &TaskGroup, index: u32) -> RestartScope {
        let restart = self.observed.spec.restart.as_ref();
        let leads = self.observed.spec.leader_group() == Some(&group.name) && index == 0;
        let default = match group.is_elastic() && !leads {
            true => RestartScope::Pod,
            false => RestartScope::Gang,
        };
        restart.and_then(|r| r.scope).unwrap_or(default)
    }

    /// Starts the pods again. The restart counts once, however many pods there are, and further
    /// failures with the same cause do not count again. The error is the end of the job, if a limit
    /// is used up.
    pub(super) fn start_recoveries(
        mut self,
        recoveries: &[Recovery],
    ) -> Result<Self, Box<EvaluationResult>> {
        let counted = |blame: Blame| {
            let mut those = recoveries.iter().filter(move |r| r.counts_against_limit);
            those.find(|r| r.fault.blame == blame)
        };
        let dearest = counted(Blame::Job).or_else(|| counted(Blame::Cluster));
        let Some(told) = dearest.or_else(|| recoveries.first()) else {
            return Ok(self);
        };
        let restart = self.observed.spec.restart.clone().unwrap_or_default();
        let mut awaited = self.awaited_pods();
        let joins = self.joins_counted_wave(awaited.counted_round, recoveries);
        let rounds = u32::try_from(awaited.round).unwrap_or(u32::MAX);
        let mut wait = restart_backoff(&restart, rounds).max(UNCOUNTED_BACKOFF);
        if joins {
            wait = 0;
        } else if let Some(dearest) = dearest {
            wait = match self.charge_restart(dearest.fault.blame, &restart) {
                ChargeResult::Allowed(used) if dearest.fault.blame == Blame::Job => {
                    restart_backoff(&restart, u32::try_from(used).unwrap_or(u32::MAX))
                }
                ChargeResult::Allowed(_) => 0,
                ChargeResult::Exhausted {
                    limit: words,
                    reason,
                } => {
                    self.record_failure(&dearest.fault, false);
                    let message = format!("{}; {words}", dearest.fault.message);
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
        if !joins {
            self.record_failure(&told.fault, false);
            awaited.counted_round = awaited.round;
        }
        let not_before = (wait > 0).then(|| Time(add_seconds(self.observed.now, wait)));
        let outside = Some(Time(add_seconds(self.observed.now, OUTSIDE_BACKOFF)));
        let hurried = told.fault.blame == Blame::Job;
        for (group, pods) in self.pods_to_delete(recoveries) {
            let in_gang = self
                .observed
                .spec
                .group(&group)
                .is_some_and(TaskGroup::is_in_gang);
            let not_before = if in_gang { &not_before } else { &outside };
            awaited.await_pods(&group, &pods, not_before.clone(), hurried);
        }
        self.replace_awaited(awaited);
        Ok(self)
    }

    /// Returns true if all these pods are from rounds before the last counted one, which is recent:
    /// they have failed with the same cause, or the cache is late.
    fn joins_counted_wave(&self, round: i64, recoveries: &[Recovery]) -> bool {
        let before = self.last_failure_time();
        let soon = before.is_some_and(|at| seconds_between(at, self.observed.now) < WAVE_SECONDS);
        if round <= 0 || !soon {
            return false;
        }
        let pods = self.attempt_pods.pods();
        let rounds = pods.map(|p| ((p.group.as_str(), p.index), p.round));
        let rounds: BTreeMap<(&str, u32), i64> = rounds.collect();
        let is_of_before = |recovery: &Recovery| {
            let index = recovery.fault.index.unwrap_or_default();
            let own = rounds.get(&(recovery.fault.group.as_str(), index));
            own.is_none_or(|own| *own < round)
        };
        recoveries.iter().all(is_of_before)
    }

    /// Returns the pods that are to be deleted, by group.
    fn pods_to_delete(&self, recoveries: &[Recovery]) -> BTreeMap<String, BTreeSet<u32>> {
        let mut doomed: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        let mut whole: BTreeSet<&str> = BTreeSet::new();
        for recovery in recoveries {
            let group = &recovery.fault.group;
            let pods = doomed.entry(group.clone()).or_default();
            pods.extend(recovery.fault.index);
            if recovery.scope == RecoveryScope::Group && whole.insert(group) {
                let spec = self.observed.spec.group(group);
                pods.extend(0..spec.map_or(0, TaskGroup::gang_size));
                let others = self.attempt_pods.pods().filter(|pod| pod.group == *group);
                pods.extend(others.map(|pod| pod.index));
            }
        }
        doomed
    }

    /// Returns a fault if a missing pod of the gang is to be created on a node that takes no new
    /// pods.
    pub(super) fn closed_node_fault(&self) -> Option<Fault> {
        if !self.awaited.has_any() {
            return None;
        }
        let plan = self.observed.journal.plan.as_ref()?;
        let pods = self.attempt_pods.pods();
        let there: BTreeSet<_> = pods.map(|pod| (pod.group.as_str(), pod.index)).collect();
        let is_to_come = |(group, index, _): &(&str, u32, &str)| {
            !there.contains(&(*group, *index)) && self.awaited.contains(group, *index)
        };
        let mut members = plan_members(plan).filter(is_to_come);
        let (group, index, node) = members.find(|(.., node)| !self.is_node_open(node))?;
        let reason = match (
            (self.observed.is_lost)(node),
            (self.observed.unhealthy_reason)(node),
        ) {
            (true, _) => Reason::NodeLost,
            (false, Some(_)) => Reason::NodeUnhealthy,
            (false, None) => Reason::PodDisrupted,
        };
        let message = format!(
            "node {node:?}, on which pod {index} of group {group:?} is to come, takes none any more"
        );
        Some(Fault {
            group: group.to_owned(),
            node: Some(node.to_owned()),
            ..Fault::for_gang(reason, message, Blame::Cluster)
        })
    }

    /// Returns the deadline by which restarted pods must run.
    pub(super) fn recovery_deadline(&self) -> Option<Timestamp> {
        let groups = || self.observed.spec.task_groups.iter();
        let mut sizes = groups().map(|g| (g.name.as_str(), g.gang_size()));
        let waits = sizes.any(|(name, size)| self.awaited.has_pods_of(name, size))
            || self.attempt_pods.gang.counts.pending > 0;
        let since = self.last_failure_time().filter(|_| waits)?;
        let startup = self.startup_seconds();
        let restart = self.observed.spec.restart.clone().unwrap_or_default();
        let most = restart.max_backoff_seconds();
        Some(add_seconds(since, startup.saturating_add(most)))
    }

    /// Returns a fault if a restarted pod of a running gang does not start in time.
    pub(super) fn late_recovery_fault(&self) -> Option<Fault> {
        self.observed.status.running_time.as_ref()?;
        let stuck = self.first_start_obstacle();
        if let Some((fault, _)) = stuck.filter(|(_, until)| *until <= self.observed.now) {
            return Some(fault);
        }
        let end = self
            .recovery_deadline()
            .filter(|end| *end <= self.observed.now)?;
        let message = format!("pods that were started again did not run until {end}");
        Some(Fault::for_gang(Reason::StartupTimeout, message, Blame::Job))
    }
}
