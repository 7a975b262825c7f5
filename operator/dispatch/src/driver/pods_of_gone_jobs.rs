//! Pods of jobs that are gone.
//!
//! The garbage collector deletes pods that their job still owned. On a lost node no kubelet stops
//! them, and their gang would hold its quota until the node is repaired. So Trellis deletes these
//! pods by force. This works only for jobs that this process has read and whose deletion it has
//! seen: only the job says whether a rank that is cut off may still write (`restart.lostNode:
//! Wait`).
//!
//! A pod that the job no longer owned at its deletion (`kubectl delete --cascade=orphan`, a removed
//! owner reference) would run forever and count in no queue. Trellis deletes it. It also does so
//! while a finalizer keeps a deleted job.

use std::collections::BTreeMap;

use tokio::time::Instant;
use tracing::info;
use trellis_cache::{Cache, CachedJob};
use trellis_gang::gang_step::PodDeletion;
use trellis_gang::gang_step::deletions::Deletions;
use trellis_gang::key::Key;
use trellis_gang::observed::PodView;

use crate::driver::Driver;

/// Pods of one job that is gone.
#[derive(Debug, Default)]
pub(in crate::driver) struct OrphanedPods {
    /// Uid of the job whose pods on lost nodes are deleted by force.
    forcible_job: Option<String>,
    deletions: Deletions,
}

#[cfg(test)]
impl OrphanedPods {
    /// Returns the uids of the pods whose deletion was requested.
    pub(in crate::driver) fn requested_uids(&self) -> impl Iterator<Item = String> {
        self.deletions.uids().cloned()
    }
}

/// The current job with this name.
struct CurrentJob {
    uid: String,
    is_terminating: bool,
}

impl Driver {
    /// Handles the deletion of a job: its pods on lost nodes may be deleted by force, unless it
    /// forbids that.
    pub(in crate::driver) fn record_orphans(&mut self, job: &Key) {
        let forcible = self
            .gangs
            .get(job)
            .and_then(|gang| gang.forcible_job.clone());
        if forcible.is_some() {
            self.orphans.entry(job.clone()).or_default().forcible_job = forcible;
        }
    }

    /// Deletes pods of a job that is gone, if the garbage collector does not.
    pub(in crate::driver) fn delete_orphans(&mut self, job: &Key) {
        let context = self.committer.context().clone();
        let pods = context.cache.pods.pods_of_job(job);
        let now_named = current_job(&context.cache, job);
        let forced = self
            .orphans
            .get(job)
            .and_then(|all| all.forcible_job.clone());
        let concerns = |pod: &PodView| {
            forced.as_ref() == Some(&pod.job_uid) || is_abandoned(pod, now_named.as_ref())
        };
        if !pods.values().any(concerns) {
            self.orphans.remove(job);
            return;
        }
        let given_up = |pod: &PodView| {
            pod.node
                .as_ref()
                .is_some_and(|n| context.cache.is_abandoned(n))
        };
        let orphans = self.orphans.entry(job.clone()).or_default();
        let now = Instant::now();
        orphans.deletions.retain_pods(&pods);
        let doomed = due_deletions(
            &pods,
            |pod| {
                let is_stuck = pod.deleting && given_up(pod);
                match forced.as_ref() == Some(&pod.job_uid) && is_stuck {
                    true => Some(true),
                    false => {
                        let can_stop = !pod.deleting || pod.has_overlong_grace;
                        (can_stop && is_abandoned(pod, now_named.as_ref())).then_some(false)
                    }
                }
            },
            &mut orphans.deletions,
            now,
        );
        if let Some(at) = orphans.deletions.next_retry(now) {
            self.alarms.set(job, at);
        }
        if !doomed.is_empty() {
            info!(%job, pods = doomed.len(), "pods whose job is gone are deleted");
            let (committer, job) = (self.committer.clone(), job.clone());
            // This is not a gang's task: only the next alarm checks its result.
            tokio::spawn(async move { committer.delete_pods(&job, doomed).await });
        }
    }
}

fn current_job(cache: &Cache, job: &Key) -> Option<CurrentJob> {
    Some(match cache.job(job)? {
        CachedJob::Job(job) => CurrentJob {
            uid: job.metadata.uid.clone().unwrap_or_default(),
            is_terminating: job.metadata.deletion_timestamp.is_some(),
        },
        CachedJob::Undecodable(job) => CurrentJob {
            uid: job.uid,
            is_terminating: false,
        },
    })
}

/// Returns true if a pod holds resources for a job that is gone, and the garbage collector does not
/// delete it.
fn is_abandoned(pod: &PodView, named: Option<&CurrentJob>) -> bool {
    let of_now = named.filter(|job| job.uid == pod.job_uid);
    let is_left = of_now.map_or(!pod.is_owned, |job| job.is_terminating);
    is_left && !pod.phase.is_over()
}

/// Returns the pods to delete now. `force`: None keeps a pod, Some says whether to delete it by
/// force.
fn due_deletions(
    pods: &BTreeMap<String, PodView>,
    force: impl Fn(&PodView) -> Option<bool>,
    deletions: &mut Deletions,
    now: Instant,
) -> Vec<PodDeletion> {
    let orphans = pods.iter().filter_map(|(name, pod)| {
        let force = force(pod)?;
        Some((name, pod, force))
    });
    let due = orphans.filter(|(_, pod, force)| {
        let is_due = deletions.is_due(&pod.uid, *force, now);
        if is_due {
            deletions.record_request(&pod.uid, *force, now);
        }
        is_due
    });
    due.map(|(name, pod, force)| PodDeletion {
        name: name.clone(),
        uid: pod.uid.clone(),
        force,
        grace: force.then_some(0),
    })
    .collect()
}
