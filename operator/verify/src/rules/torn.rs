//! A gang has all pods of its plan or none.

use std::collections::BTreeMap;

use k8s_openapi::jiff::SignedDuration;
use trellis_api::TrainingJob;
use trellis_api::job::TaskGroup;
use trellis_api::pod_group::Plan;

use super::lasting::{Fault, LastingRule};
use crate::cluster::{Cluster, JobUid};
use crate::finding::{ObjectRef, Rule};
use crate::pods::PodFacts as _;

/// A plan is carried out or given up within two minutes. PodDisruptionBudgets may then delay its
/// evictions for two minutes. The rest is for the last requests.
const COMMIT_AND_ROLLBACK_TIME: SignedDuration = SignedDuration::from_secs(120 + 120 + 30);

/// A gang of which some pods live and some are missing.
pub(crate) struct Torn;

impl LastingRule for Torn {
    const RULE: Rule = Rule::Torn;
    type Subject = JobUid;

    fn find(cluster: &Cluster, uid: &JobUid) -> Option<Fault> {
        find_torn_gang(cluster, uid)
    }
}

/// Pods of one task group of a plan.
#[derive(Clone, Copy, Debug, Default)]
struct GroupCount {
    planned: i64,
    live: i64,
    over: i64,
}

impl GroupCount {
    fn is_absent(self) -> bool {
        self.live.saturating_add(self.over) == 0
    }

    fn is_missing_pods(self) -> bool {
        self.live.saturating_add(self.over) < self.planned
    }
}

fn find_torn_gang(cluster: &Cluster, uid: &JobUid) -> Option<Fault> {
    let group = cluster.group_of_job(uid)?;
    let job = cluster.job(uid)?;
    let internal = job.status.as_ref().map(|status| &status.internal);
    // Pods that end one by one, and pods that restart alone, are no torn gang.
    if internal.is_some_and(|i| i.awaited_pods.is_some() || i.finished_pods.is_some()) {
        return None;
    }
    let plan = group
        .status
        .as_ref()
        .and_then(|status| status.plan.as_ref());
    let mut counts = planned_counts(plan);
    let mut live: i64 = 0;
    let mut grace: i64 = 0;
    for (_, pod) in cluster.pods_of_job(uid) {
        grace = grace.max(pod.grace_seconds());
        if pod.is_surplus() {
            continue;
        }
        let is_planned = plan.is_some_and(|plan| pod.plan() == Some(plan.hash.as_str()));
        let count = pod
            .group()
            .filter(|_| is_planned)
            .and_then(|group| counts.get_mut(group));
        if pod.is_live() {
            live = live.saturating_add(1);
            if let Some(count) = count {
                count.live = count.live.saturating_add(1);
            }
        } else if pod.is_over()
            && let Some(count) = count
        {
            count.over = count.over.saturating_add(1);
        }
    }
    if live == 0 {
        return None;
    }
    let message = match plan {
        None => format!("{live} pods live without a plan"),
        Some(_) => find_missing_group(&counts, job)?,
    };
    Some(Fault {
        object: ObjectRef::new("TrainingJob", &job.metadata),
        message,
        allowed: COMMIT_AND_ROLLBACK_TIME.saturating_add(SignedDuration::from_secs(grace)),
    })
}

fn planned_counts(plan: Option<&Plan>) -> BTreeMap<&str, GroupCount> {
    let mut counts: BTreeMap<&str, GroupCount> = BTreeMap::new();
    for assignment in plan.iter().flat_map(|plan| &plan.assignments) {
        let count = counts.entry(&assignment.group).or_default();
        count.planned = count.planned.saturating_add(assignment.count);
    }
    counts
}

/// Returns a message about a task group of which pods are missing. A group that waits for another
/// group has no pods yet.
fn find_missing_group(counts: &BTreeMap<&str, GroupCount>, job: &TrainingJob) -> Option<String> {
    let waits = |name: &str| {
        let has_name = |group: &&TaskGroup| group.name == name;
        let group = job.spec.task_groups.iter().find(has_name);
        group.is_some_and(|group| !group.depends_on.is_empty())
    };
    let (name, count) = counts
        .iter()
        .find(|(name, count)| count.is_missing_pods() && !(count.is_absent() && waits(name)))?;
    Some(format!(
        "task group {name:?}: {} of {} planned pods live, {} have ended",
        count.live, count.planned, count.over
    ))
}
