//! The status of a job agrees with its pods, its journal and its conditions.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::status::condition::ConditionType;

use super::lasting::{LastingRule, Subject, Violation};
use crate::cluster::{Cluster, JobUid};
use crate::finding::{ObjectRef, Rule};
use crate::history::ObjectName;
use crate::pods::PodFacts as _;
use crate::verifier::Step;

/// Time in which the status follows a change.
const REACTION_TIME: SignedDuration = SignedDuration::from_secs(30);

/// A status that contradicts the objects it describes.
pub(crate) struct UntrueStatus;

impl LastingRule for UntrueStatus {
    const RULE: Rule = Rule::UntrueStatus;
    type Subject = (JobUid, Contradiction);

    fn find(cluster: &Cluster, (uid, contradiction): &Self::Subject) -> Option<Violation> {
        let job = cluster.job(uid)?;
        // The status of such a job is not Trellis's.
        if job.spec.external_manager().is_some() || job.metadata.deletion_timestamp.is_some() {
            return None;
        }
        Some(Violation {
            object: ObjectRef::new("TrainingJob", &job.metadata),
            message: contradiction.find(cluster, job, uid)?,
            allowed: REACTION_TIME,
        })
    }
}

/// The part of the cluster that the status contradicts. Each contradiction lasts by itself: one that
/// follows another begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Contradiction {
    /// The status is of an earlier spec.
    Spec,
    /// The phase is not that of the condition `Running`.
    Condition,
    /// The job runs without a pod.
    Pods,
    /// The job is queued, and its gang is placed.
    Journal,
    /// The job is to run again when its pods are gone, and has none.
    Restart,
}

impl Contradiction {
    const ALL: [Self; 5] = [
        Self::Spec,
        Self::Condition,
        Self::Pods,
        Self::Journal,
        Self::Restart,
    ];

    fn find(self, cluster: &Cluster, job: &TrainingJob, uid: &JobUid) -> Option<String> {
        match self {
            Self::Spec => find_earlier_generation(job),
            Self::Condition => find_contrary_condition(job.status.as_ref()?),
            Self::Pods => find_missing_pods(cluster, job.status.as_ref()?, uid),
            Self::Journal => find_placed_gang(cluster, job, uid),
            Self::Restart => find_overdue_restart(cluster, job.status.as_ref()?, uid),
        }
    }
}

/// The uid of a job, and a contradiction of its status.
impl Subject for (JobUid, Contradiction) {
    fn concerned(step: &Step<'_>) -> Vec<Self> {
        let uids = step.job_uids().into_iter();
        uids.flat_map(|uid| Contradiction::ALL.map(|kind| (uid.clone(), kind)))
            .collect()
    }

    fn all(cluster: &Cluster) -> Vec<(Self, Option<Timestamp>)> {
        let gangs = cluster.gangs_with_last_change().into_iter();
        gangs
            .flat_map(|(uid, changed)| {
                Contradiction::ALL.map(|kind| ((uid.clone(), kind), changed))
            })
            .collect()
    }
}

fn find_earlier_generation(job: &TrainingJob) -> Option<String> {
    let status = job.status.as_ref();
    // An ended job keeps its status when its user edits it.
    if status.is_some_and(TrainingJobStatus::has_ended) {
        return None;
    }
    let observed = status.and_then(|status| status.observed_generation);
    let observed = observed.unwrap_or(0);
    let generation = job.metadata.generation?;
    (observed < generation)
        .then(|| format!("its status is of generation {observed}, its spec of {generation}"))
}

fn find_contrary_condition(status: &TrainingJobStatus) -> Option<String> {
    let phase = status.phase?;
    let running = ConditionType::Running.as_str();
    let running = status.conditions.iter().find(|c| c.type_ == running);
    let is_running = running.is_some_and(|condition| condition.status == "True");
    (is_running != (phase == JobPhase::Running)).then(|| {
        format!(
            "its phase is {}, and its condition Running is {}",
            phase.as_str(),
            if is_running { "True" } else { "not True" }
        )
    })
}

fn find_missing_pods(
    cluster: &Cluster,
    status: &TrainingJobStatus,
    uid: &JobUid,
) -> Option<String> {
    // Pods that are created again one by one wait for their back-off.
    let is_recovering = status.internal.awaited_pods.is_some();
    if status.phase? != JobPhase::Running || is_recovering {
        return None;
    }
    let is_alive = cluster.pods_of_job(uid).any(|(_, pod)| pod.is_live());
    (!is_alive).then(|| "its phase is Running, and no pod lives".to_owned())
}

fn find_placed_gang(cluster: &Cluster, job: &TrainingJob, uid: &JobUid) -> Option<String> {
    let status = job.status.as_ref()?;
    let name = ObjectName::from_metadata(&job.metadata);
    let journal = cluster.groups.get(&name)?.status.as_ref()?;
    let is_placed = journal.phase == Some(PodGroupPhase::Placed)
        && journal.plan.as_ref().map(|plan| plan.attempt) == status.attempt;
    if status.phase? != JobPhase::Queued || !is_placed {
        return None;
    }
    let live = cluster.pods_of_job(uid).filter(|(_, pod)| pod.is_live());
    let live = live.count();
    Some(format!(
        "its phase is Queued, and its gang is placed with {live} pods"
    ))
}

fn find_overdue_restart(
    cluster: &Cluster,
    status: &TrainingJobStatus,
    uid: &JobUid,
) -> Option<String> {
    // A job that waits for its back-off has the time at which it ends.
    if status.phase? != JobPhase::Restarting || status.retry_time.is_some() {
        return None;
    }
    // The ended pods of earlier stages stay.
    let mut pods = cluster.pods_of_job(uid);
    let has_pods = pods.any(|(_, pod)| pod.is_stopping() || !pod.is_over());
    // Trellis also deletes pods that a user has given to the job, and waits for them.
    let has_pods = has_pods || cluster.has_pod_controlled_by(uid);
    (!has_pods).then(|| "its phase is Restarting, and all its pods are gone".to_owned())
}
