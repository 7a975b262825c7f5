//! A placed job: its pods start, run and end.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::job::{
    JobPhase, RestartAction, RestartRule, RestartScope, SuccessPolicy, TaskGroup,
};

use super::displaced_slices::postpone_evictions;
use super::indexes::finished::FinishedIndex;
use super::nodes::excluded::forget_refusals;
use super::recovery::Recovery;
use super::{BadNodes, Evaluation, EvaluationResult, JobReadiness, NamedPod, add_seconds};
use crate::failure::Diagnosis;
use crate::failure::fault::Fault;
use crate::observed::PodView;
use crate::{DesiredAttempt, DesiredGang, failure};

/// Number of nodes that a message names.
const MAX_NAMED_NODES: usize = 8;

/// Result of judging an attempt.
struct AttemptFindings {
    diagnosis: Diagnosis,
    /// Pods that are started again while the others run on.
    recoveries: Vec<Recovery>,
    /// When to check again for surplus pods that do not start.
    next_check: Option<Timestamp>,
}

impl Evaluation<'_> {
    pub(super) fn evaluate_placed(mut self) -> EvaluationResult {
        if self.status.scheduled_time.is_none() {
            self.status.scheduled_time = Some(Time(self.observed.now));
        }
        self.status.retry_time = None;
        self.remove_arrived();
        if let Some(message) = self.success_message() {
            return self.complete_stage(message);
        }
        let AttemptFindings {
            diagnosis:
                Diagnosis {
                    fault,
                    unhealthy_node: stays,
                },
            recoveries,
            next_check: again,
        } = self.judge_attempt();
        if let Some(again) = again {
            self.schedule_check(again);
        }
        if let Some(fault) = fault {
            return self.end_failed_attempt(fault);
        }
        if let Some(why) = self.observed.eviction_reason {
            return self.evict_by_policy(why);
        }
        if !recoveries.is_empty() {
            self = match self.start_recoveries(&recoveries) {
                Ok(recovered) => recovered,
                Err(end) => return *end,
            };
            // Without the failed pods, the job may have succeeded.
            if let Some(message) = self.success_message() {
                return self.complete_stage(message);
            }
        }
        let up = self.count_up_pods();
        let total = usize::try_from(self.observed.spec.gang_size()).unwrap_or(usize::MAX);
        let desired = self.desired_run();
        if let Some((node, decision)) = stays {
            self.record_unhealthy_node(&node, decision);
        }
        let was_running = self.observed.status.phase == Some(JobPhase::Running);
        if up >= total || was_running {
            return self.evaluate_running(desired);
        }
        self.evaluate_starting(up, total, desired)
    }

    fn evaluate_running(mut self, desired: DesiredGang<DesiredAttempt>) -> EvaluationResult {
        let since = self
            .status
            .running_time
            .get_or_insert(Time(self.observed.now))
            .0;
        self.status.internal.failed_starts = None;
        if !self.awaited.has_pods() {
            forget_refusals(&mut self.status);
        }
        if let Some(end) = self.recovery_deadline() {
            self.schedule_check(end);
        }
        if let Some(limit) = self.active_seconds() {
            let before = self.status.active_seconds.unwrap_or(0);
            let deadline = add_seconds(since, limit.saturating_sub(before));
            if deadline <= self.observed.now {
                let message = format!("ran longer than deadlines.activeSeconds = {limit} s");
                return self.fail_job(Reason::ActiveDeadlineExceeded, message);
            }
            self.schedule_check(deadline);
        }
        let (reason, message) = self.running_message();
        let (reason, message) = self.add_unhealthy_node(reason, message);
        self.report(JobPhase::Running, reason, message, desired)
    }

    /// Returns true if pods of the gang are awaited, or failed pods are still being deleted.
    /// Awaited surplus pods do not count, because they may never come.
    fn is_recovering(&self) -> bool {
        let is_current = |(_, pod): &&(&str, &PodView)| pod.attempt == self.attempt();
        let mut current_pods = self.job_pods.iter().filter(is_current);
        self.awaits_gang_pods() || current_pods.any(|(_, pod)| self.awaited.is_replaced(pod))
    }

    /// Returns the reason and message of a running job.
    fn running_message(&self) -> (Reason, String) {
        let last = self.status.last_failure.as_ref();
        let last = last.filter(|last| last.attempt == self.attempt());
        if let Some(last) = last.filter(|_| self.is_recovering()) {
            let (pod, why) = (&last.pod, &last.reason);
            let code = last
                .exit_code
                .map_or_else(String::new, |c| format!(", exit code {c}"));
            let message = format!(
                "the others go on while what failed is started again: pod {pod:?}, {why}{code}"
            );
            return (Reason::Recovering, message);
        }
        let tally = self.attempt_pods.phase_counts();
        let up = tally.running.saturating_add(tally.succeeded);
        let total = self.observed.spec.pod_count();
        let is_all = usize::try_from(total).is_ok_and(|total| up >= total);
        let message = match self.observed.explanation {
            _ if is_all => format!("all pods run{}", self.nodes_message()),
            Some(lack) => format!(
                "the gang runs{}, {up} of {total} pods; {}",
                self.nodes_message(),
                lack.message
            ),
            None => format!(
                "the gang runs{}, {up} of {total} pods",
                self.nodes_message()
            ),
        };
        (Reason::Running, message)
    }

    /// Returns the nodes of the job, as `, on 2 nodes: a (4), b (4)`. The gang's nodes come from
    /// its plan, so that the text stays the same as long as the gang has its place; surplus pods
    /// add their own nodes.
    pub(super) fn nodes_message(&self) -> String {
        let plan = self.observed.journal.plan.as_ref();
        let mut nodes: BTreeMap<&str, i64> = BTreeMap::new();
        for run in plan.into_iter().flat_map(|plan| &plan.assignments) {
            let pods = nodes.entry(&run.node).or_default();
            *pods = pods.saturating_add(run.count);
        }
        let surplus = self.attempt_pods.surplus.pods.iter();
        let surplus = surplus.filter(|(_, pod)| !pod.phase.is_over());
        for node in surplus.filter_map(|(_, pod)| pod.node.as_deref()) {
            let pods = nodes.entry(node).or_default();
            *pods = pods.saturating_add(1);
        }
        let named: Vec<String> = nodes
            .iter()
            .take(MAX_NAMED_NODES)
            .map(|(node, pods)| format!("{node} ({pods})"))
            .collect();
        let more = if nodes.len() > MAX_NAMED_NODES {
            ", ..."
        } else {
            ""
        };
        match nodes.len() {
            0 => String::new(),
            1 => format!(", on node {}", named.join(", ")),
            many => format!(", on {many} nodes: {}{more}", named.join(", ")),
        }
    }

    /// Returns the longest run time of the job. A placed job that may not run any more keeps the
    /// deadline of its plan, so that its user cannot extend it while it runs.
    fn active_seconds(&self) -> Option<i64> {
        let deadlines = self.observed.spec.deadlines.as_ref();
        let now = deadlines.and_then(|d| d.active_seconds);
        let is_held = matches!(self.observed.readiness, JobReadiness::OnHold(_));
        let plan = self.observed.journal.plan.as_ref().filter(|_| is_held);
        match (now, plan.and_then(|plan| plan.active_seconds)) {
            (Some(now), Some(then)) => Some(now.min(then)),
            (now, then) => now.or(then),
        }
    }

    /// Returns the message of success, if the job has succeeded.
    pub(super) fn success_message(&self) -> Option<String> {
        let finished = &self.finished;
        match self.observed.spec.success_policy() {
            SuccessPolicy::All => {
                let groups = || {
                    self.observed
                        .spec
                        .task_groups
                        .iter()
                        .filter(|g| g.is_in_gang())
                };
                let counted = |name: &str| groups().any(|group| group.name == name);
                // Every surplus pod of a counted group must end first.
                let mut surplus = self.attempt_pods.surplus.pods.iter();
                if surplus.any(|(_, pod)| !pod.phase.is_over() && counted(&pod.group)) {
                    return None;
                }
                let total = usize::try_from(self.observed.spec.gang_size()).ok()?;
                let is_of_gang = |group: &str, index| self.is_part_of_gang(group, index);
                let succeeded = finished.count_completed(is_of_gang);
                match total.checked_sub(succeeded)? {
                    0 if total == 1 => Some("its pod has succeeded".to_owned()),
                    0 => Some(format!("all {total} pods have succeeded")),
                    left if succeeded > 0 && left == finished.count_ignored(is_of_gang) => {
                        Some(format!(
                            "{succeeded} of {total} pods have succeeded, and the failures of the \
                         others are ignored"
                        ))
                    }
                    _ => None,
                }
            }
            SuccessPolicy::Any => finished
                .find_completed(|name| {
                    self.observed
                        .spec
                        .group(name)
                        .is_some_and(TaskGroup::is_in_gang)
                })
                .map(|(group, index)| format!("pod {index} of group {group:?} has succeeded")),
            SuccessPolicy::Leader => {
                let leader = self.observed.spec.leader_group()?;
                finished
                    .has_completed(leader, 0)
                    .then(|| format!("rank 0, pod 0 of group {leader:?}, has succeeded"))
            }
        }
    }

    /// Returns the group of rank 0, if its success is the job's success.
    pub(super) fn leader_group(&self) -> Option<&str> {
        let leads = self.observed.spec.success_policy() == SuccessPolicy::Leader;
        self.observed.spec.leader_group().filter(|_| leads)
    }

    pub(super) fn restart_rules(&self) -> &[RestartRule] {
        let restart = self.observed.spec.restart.as_ref();
        restart.map_or(&[], |restart| &restart.rules)
    }

    /// Judges the current attempt.
    fn judge_attempt(&self) -> AttemptFindings {
        let nodes = BadNodes::from_nodes(self.attempt_pods.nodes.iter().copied(), &self.observed);
        let observe = |pods| self.observe_attempt(pods, &nodes, &self.finished);
        let (gang, surplus) = (
            &self.attempt_pods.gang.pods,
            &self.attempt_pods.surplus.pods,
        );
        let mut recoveries: Vec<Recovery> = Vec::new();
        let surplus_attempt = failure::ObservedAttempt {
            plan: None,
            ..observe(surplus)
        };
        let obstacles = surplus.iter().filter_map(|pod| self.start_obstacle(*pod));
        let (overdue, not_due): (Vec<_>, Vec<_>) =
            obstacles.partition(|(_, until)| *until <= self.observed.now);
        let next_check = not_due.into_iter().map(|(_, until)| until).min();
        // A deleted surplus pod is no failure: the job can run without it.
        let is_deleted = |fault: &Fault| {
            let at = surplus.binary_search_by_key(&fault.pod.as_str(), |(name, _)| name);
            let pod = at.ok().and_then(|at| surplus.get(at));
            pod.is_some_and(|(_, pod)| pod.deleting)
        };
        let overdue = overdue.into_iter().map(|(fault, _)| fault);
        let surplus_faults = surplus_attempt
            .faults()
            .filter(|fault| !is_deleted(fault))
            .chain(overdue);
        let mut fatal_fault = None;
        for fault in surplus_faults {
            match self.find_recovery(&fault) {
                Some(recovery) => recoveries.push(recovery),
                None => {
                    fatal_fault.get_or_insert(fault);
                }
            }
        }
        let closed = self.closed_node_faults();
        // If no pod may restart alone, one diagnosis is enough.
        if self.can_recover() {
            let attempt = observe(gang);
            let faults = attempt.faults().chain(self.newly_closed(&closed).cloned());
            recoveries.extend(faults.filter_map(|fault| self.find_recovery(&fault)));
            self.retain_replaceable(&mut recoveries);
        }
        let postponed = postpone_evictions(&mut recoveries);
        let leaving = self.restarted_pods(recoveries.iter().chain(&postponed));
        let awaited = self.awaited.with_pods(leaving);
        let judged_pods = gang.iter().copied();
        let judged_pods = judged_pods.filter(|(_, pod)| !awaited.contains(&pod.group, pod.index));
        let judged_pods: Vec<_> = judged_pods.collect();
        let attempt = failure::ObservedAttempt {
            awaited: &awaited,
            ..observe(&judged_pods)
        };
        let mut diagnosis = attempt.diagnose();
        let fault = diagnosis.fault.take();
        let fault = fault.or_else(|| self.unreplaceable_fault(closed, &recoveries));
        diagnosis.fault = fault.or_else(|| self.late_recovery_fault()).or(fatal_fault);
        AttemptFindings {
            diagnosis,
            recoveries,
            next_check,
        }
    }

    /// Returns the number of gang pods that run or have finished.
    fn count_up_pods(&self) -> usize {
        let is_of_gang = |group: &str, index| self.is_part_of_gang(group, index);
        let ended = self.finished.count_completed(is_of_gang);
        let ended = ended.saturating_add(self.finished.count_ignored(is_of_gang));
        self.attempt_pods.gang.counts.running.saturating_add(ended)
    }

    /// Returns true if pods may restart while the other pods keep running.
    fn can_recover(&self) -> bool {
        let scope = self.observed.spec.restart.as_ref().and_then(|r| r.scope);
        let restarts_part = |action: RestartAction| {
            matches!(
                action,
                RestartAction::RestartGroup
                    | RestartAction::RestartSlice
                    | RestartAction::RestartPod
            )
        };
        let restarts_alone = |scope| {
            let scopes = [RestartScope::Group, RestartScope::Slice, RestartScope::Pod];
            scopes.contains(&scope)
        };
        scope.is_some_and(restarts_alone)
            || (scope.is_none()
                && self
                    .observed
                    .spec
                    .task_groups
                    .iter()
                    .any(|group| group.min_replicas.is_some()))
            || self
                .restart_rules()
                .iter()
                .any(|rule| restarts_part(rule.action))
    }

    /// Returns the current attempt, restricted to these pods, with the state of its nodes and its
    /// finished pods.
    pub(super) fn observe_attempt<'m>(
        &'m self,
        pods: &'m [NamedPod<'m>],
        nodes: &'m BadNodes<'m>,
        finished: &'m FinishedIndex<'m>,
    ) -> failure::ObservedAttempt<'m> {
        // Pods outside the gang do not count towards its success.
        let in_gang = |pod: &PodView| {
            let group = self.observed.spec.group(&pod.group);
            group.is_none_or(TaskGroup::is_in_gang)
        };
        let mut gang = self.attempt_pods.pods().filter(|pod| in_gang(pod));
        let has_running_pods = gang.any(|pod| !pod.phase.is_over());
        let has_completed = || {
            let is_counted = |group: &str, _| {
                let group = self.observed.spec.group(group);
                group.is_some_and(TaskGroup::is_in_gang)
            };
            finished.count_completed(is_counted) > 0
        };
        failure::ObservedAttempt {
            pods,
            plan: self.observed.journal.plan.as_ref(),
            nodes,
            eviction_decision: self.observed.eviction_decision,
            rules: self.restart_rules(),
            leader_group: self.leader_group(),
            can_ignore_failures: has_running_pods || has_completed(),
            finished,
            awaited: &self.awaited,
        }
    }
}
