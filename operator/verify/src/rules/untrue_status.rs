//! The status of a job agrees with its pods, its journal and its conditions.

use k8s_openapi::jiff::SignedDuration;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::status::condition::ConditionType;

use super::lasting::{Fault, LastingRule};
use crate::cluster::{Cluster, JobUid};
use crate::finding::{ObjectRef, Rule};
use crate::history::ObjectName;
use crate::pods::PodFacts as _;

/// Time in which the status follows a change.
const REACTION_TIME: SignedDuration = SignedDuration::from_secs(30);

/// A status that contradicts the objects it describes.
pub(crate) struct UntrueStatus;

impl LastingRule for UntrueStatus {
    const RULE: Rule = Rule::UntrueStatus;
    type Subject = JobUid;

    fn find(cluster: &Cluster, uid: &JobUid) -> Option<Fault> {
        let job = cluster.job(uid)?;
        Some(Fault {
            object: ObjectRef::new("TrainingJob", &job.metadata),
            message: find_contradiction(cluster, job, uid)?,
            allowed: REACTION_TIME,
        })
    }
}

fn find_contradiction(cluster: &Cluster, job: &TrainingJob, uid: &JobUid) -> Option<String> {
    if job.spec.managed_by.is_some() || job.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = job.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation);
    // An ended job keeps its status when its user edits it.
    let has_ended = status.is_some_and(|status| status.phase.is_some_and(JobPhase::is_terminal));
    if !has_ended
        && let Some(generation) = job.metadata.generation
        && observed.unwrap_or(0) < generation
    {
        return Some(format!(
            "its status is of generation {}, its spec of {generation}",
            observed.unwrap_or(0)
        ));
    }
    let status = status?;
    let phase = status.phase?;
    let running = ConditionType::Running.as_str();
    let running = status.conditions.iter().find(|c| c.type_ == running);
    let is_running = running.is_some_and(|condition| condition.status == "True");
    if is_running != (phase == JobPhase::Running) {
        return Some(format!(
            "its phase is {}, and its condition Running is {}",
            phase.as_str(),
            if is_running { "True" } else { "not True" }
        ));
    }
    let live = cluster.pods_of_job(uid).filter(|(_, pod)| pod.is_live());
    let live = live.count();
    // Pods that are created again one by one wait for their back-off.
    let is_recovering = status.internal.awaited_pods.is_some();
    if phase == JobPhase::Running && live == 0 && !is_recovering {
        return Some("its phase is Running, and no pod lives".to_owned());
    }
    let group = cluster
        .groups
        .get(&ObjectName::from_metadata(&job.metadata));
    let journal = group.and_then(|group| group.status.as_ref());
    let is_placed = journal.is_some_and(|journal| {
        journal.phase == Some(PodGroupPhase::Placed)
            && journal.plan.as_ref().map(|plan| plan.attempt) == status.attempt
    });
    (phase == JobPhase::Queued && is_placed)
        .then(|| format!("its phase is Queued, and its gang is placed with {live} pods"))
}
