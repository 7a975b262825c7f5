//! Surplus: the pods of elastic groups above `minReplicas`, and all pods of groups with `membership:
//! BestEffort`. Each surplus pod is placed alone, and needs no journal, because one write creates the
//! pod with its node. In a group with slices, each slice outside the gang is placed as a whole. If
//! the operator ends while it creates a slice, the next leader removes the pods that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::{AwaitedGroup, AwaitedPodIndex, FinishedPods, TaskGroup, parse_ranges};
use trellis_api::names::pod_name;
use trellis_api::pod_group::Plan;

use super::desired_gang::AuthorizedAttempt;
use crate::GangIndexes;
use crate::engine::SurplusUnit;
use crate::observed::PodView;

/// Number of surplus units of one job for which the engine seeks places at once.
pub const MAX_PENDING_SURPLUS_UNITS: usize = 32;
/// Shortest time between two growths of an elastic job. When pods join, all other pods restart from
/// their last checkpoint.
pub const GROWTH_INTERVAL: Duration = Duration::from_secs(60);

/// State of a surplus unit of a job: of one pod, or of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SurplusState {
    /// All pods exist, and at least one has not ended: the nodes by index.
    Present(Vec<(u32, String)>),
    /// No pod exists, and all may be created.
    Creatable {
        /// The round in which they are created.
        round: i64,
        /// Earliest time, after a back-off.
        not_before: Option<Timestamp>,
    },
    /// Some pods of a slice exist while others are missing or stop. Either this leader creates the
    /// slice now, or the existing pods must go.
    Torn {
        /// The round of the pods.
        round: i64,
        /// Indexes of the pods that do not exist.
        missing: BTreeSet<u32>,
    },
    /// The pods have ended, are being deleted, or may not be created yet.
    Unavailable,
}

/// State of one surplus pod.
enum SurplusPod {
    /// It runs or starts on this node.
    Live(String),
    /// It has ended. The node is unknown if the pod is gone.
    Ended(Option<String>),
    /// It is being deleted, or belongs to an earlier round, another plan or another job.
    Leaving,
    Missing,
}

/// Returns the surplus units of the gang that is placed by this plan.
#[must_use]
pub fn surplus_states(
    run: &AuthorizedAttempt,
    plan: &Plan,
    pods: &BTreeMap<String, PodView>,
    finished: Option<&FinishedPods>,
) -> BTreeMap<SurplusUnit, SurplusState> {
    let awaited = &run.attempt.awaited;
    let awaited = (awaited.attempt == plan.attempt).then_some(awaited);
    let by_pod = awaited
        .map(|awaited| awaited.index_by_pod())
        .unwrap_or_default();
    let finished = finished.filter(|finished| finished.attempt == plan.attempt);
    let mut states = BTreeMap::new();
    for group in &run.job.compiled().job().spec().task_groups {
        let units = surplus_units(run, plan, group);
        if units.is_empty() {
            continue;
        }
        let observed = ObservedGroup {
            run,
            plan,
            pods,
            group,
            is_held: awaited.is_none_or(|a| a.held_groups.contains(&group.name)),
            awaited: &by_pod,
            finished: finished_indexes(finished, &group.name),
        };
        states.extend(units.into_iter().map(|unit| {
            let state = observed.unit_state(&unit);
            (unit, state)
        }));
    }
    states
}

/// Returns the units of a group that are not part of the gang.
fn surplus_units(run: &AuthorizedAttempt, plan: &Plan, group: &TaskGroup) -> Vec<SurplusUnit> {
    let max_pods = max_replicas(run, plan, group);
    let gang = GangIndexes::new(group, Some(plan));
    if max_pods <= gang.count() {
        return Vec::new();
    }
    let units: BTreeSet<SurplusUnit> = (0..max_pods)
        .filter(|index| !gang.contains(*index))
        .map(|index| SurplusUnit::of_pod(group, index))
        .collect();
    let is_whole = |unit: &SurplusUnit| unit.indexes(group).end <= max_pods;
    units.into_iter().filter(is_whole).collect()
}

/// One task group with its pods.
struct ObservedGroup<'a> {
    run: &'a AuthorizedAttempt,
    plan: &'a Plan,
    pods: &'a BTreeMap<String, PodView>,
    group: &'a TaskGroup,
    /// True if the group waits for other groups.
    is_held: bool,
    awaited: &'a AwaitedPodIndex<'a>,
    /// Indexes of the pods that have finished.
    finished: BTreeSet<u32>,
}

impl ObservedGroup<'_> {
    fn unit_state(&self, unit: &SurplusUnit) -> SurplusState {
        let indexes = || unit.indexes(self.group);
        let awaited = indexes().filter_map(|index| self.awaited.get(&self.group.name, index));
        let awaited: Vec<&AwaitedGroup> = awaited.collect();
        let round = awaited.iter().map(|awaited| awaited.round).max();
        let round = round.unwrap_or(0);
        let pods = indexes().map(|index| (index, self.pod_state(index, round)));
        match UnitPods::from_pods(pods).state(round) {
            SurplusState::Creatable { .. } if self.is_held => SurplusState::Unavailable,
            SurplusState::Creatable { round, .. } => {
                let times = awaited.iter().filter_map(|a| a.not_before.as_ref());
                let not_before = times.map(|time| time.0).max();
                SurplusState::Creatable { round, not_before }
            }
            state => state,
        }
    }

    fn pod_state(&self, index: u32, round: i64) -> SurplusPod {
        let job = self.run.job.compiled().job().name();
        match self.pods.get(&pod_name(job, &self.group.name, index)) {
            None if self.finished.contains(&index) => SurplusPod::Ended(None),
            None => SurplusPod::Missing,
            Some(pod) if !is_current_pod(pod, self.run, self.plan, round) => SurplusPod::Leaving,
            Some(pod) if pod.phase.is_over() => SurplusPod::Ended(pod.node.clone()),
            Some(pod) => match &pod.node {
                Some(node) => SurplusPod::Live(node.clone()),
                None => SurplusPod::Leaving,
            },
        }
    }
}

/// The pods of one surplus unit, by state.
#[derive(Default)]
struct UnitPods {
    nodes: Vec<(u32, String)>,
    missing: BTreeSet<u32>,
    has_live: bool,
    has_ended: bool,
    has_leaving: bool,
}

impl UnitPods {
    fn from_pods(pods: impl Iterator<Item = (u32, SurplusPod)>) -> Self {
        let mut unit = Self::default();
        for (index, pod) in pods {
            match pod {
                SurplusPod::Live(node) => {
                    unit.has_live = true;
                    unit.nodes.push((index, node));
                }
                SurplusPod::Ended(node) => {
                    unit.has_ended = true;
                    unit.nodes.extend(node.map(|node| (index, node)));
                }
                SurplusPod::Leaving => unit.has_leaving = true,
                SurplusPod::Missing => {
                    unit.missing.insert(index);
                }
            }
        }
        unit
    }

    fn state(self, round: i64) -> SurplusState {
        match (self.has_live, self.has_leaving, self.missing.is_empty()) {
            (true, false, true) => SurplusState::Present(self.nodes),
            (true, ..) => SurplusState::Torn {
                round,
                missing: self.missing,
            },
            (false, false, false) if !self.has_ended => SurplusState::Creatable {
                round,
                not_before: None,
            },
            (false, ..) => SurplusState::Unavailable,
        }
    }
}

/// Returns the largest number of pods of the group. With some frameworks, the running pods know the
/// number of replicas of the plan, and pods beyond that number could never join.
fn max_replicas(run: &AuthorizedAttempt, plan: &Plan, task_group: &TaskGroup) -> u32 {
    let spec = run.job.compiled().job().spec();
    // The pods of a replica group know only the size of their replica group.
    let knows_own_slice = spec.has_replica_groups(task_group);
    if knows_own_slice || !spec.framework().spec().fixes_max_replicas {
        return task_group.replicas();
    }
    let planned = plan
        .elastic
        .iter()
        .find(|planned| planned.name == task_group.name);
    let planned = planned.map_or(u32::MAX, |group| u32::try_from(group.replicas).unwrap_or(0));
    task_group.replicas().min(planned)
}

fn finished_indexes(finished: Option<&FinishedPods>, group: &str) -> BTreeSet<u32> {
    let groups = finished.into_iter().flat_map(|finished| &finished.groups);
    let groups_of_name = groups.filter(|ended| ended.name == group);
    groups_of_name
        .flat_map(|g| [&g.completed_indexes, &g.failed_indexes])
        .flat_map(|ranges| parse_ranges(ranges))
        .collect()
}

fn is_current_pod(pod: &PodView, run: &AuthorizedAttempt, plan: &Plan, round: i64) -> bool {
    let is_of_plan = pod.job_uid == run.uid && pod.plan == plan.hash && pod.round >= round;
    is_of_plan && !pod.deleting
}

/// Returns true if the job no longer asks for the pod.
#[must_use]
pub(crate) fn is_beyond_replicas(run: &AuthorizedAttempt, pod: &PodView) -> bool {
    let mut groups = run.job.compiled().groups().iter();
    let group = groups.find(|group| group.name() == pod.group);
    group.is_some_and(|group| pod.index >= group.replicas())
}

#[cfg(test)]
mod tests;
