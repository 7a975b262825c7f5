//! Events of single pods in a scenario: a pod fails, leaves or finishes, and its gang reacts by the
//! rules of docs/failures.md.

use std::collections::BTreeSet;
use std::time::Duration;

use trellis_api::Reason;
use trellis_api::job::{Restart, RestartAction, RestartScope};
use trellis_gang::{Blame, Fault, backoff, engine, matching};
use trellis_scheduler::{GangId, GroupName, NodeName, PodKey, Time};

use super::agenda::{Due, What};
use super::elastic::Seat;
use super::expect::Expectation;
use super::job::{Rank, Stage};
use super::record::Event;
use super::script::{PodChange, PodEvent};
use super::{Runner, after};

/// How long the place of a gang that starts again is kept for it.
const KEPT_FOR: Duration = Duration::from_secs(120);
/// Back-off of a pod outside the gang.
const BESIDE_BACKOFF: Duration = Duration::from_secs(60);
/// Least pause of a restart that counts against no limit.
const UNCOUNTED_BACKOFF: i64 = 10;

/// The pods that start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restarted {
    Gang,
    Group,
    Pod,
    Nothing,
}

impl Runner<'_, '_> {
    /// A pod of a job fails, leaves or finishes.
    pub(super) fn pod_event(&mut self, event: &PodEvent) {
        let surplus = engine::id(&engine::job_of(&event.job));
        let surplus = GangId::new(format!("{surplus}/{}-{}", event.group, event.index));
        let Some(job) = self.jobs.get(&event.job) else {
            self.cannot_happen(event, "its job is not there");
            return;
        };
        if job.surplus.pod(&surplus).is_some() {
            match job.surplus.seats.get(&surplus) {
                Some(Seat::Placed(_)) => self.surplus_event(event, &surplus),
                _ => self.cannot_happen(event, "it does not run"),
            }
            return;
        }
        let key = PodKey::new(format!("{}/{}", event.job.namespace(), event.pod));
        let is_absent = job.ranks.contains_key(&key);
        if !matches!(job.stage, Stage::Placed { .. }) || is_absent {
            self.cannot_happen(event, "it does not run");
            return;
        }
        self.rank_event(event, key);
    }

    /// Reports a pod event that cannot happen as a failed expectation, because the scenario is
    /// wrong.
    fn cannot_happen(&mut self, event: &PodEvent, why: &str) {
        let words = event.what.words();
        let reason = format!("pod {} cannot {words}: {why}", event.pod);
        self.expects.push(Expectation::failed(self.now, reason));
    }

    /// A pod of the gang.
    fn rank_event(&mut self, event: &PodEvent, key: PodKey) {
        let why = format!("{} {}", event.pod, event.what.past());
        let blame = match &event.what {
            PodChange::Finishes => {
                self.pod_is_done(event, key, why);
                return;
            }
            PodChange::Fails { .. } => Blame::Job,
            PodChange::Leaves => Blame::Cluster,
        };
        let (action, is_counted) = self.action(event);
        let Some(job) = self.jobs.get(&event.job) else {
            return;
        };
        let restart = job.restart.clone();
        let restarted = match action {
            RestartAction::Fail => Restarted::Nothing,
            RestartAction::Ignore => {
                self.pod_is_done(event, key, format!("{why}, which a rule ignores"));
                return;
            }
            RestartAction::RestartGroup => Restarted::Group,
            RestartAction::RestartPod => Restarted::Pod,
            RestartAction::Restart | RestartAction::RestartWithoutCounting => {
                self.by_scope(event, &restart)
            }
        };
        if restarted == Restarted::Nothing {
            self.fail_job(&event.job, format!("{}: {why}", Reason::FailedByRule));
            return;
        }
        let Some(pause) = self.charge(&event.job, blame, is_counted, &why) else {
            return;
        };
        let node = self.node_of(&event.job, event);
        let is_cordoned = node.as_ref().is_none_or(|node| {
            let known = self.nodes.get(node);
            known.is_none_or(|node| node.unschedulable || !node.ready)
        });
        let back = after(self.now, pause);
        match restarted {
            Restarted::Group | Restarted::Pod if !is_cordoned => {
                let keys = self.pods_of(event, restarted == Restarted::Group);
                self.await_pods(&event.job, keys, back);
                let what = if restarted == Restarted::Pod {
                    "it"
                } else {
                    "its task group"
                };
                let when = super::seconds(back);
                let reason = format!("{why}: {what} comes back at {when} s, the other pods go on");
                self.say(Event::Recovering, &event.job, reason);
            }
            _ => self.restart_gang(&event.job, back, why),
        }
    }

    /// The action that the rules of the job name, and whether a restart counts.
    fn action(&self, event: &PodEvent) -> (RestartAction, bool) {
        let (exit_code, word) = match &event.what {
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
            reason: match event.what {
                PodChange::Leaves => Reason::PodDisrupted,
                _ => Reason::PodFailed,
            },
            word,
            message: String::new(),
            blame: Blame::Job,
        };
        let rules = self.jobs.get(&event.job).map(|job| &job.restart.rules);
        let rule = rules.and_then(|rules| matching(rules, &fault));
        let action = rule.map_or(RestartAction::Restart, |(_, action)| action);
        (action, action != RestartAction::RestartWithoutCounting)
    }

    /// The pods that `restart.scope` starts again.
    fn by_scope(&self, event: &PodEvent, restart: &Restart) -> Restarted {
        match restart.scope {
            Some(RestartScope::Gang) => Restarted::Gang,
            Some(RestartScope::Group) => Restarted::Group,
            Some(RestartScope::Pod) => Restarted::Pod,
            Some(RestartScope::Never) => Restarted::Nothing,
            // Rank 0 is where the other ranks of an elastic group meet.
            None if event.is_elastic && event.rank != Some(0) => Restarted::Pod,
            None => Restarted::Gang,
        }
    }

    /// Counts a restart. The pause before it; None: the limit is used up, and the job has failed.
    fn charge(
        &mut self,
        id: &GangId,
        blame: Blame,
        is_counted: bool,
        why: &str,
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
            let why = format!("{reason}: {why}; restart.{name} = {limit} is used up");
            self.fail_job(id, why);
            return None;
        }
        *used = used.saturating_add(u32::from(is_counted));
        let seconds = match (blame, is_counted) {
            (Blame::Job, true) => backoff(&job.restart, before),
            (Blame::Job, false) => backoff(&job.restart, before).max(UNCOUNTED_BACKOFF),
            _ => 0,
        };
        Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    /// Restarts the gang: its place is kept, except on cordoned nodes.
    fn restart_gang(&mut self, id: &GangId, back: Time, why: String) {
        let cordoned = self.nodes.iter().filter(|(_, node)| node.unschedulable);
        let cordoned: Vec<NodeName> = cordoned.map(|(name, _)| name.clone()).collect();
        let until = self.now.plus(KEPT_FOR);
        self.give_up(id, Stage::Waiting);
        let is_kept = self.engine.keep_gang(id, &cordoned, until);
        if !is_kept {
            self.engine.release_gang(id, Some(back));
        }
        self.say(Event::Restarted, id, why);
        if let Some(job) = self.jobs.get(id).filter(|_| is_kept) {
            let due = Due {
                what: What::Retry,
                job: id.clone(),
                run: job.run,
            };
            self.agenda.add(back, due);
        }
        self.is_unsettled = true;
    }

    fn fail_job(&mut self, id: &GangId, why: String) {
        self.give_up(id, Stage::Ended);
        self.engine.delete_gang(id);
        self.say(Event::Failed, id, why);
        self.is_unsettled = true;
    }

    /// Pods do not run until then.
    fn await_pods(&mut self, id: &GangId, keys: BTreeSet<PodKey>, until: Time) {
        let Some(job) = self.jobs.get_mut(id) else {
            return;
        };
        for key in keys {
            let done = job.ranks.get(&key) == Some(&Rank::Done);
            if !done {
                job.ranks.insert(key.clone(), Rank::Awaited);
                let due = Due {
                    what: What::Return(key),
                    job: id.clone(),
                    run: job.run,
                };
                self.agenda.add(until, due);
            }
        }
    }

    /// The pod, or all pods of its task group that are in the gang.
    fn pods_of(&self, event: &PodEvent, all: bool) -> BTreeSet<PodKey> {
        let job = self.jobs.get(&event.job);
        let group = job.and_then(|job| {
            let mut groups = job.gang.groups.iter();
            groups.find(|group| group.name.as_str() == event.group)
        });
        let (Some(job), Some(group)) = (job, group) else {
            return BTreeSet::new();
        };
        let indexes = if all {
            0..group.count
        } else {
            event.index..event.index.saturating_add(1)
        };
        indexes
            .map(|index| job.gang.pod_key(group, index))
            .collect()
    }

    /// The node of a pod of the gang.
    pub(super) fn node_of(&self, id: &GangId, event: &PodEvent) -> Option<NodeName> {
        let placement = self.engine.placement(id)?;
        let group = GroupName::new(event.group.as_str());
        let mut pods = placement.iter();
        let (_, _, node) =
            pods.find(|(name, index, _)| **name == group && *index == event.index)?;
        Some(node.clone())
    }

    /// A surplus pod: the gang goes on.
    fn surplus_event(&mut self, event: &PodEvent, id: &GangId) {
        let why = format!("{} {}", event.pod, event.what.past());
        let job = event.job.clone();
        if event.what == PodChange::Finishes {
            self.vacate(&job, id, Some(Seat::Done));
            self.close_group(event);
            self.say(Event::PodEnded, &job, why);
            self.end_if_done(&job);
            return;
        }
        let is_failure = matches!(event.what, PodChange::Fails { .. });
        let (action, is_counted) = self.action(event);
        let scope = self.jobs.get(&job).and_then(|job| job.restart.scope);
        let ends = match action {
            RestartAction::Fail => true,
            RestartAction::Restart => scope == Some(RestartScope::Never),
            _ => false,
        };
        if event.is_elastic && is_failure && ends {
            self.fail_job(&job, format!("{}: {why}", Reason::FailedByRule));
            return;
        }
        let pause = match (is_failure, event.is_elastic) {
            (true, true) if action == RestartAction::Ignore => {
                self.vacate(&job, id, Some(Seat::Done));
                self.say(
                    Event::PodEnded,
                    &job,
                    format!("{why}, which a rule ignores"),
                );
                return;
            }
            (true, true) => match self.charge(&job, Blame::Job, is_counted, &why) {
                Some(pause) => Some(pause),
                None => return,
            },
            (true, false) => Some(BESIDE_BACKOFF),
            (false, _) => None,
        };
        let Some(pause) = pause else {
            self.vacate(&job, id, None);
            self.say(Event::Shrunk, &job, why);
            self.seek_surplus(&job);
            return;
        };
        self.vacate(&job, id, Some(Seat::BackingOff));
        let back = after(self.now, pause);
        if let Some(state) = self.jobs.get_mut(&job) {
            state.surplus.replaced.insert(id.clone());
            let due = Due {
                what: What::SeekAgain(id.clone()),
                job: job.clone(),
                run: state.run,
            };
            self.agenda.add(back, due);
        }
        let when = super::seconds(back);
        self.say(
            Event::Shrunk,
            &job,
            format!("{why}: it seeks a place again at {when} s"),
        );
    }
}
