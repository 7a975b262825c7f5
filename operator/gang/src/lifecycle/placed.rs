//! A placed job: its pods start, run and end.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::job::{
    JobPhase, RestartAction, RestartRule, RestartScope, SuccessPolicy, TaskGroup,
};

use super::excluded::forget_refusals;
use super::finished::Finished;
use super::recovered::Recovery;
use super::{AilingNodes, Evaluation, Named, Next, Standing, after};
use crate::failure::{Diagnosis, Fault};
use crate::observed::PodView;
use crate::{Attempt, Wish, failure};

/// Number of nodes that a message names.
const NAMED: usize = 8;

/// Result of judging an attempt.
struct Found {
    diagnosis: Diagnosis,
    /// Pods that are started again while the others run on.
    recoveries: Vec<Recovery>,
    /// When to check again for surplus pods that do not start.
    again: Option<Timestamp>,
}

impl Evaluation<'_> {
    pub(super) fn placed(mut self) -> Next {
        if self.status.scheduled_time.is_none() {
            self.status.scheduled_time = Some(Time(self.o.now));
        }
        self.status.retry_time = None;
        self.note_arrivals();
        if let Some(message) = self.succeeded() {
            return self.complete(message);
        }
        let Found {
            diagnosis: Diagnosis { fault, stays },
            recoveries,
            again,
        } = self.found();
        if let Some(again) = again {
            self.look_again(again);
        }
        if let Some(fault) = fault {
            return self.failed(fault);
        }
        if let Some(why) = self.o.evicted {
            return self.evicted(why);
        }
        if !recoveries.is_empty() {
            self = match self.recover(&recoveries) {
                Ok(recovered) => recovered,
                Err(end) => return *end,
            };
            // These may have been the last pods that the job waited for.
            if let Some(message) = self.succeeded() {
                return self.complete(message);
            }
        }
        let up = self.up();
        let total = usize::try_from(self.o.spec.gang_size()).unwrap_or(usize::MAX);
        let wish = self.wish_to_run();
        if let Some((node, leave)) = stays {
            self.stays(&node, leave);
        }
        let was_running = self.o.status.phase == Some(JobPhase::Running);
        if up >= total || was_running {
            return self.running(wish);
        }
        self.starting(up, total, wish)
    }

    fn running(mut self, wish: Wish<Attempt>) -> Next {
        let since = self.status.running_time.get_or_insert(Time(self.o.now)).0;
        self.status.internal.failed_starts = None;
        if !self.awaited.has_pods() {
            forget_refusals(&mut self.status);
        }
        if let Some(end) = self.recovery_ends() {
            self.look_again(end);
        }
        if let Some(limit) = self.active_seconds() {
            let before = self.status.active_seconds.unwrap_or(0);
            let deadline = after(since, limit.saturating_sub(before));
            if deadline <= self.o.now {
                let message = format!("ran longer than deadlines.activeSeconds = {limit} s");
                return self.fail(Reason::ActiveDeadlineExceeded, message);
            }
            self.look_again(deadline);
        }
        let (reason, message) = self.how_it_runs();
        let (reason, message) = self.staying(reason, message);
        self.say(JobPhase::Running, reason, message, wish)
    }

    /// True if pods of the gang are awaited, or failed pods are still being deleted. Awaited
    /// surplus pods do not count, because they may never come.
    fn is_recovering(&self) -> bool {
        let of_now = |(_, pod): &&(&str, &PodView)| pod.attempt == self.attempt();
        let mut old = self.own.iter().filter(of_now);
        let groups = &self.o.spec.task_groups;
        let mut of_gang = groups.iter().map(|g| (g.name.as_str(), g.gang_size()));
        of_gang.any(|(name, size)| self.awaited.has_pods_of(name, size))
            || old.any(|(_, pod)| self.awaited.is_old(pod))
    }

    /// Reason and message of a job that runs, with all its pods or without some.
    fn how_it_runs(&self) -> (Reason, String) {
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
        let tally = self.roster.tally();
        let up = tally.running.saturating_add(tally.succeeded);
        let total = self.o.spec.pod_count();
        let is_all = usize::try_from(total).is_ok_and(|total| up >= total);
        let message = match self.o.certificate {
            _ if is_all => format!("all pods run{}", self.on_nodes()),
            Some(lack) => format!(
                "the gang runs{}, {up} of {total} pods; {}",
                self.on_nodes(),
                lack.message
            ),
            None => format!("the gang runs{}, {up} of {total} pods", self.on_nodes()),
        };
        (Reason::Running, message)
    }

    /// Nodes of the job, as `, on 2 nodes: a (4), b (4)`. The gang's nodes come from its plan, so
    /// that the text stays the same as long as the gang has its place; surplus pods add their own
    /// nodes.
    pub(super) fn on_nodes(&self) -> String {
        let plan = self.o.journal.plan.as_ref();
        let mut nodes: BTreeMap<&str, i64> = BTreeMap::new();
        for run in plan.into_iter().flat_map(|plan| &plan.assignments) {
            let pods = nodes.entry(&run.node).or_default();
            *pods = pods.saturating_add(run.count);
        }
        let surplus = self.roster.surplus.pods.iter();
        let surplus = surplus.filter(|(_, pod)| !pod.phase.is_over());
        for node in surplus.filter_map(|(_, pod)| pod.node.as_deref()) {
            let pods = nodes.entry(node).or_default();
            *pods = pods.saturating_add(1);
        }
        let named: Vec<String> = nodes
            .iter()
            .take(NAMED)
            .map(|(node, pods)| format!("{node} ({pods})"))
            .collect();
        let more = if nodes.len() > NAMED { ", ..." } else { "" };
        match nodes.len() {
            0 => String::new(),
            1 => format!(", on node {}", named.join(", ")),
            many => format!(", on {many} nodes: {}{more}", named.join(", ")),
        }
    }

    /// Longest run time of the job. A placed job that may not run any more keeps the deadline of
    /// its plan, so that its user cannot extend it while it runs.
    fn active_seconds(&self) -> Option<i64> {
        let deadlines = self.o.spec.deadlines.as_ref();
        let now = deadlines.and_then(|d| d.active_seconds);
        let is_held = matches!(self.o.standing, Standing::Held(_));
        let plan = self.o.journal.plan.as_ref().filter(|_| is_held);
        match (now, plan.and_then(|plan| plan.active_seconds)) {
            (Some(now), Some(then)) => Some(now.min(then)),
            (now, then) => now.or(then),
        }
    }

    /// The message of success, if the job has succeeded.
    pub(super) fn succeeded(&self) -> Option<String> {
        let finished = &self.finished;
        match self.o.spec.success_policy() {
            SuccessPolicy::All => {
                let groups = || self.o.spec.task_groups.iter().filter(|g| g.is_in_gang());
                let counted = |name: &str| groups().any(|group| group.name == name);
                // Every surplus pod of a counted group must end first.
                let mut surplus = self.roster.surplus.pods.iter();
                if surplus.any(|(_, pod)| !pod.phase.is_over() && counted(&pod.group)) {
                    return None;
                }
                let total = usize::try_from(self.o.spec.gang_size()).ok()?;
                let of_gang = || groups().map(|g| (g.name.as_str(), g.gang_size()));
                let succeeded = finished.completed_of(of_gang());
                match total.checked_sub(succeeded)? {
                    0 if total == 1 => Some("its pod has succeeded".to_owned()),
                    0 => Some(format!("all {total} pods have succeeded")),
                    left if succeeded > 0 && left == finished.ignored_of(of_gang()) => {
                        Some(format!(
                            "{succeeded} of {total} pods have succeeded, and the failures of the \
                         others are ignored"
                        ))
                    }
                    _ => None,
                }
            }
            SuccessPolicy::Any => finished
                .any_completed(|name| self.o.spec.group(name).is_some_and(TaskGroup::is_in_gang))
                .map(|(group, index)| format!("pod {index} of group {group:?} has succeeded")),
            SuccessPolicy::Leader => {
                let leader = self.o.spec.leader_group()?;
                finished
                    .has_completed(leader, 0)
                    .then(|| format!("rank 0, pod 0 of group {leader:?}, has succeeded"))
            }
        }
    }

    /// The group of rank 0, if its success is the job's success.
    fn leader(&self) -> Option<&str> {
        let leads = self.o.spec.success_policy() == SuccessPolicy::Leader;
        self.o.spec.leader_group().filter(|_| leads)
    }

    pub(super) fn rules(&self) -> &[RestartRule] {
        let restart = self.o.spec.restart.as_ref();
        restart.map_or(&[], |restart| &restart.rules)
    }

    /// Judges the current attempt.
    fn found(&self) -> Found {
        let nodes = AilingNodes::among(self.roster.nodes.iter().copied(), &self.o);
        let of = |pods| self.attempt_of(pods, &nodes, &self.finished);
        let (gang, surplus) = (&self.roster.gang.pods, &self.roster.surplus.pods);
        let mut recoveries: Vec<Recovery> = Vec::new();
        let alone = failure::Attempt {
            plan: None,
            ..of(surplus)
        };
        let stuck = surplus.iter().filter_map(|pod| self.stuck(*pod));
        let (late, later): (Vec<_>, Vec<_>) = stuck.partition(|(_, until)| *until <= self.o.now);
        let again = later.into_iter().map(|(_, until)| until).min();
        // A deleted surplus pod is no failure: the job can run without it.
        let is_taken = |fault: &Fault| {
            let at = surplus.binary_search_by_key(&fault.pod.as_str(), |(name, _)| name);
            let pod = at.ok().and_then(|at| surplus.get(at));
            pod.is_some_and(|(_, pod)| pod.deleting)
        };
        let late = late.into_iter().map(|(fault, _)| fault);
        let of_surplus = alone.faults().filter(|fault| !is_taken(fault)).chain(late);
        let mut ends_all = None;
        for fault in of_surplus {
            match self.recovery(&fault) {
                Some(recovery) => recoveries.push(recovery),
                None => {
                    ends_all.get_or_insert(fault);
                }
            }
        }
        // In the usual case no pod may recover alone, and one diagnosis is enough.
        if self.may_recover() {
            let attempt = of(gang);
            recoveries.extend(attempt.faults().filter_map(|fault| self.recovery(&fault)));
        }
        let awaited = recoveries.iter().map(Recovery::fault);
        let awaited = self.awaited.and(awaited);
        let others = gang.iter().copied();
        let others = others.filter(|(_, pod)| !awaited.contains(&pod.group, pod.index));
        let others: Vec<_> = others.collect();
        let attempt = failure::Attempt {
            awaited: &awaited,
            ..of(&others)
        };
        let mut diagnosis = attempt.diagnose();
        let fault = diagnosis.fault.take().or_else(|| self.on_closed_node());
        diagnosis.fault = fault.or_else(|| self.came_too_late()).or(ends_all);
        Found {
            diagnosis,
            recoveries,
            again,
        }
    }

    /// Number of gang pods that run or have finished.
    fn up(&self) -> usize {
        let groups = || self.o.spec.task_groups.iter();
        let sizes = || groups().map(|g| (g.name.as_str(), g.gang_size()));
        let ended = self.finished.completed_of(sizes());
        let ended = ended.saturating_add(self.finished.ignored_of(sizes()));
        self.roster.gang.tally.running.saturating_add(ended)
    }

    /// True if failures of some pods may leave the others running.
    fn may_recover(&self) -> bool {
        let scope = self.o.spec.restart.as_ref().and_then(|r| r.scope);
        let alone = |action: RestartAction| {
            matches!(
                action,
                RestartAction::RestartGroup | RestartAction::RestartPod
            )
        };
        matches!(scope, Some(RestartScope::Group | RestartScope::Pod))
            || (scope.is_none() && self.o.spec.task_groups.iter().any(TaskGroup::is_elastic))
            || self.rules().iter().any(|rule| alone(rule.action))
    }

    /// The current attempt, restricted to these pods, with the state of its nodes and its finished
    /// pods.
    pub(super) fn attempt_of<'m>(
        &'m self,
        pods: &'m [Named<'m>],
        nodes: &'m AilingNodes<'m>,
        finished: &'m Finished<'m>,
    ) -> failure::Attempt<'m> {
        // Pods outside the gang do not count towards its success.
        let in_gang = |pod: &PodView| {
            let group = self.o.spec.group(&pod.group);
            group.is_none_or(TaskGroup::is_in_gang)
        };
        let mut gang = self.roster.pods().filter(|pod| in_gang(pod));
        let goes_on = gang.any(|pod| !pod.phase.is_over());
        let has_completed = || {
            let groups = self.o.spec.task_groups.iter().filter(|g| g.is_in_gang());
            let sizes = groups.map(|g| (g.name.as_str(), g.replicas()));
            finished.completed_of(sizes) > 0
        };
        failure::Attempt {
            pods,
            plan: self.o.journal.plan.as_ref(),
            nodes,
            leave: self.o.leave,
            rules: self.rules(),
            leader: self.leader(),
            goes_on: goes_on || has_completed(),
            finished,
            awaited: &self.awaited,
        }
    }
}
