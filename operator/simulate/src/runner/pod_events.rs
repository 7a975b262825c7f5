//! Events of single pods in a scenario. A pod fails, leaves or finishes, and its gang reacts as
//! docs/failures.md describes.

use std::collections::BTreeSet;
use std::time::Duration;

use trellis_api::Reason;
use trellis_api::job::{Restart, RestartAction, RestartScope};
use trellis_gang::engine::SurplusUnit;
use trellis_gang::{Blame, Fault, engine, find_restart_rule, restart_backoff};
use trellis_scheduler::{GangId, GroupName, NodeName, PodKey, Time};

use super::agenda::{DueEvent, RunEvent};
use super::record::JobEvent;
use super::script::{PodChange, ScriptPodEvent};
use super::simulated_job::{SimulatedJobStage, StoppedPod};
use super::surplus_pods::state::SurplusPhase;
use super::{SimulationRunner, add_duration};
use crate::summary::ExpectationResult;

/// Time for which a restarting gang keeps its nodes.
const RESTART_PLACE_TTL: Duration = Duration::from_secs(120);
/// Back-off of a pod outside the gang.
const SURPLUS_BACKOFF: Duration = Duration::from_secs(60);
/// Shortest pause of a restart that counts against no limit, in seconds.
const UNCOUNTED_BACKOFF: i64 = 10;

/// The pods that restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestartedPods {
    Gang,
    Group,
    Slice,
    Pod,
    Nothing,
}

impl RestartedPods {
    /// Returns the words for the pods. None: the whole gang restarts, or nothing.
    fn subject(self) -> Option<&'static str> {
        match self {
            Self::Group => Some("its task group"),
            Self::Slice => Some("its slice"),
            Self::Pod => Some("it"),
            Self::Gang | Self::Nothing => None,
        }
    }
}

impl SimulationRunner<'_, '_> {
    /// Applies an event of one pod of a job.
    pub(super) fn apply_pod_event(&mut self, event: &ScriptPodEvent) {
        let unit = SurplusUnit {
            group: event.group.clone(),
            first: event
                .slice
                .as_ref()
                .map_or(event.index, |slice| slice.start),
        };
        let surplus = engine::surplus_gang_id(&engine::job_key(&event.job), &unit);
        let Some(job) = self.jobs.get(&event.job) else {
            self.report_impossible(event, "its job does not exist");
            return;
        };
        if job.surplus.unit(&surplus).is_some() {
            match job.surplus.phases.get(&surplus) {
                Some(SurplusPhase::Placed(_)) => self.apply_surplus_event(event, &surplus),
                _ => self.report_impossible(event, "it is not running"),
            }
            return;
        }
        let key = PodKey::new(format!("{}/{}", event.job.namespace(), event.pod));
        let is_absent = job.stopped_pods.contains_key(&key);
        if !matches!(job.stage, SimulatedJobStage::Placed { .. }) || is_absent {
            self.report_impossible(event, "it is not running");
            return;
        }
        self.apply_gang_pod_event(event, key);
    }

    /// Reports a pod event that cannot happen as a failed expectation, because the scenario is
    /// wrong.
    fn report_impossible(&mut self, event: &ScriptPodEvent, problem: &str) {
        let words = event.change.as_str();
        let reason = format!("pod {} cannot {words}: {problem}", event.pod);
        self.expectations
            .push(ExpectationResult::failed(self.now, reason));
    }

    /// Applies an event of a pod of the gang.
    fn apply_gang_pod_event(&mut self, event: &ScriptPodEvent, key: PodKey) {
        let cause = format!("{} {}", event.pod, event.change.past_text());
        let blame = match &event.change {
            PodChange::Finishes => {
                self.finish_pod(event, key, cause);
                return;
            }
            PodChange::Fails { .. } => Blame::Job,
            PodChange::Leaves => Blame::Cluster,
        };
        let (action, is_counted) = self.restart_action(event);
        let Some(job) = self.jobs.get(&event.job) else {
            return;
        };
        let restart = job.restart.clone();
        let restarted = match action {
            RestartAction::Fail => RestartedPods::Nothing,
            RestartAction::Ignore => {
                self.finish_pod(event, key, format!("{cause}, which a rule ignores"));
                return;
            }
            RestartAction::RestartGroup => RestartedPods::Group,
            RestartAction::RestartSlice if event.slice.is_some() => RestartedPods::Slice,
            RestartAction::RestartPod => RestartedPods::Pod,
            RestartAction::Restart
            | RestartAction::RestartSlice
            | RestartAction::RestartWithoutCounting => self.restarted_by_scope(event, &restart),
        };
        if restarted == RestartedPods::Nothing {
            self.fail_job(&event.job, format!("{}: {cause}", Reason::FailedByRule));
            return;
        }
        let Some(pause) = self.count_restart(&event.job, blame, is_counted, &cause) else {
            return;
        };
        let node = self.node_of(&event.job, event);
        let is_cordoned = node.as_ref().is_none_or(|node| {
            let known = self.nodes.get(node);
            known.is_none_or(|node| node.unschedulable || !node.ready)
        });
        let back = add_duration(self.now, pause);
        match restarted.subject() {
            Some(subject) if !is_cordoned => {
                let keys = self.affected_pods(event, restarted);
                self.stop_pods_until(&event.job, keys, back);
                let when = super::to_seconds(back);
                let reason =
                    format!("{cause}: {subject} restarts at {when} s, the other pods keep running");
                self.report_event(JobEvent::Recovering, &event.job, reason);
            }
            _ => self.restart_gang(&event.job, back, cause),
        }
    }

    /// Returns the action of the job's restart rules, and whether a restart counts against a limit.
    fn restart_action(&self, event: &ScriptPodEvent) -> (RestartAction, bool) {
        let (exit_code, word) = match &event.change {
            PodChange::Fails { exit_code, reason } => (
                Some(exit_code.unwrap_or(1)),
                reason.clone().unwrap_or_else(|| "Error".to_owned()),
            ),
            _ => (None, "Evicted".to_owned()),
        };
        let fault = Fault {
            pod: event.pod.clone(),
            group: event.group.clone(),
            index: Some(event.index),
            node: None,
            exit_code,
            last_line: None,
            reason: match event.change {
                PodChange::Leaves => Reason::PodDisrupted,
                _ => Reason::PodFailed,
            },
            kubelet_reason: word,
            message: String::new(),
            blame: Blame::Job,
        };
        let rules = self.jobs.get(&event.job).map(|job| &job.restart.rules);
        let rule = rules.and_then(|rules| find_restart_rule(rules, &fault));
        let action = rule.map_or(RestartAction::Restart, |(_, action)| action);
        (action, action != RestartAction::RestartWithoutCounting)
    }

    /// Returns the pods that restart with `restart.scope`.
    fn restarted_by_scope(&self, event: &ScriptPodEvent, restart: &Restart) -> RestartedPods {
        match restart.scope {
            Some(RestartScope::Gang) => RestartedPods::Gang,
            Some(RestartScope::Group) => RestartedPods::Group,
            Some(RestartScope::Slice) if event.slice.is_some() => RestartedPods::Slice,
            Some(RestartScope::Slice) => RestartedPods::Gang,
            Some(RestartScope::Pod) => RestartedPods::Pod,
            Some(RestartScope::Never) => RestartedPods::Nothing,
            None if event.is_elastic && event.slice.is_some() => RestartedPods::Slice,
            // The other ranks of an elastic group connect to rank 0.
            None if event.is_elastic && event.rank != Some(0) => RestartedPods::Pod,
            None => RestartedPods::Gang,
        }
    }

    /// Counts a restart and returns the pause before it. None: the limit is used up, and the job
    /// fails.
    fn count_restart(
        &mut self,
        id: &GangId,
        blame: Blame,
        is_counted: bool,
        cause: &str,
    ) -> Option<Duration> {
        let job = self.jobs.get_mut(id)?;
        let (limit, name, reason) = match blame {
            Blame::Job => (job.restart.limit(), "limit", Reason::RestartLimitReached),
            _ => {
                let limit = job.restart.disruption_limit();
                (limit, "disruptionLimit", Reason::DisruptionLimitReached)
            }
        };
        let used = match blame {
            Blame::Job => &mut job.failures,
            _ => &mut job.disruptions,
        };
        let before = *used;
        if is_counted && i64::from(before) >= limit {
            let cause = format!("{reason}: {cause}; restart.{name} = {limit} is used up");
            self.fail_job(id, cause);
            return None;
        }
        *used = used.saturating_add(u32::from(is_counted));
        let seconds = match (blame, is_counted) {
            (Blame::Job, true) => restart_backoff(&job.restart, before),
            (Blame::Job, false) => restart_backoff(&job.restart, before).max(UNCOUNTED_BACKOFF),
            _ => 0,
        };
        Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    /// Restarts the gang. The gang keeps its nodes, except cordoned ones.
    fn restart_gang(&mut self, id: &GangId, back: Time, reason: String) {
        let cordoned = self.nodes.iter().filter(|(_, node)| node.unschedulable);
        let cordoned: Vec<NodeName> = cordoned.map(|(name, _)| name.clone()).collect();
        let until = self.now.plus(RESTART_PLACE_TTL);
        self.end_placement(id, SimulatedJobStage::Waiting);
        let is_kept = self.engine.keep_place(id, &cordoned, until);
        if !is_kept {
            self.engine.release_gang(id, Some(back));
        }
        self.report_event(JobEvent::Restarted, id, reason);
        if let Some(job) = self.jobs.get(id).filter(|_| is_kept) {
            let due = DueEvent {
                event: RunEvent::RetryGang,
                job: id.clone(),
                event_generation: job.event_generation,
            };
            self.agenda.add(back, due);
        }
        self.is_unsettled = true;
    }

    fn fail_job(&mut self, id: &GangId, reason: String) {
        self.end_placement(id, SimulatedJobStage::Ended);
        self.engine.delete_gang(id);
        self.report_event(JobEvent::Failed, id, reason);
        self.is_unsettled = true;
    }

    /// Stops the pods until this time.
    fn stop_pods_until(&mut self, id: &GangId, keys: BTreeSet<PodKey>, until: Time) {
        let Some(job) = self.jobs.get_mut(id) else {
            return;
        };
        for key in keys {
            let has_completed = job.stopped_pods.get(&key) == Some(&StoppedPod::Done);
            if !has_completed {
                job.stopped_pods.insert(key.clone(), StoppedPod::Restarting);
                let due = DueEvent {
                    event: RunEvent::ReturnPod(key),
                    job: id.clone(),
                    event_generation: job.event_generation,
                };
                self.agenda.add(until, due);
            }
        }
    }

    /// Returns the pods of the gang that restart with the pod of the event.
    fn affected_pods(&self, event: &ScriptPodEvent, restarted: RestartedPods) -> BTreeSet<PodKey> {
        let job = self.jobs.get(&event.job);
        let name = GroupName::new(event.group.as_str());
        let Some((job, pods)) = job.and_then(|job| Some((job, job.gang.member(&name)?.1))) else {
            return BTreeSet::new();
        };
        let single = event.index..event.index.saturating_add(1);
        let indexes = match (restarted, &event.slice) {
            (RestartedPods::Group, _) => 0..pods.end.saturating_sub(pods.start),
            (RestartedPods::Slice, Some(slice)) => slice.clone(),
            _ => single,
        };
        indexes
            .filter_map(|index| Some(job.gang.member_pod(&name, index)?.1))
            .collect()
    }

    /// Returns the node of a pod of the gang.
    pub(super) fn node_of(&self, id: &GangId, event: &ScriptPodEvent) -> Option<NodeName> {
        let placement = self.engine.placement(id)?;
        let group = GroupName::new(event.group.as_str());
        let mut pods = placement.iter();
        let (_, _, node) =
            pods.find(|(name, index, _)| **name == group && *index == event.index)?;
        Some(node.clone())
    }

    /// Records that a surplus pod has finished. Returns true if all pods of its unit have.
    fn record_finished_pod(&mut self, event: &ScriptPodEvent, id: &GangId) -> bool {
        let Some(job) = self.jobs.get_mut(&event.job) else {
            return true;
        };
        let finished = job.surplus.finished.entry(id.clone()).or_default();
        finished.insert(event.index);
        let size = event.slice.as_ref().map_or(1, ExactSizeIterator::len);
        finished.len() >= size
    }

    /// Applies an event of a surplus pod. The gang keeps running.
    fn apply_surplus_event(&mut self, event: &ScriptPodEvent, id: &GangId) {
        let reason = format!("{} {}", event.pod, event.change.past_text());
        let job = event.job.clone();
        if event.change == PodChange::Finishes {
            if self.record_finished_pod(event, id) {
                self.free_surplus(&job, id, Some(SurplusPhase::Done));
            }
            self.close_group(event);
            self.report_event(JobEvent::PodEnded, &job, reason);
            self.finish_job_if_done(&job);
            return;
        }
        let is_failure = matches!(event.change, PodChange::Fails { .. });
        let (action, is_counted) = self.restart_action(event);
        let scope = self.jobs.get(&job).and_then(|job| job.restart.scope);
        let ends = match action {
            RestartAction::Fail => true,
            RestartAction::Restart => scope == Some(RestartScope::Never),
            _ => false,
        };
        if event.is_elastic && is_failure && ends {
            self.fail_job(&job, format!("{}: {reason}", Reason::FailedByRule));
            return;
        }
        let pause = match (is_failure, event.is_elastic) {
            (true, true) if action == RestartAction::Ignore => {
                self.free_surplus(&job, id, Some(SurplusPhase::Done));
                self.report_event(
                    JobEvent::PodEnded,
                    &job,
                    format!("{reason}, which a rule ignores"),
                );
                return;
            }
            (true, true) => match self.count_restart(&job, Blame::Job, is_counted, &reason) {
                Some(pause) => Some(pause),
                None => return,
            },
            (true, false) => Some(SURPLUS_BACKOFF),
            (false, _) => None,
        };
        let Some(pause) = pause else {
            self.free_surplus(&job, id, None);
            self.report_event(JobEvent::Shrunk, &job, reason);
            self.submit_surplus(&job);
            return;
        };
        self.free_surplus(&job, id, Some(SurplusPhase::BackingOff));
        let back = add_duration(self.now, pause);
        if let Some(state) = self.jobs.get_mut(&job) {
            state.surplus.replacements.insert(id.clone());
            let due = DueEvent {
                event: RunEvent::RetrySurplus(id.clone()),
                job: job.clone(),
                event_generation: state.event_generation,
            };
            self.agenda.add(back, due);
        }
        let when = super::to_seconds(back);
        self.report_event(
            JobEvent::Shrunk,
            &job,
            format!("{reason}: it becomes pending again at {when} s"),
        );
    }
}
