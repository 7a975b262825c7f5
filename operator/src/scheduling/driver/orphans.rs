//! Pods of jobs that are deleted. The garbage collector deletes them; on a node that is lost nobody
//! stops them then, and the quota of their gang would be held until somebody mends the node.
//!
//! Known are those whose job this process has seen go, and has read: whether a rank that is cut
//! off may still write (`restart.lostNode: Wait`) stands in the job alone.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::Driver;
use super::steps::waits_for_lost_nodes;
use crate::key::Key;
use crate::scheduling::deletions::Deletions;
use crate::scheduling::keeper::Doomed;
use crate::watch::PodView;

/// Pods of one job that is deleted.
#[derive(Debug)]
pub(super) struct Orphans {
    uid: String,
    asked: Deletions,
}

impl Driver {
    /// A job is deleted. Its pods on lost nodes need not be waited for, unless it says so.
    pub(super) fn leaves_orphans(&mut self, job: &Key) {
        let run = self.gangs.get(job).and_then(super::Gang::run);
        let job_of = |run: &crate::scheduling::Run| run.job.compiled().job().spec().clone();
        let waits = run.is_none_or(|run| waits_for_lost_nodes(&job_of(run)));
        if let Some(run) = run.filter(|_| !waits) {
            let orphans = Orphans {
                uid: run.uid.clone(),
                asked: Deletions::default(),
            };
            self.orphans.insert(job.clone(), orphans);
        }
    }

    /// Deletes by force the pods under a job's name that are of one that is deleted, are going, and
    /// on a node that is given up.
    pub(super) fn reap(&mut self, job: &Key) {
        let Some(Orphans { uid, asked }) = self.orphans.get_mut(job) else {
            return;
        };
        let world = self.committer.world().clone();
        let pods = world.pods.of(job);
        if !pods.values().any(|pod| pod.job_uid == *uid) {
            self.orphans.remove(job);
            return;
        }
        let is_orphan = |pod: &PodView| {
            let given_up = |node: &String| world.is_given_up(node);
            pod.deleting && pod.job_uid == *uid && pod.node.as_ref().is_some_and(given_up)
        };
        let now = Instant::now();
        asked.retain_those_of(&pods);
        let doomed = due(&pods, is_orphan, asked, now);
        if let Some(at) = asked.next(now) {
            self.alarms.set(job, at);
        }
        if !doomed.is_empty() {
            let (committer, job) = (self.committer.clone(), job.clone());
            // It is no gang's task: nobody waits for it but its own next alarm.
            tokio::spawn(async move { committer.delete(&job, doomed).await });
        }
    }
}

fn due(
    pods: &BTreeMap<String, PodView>,
    is_orphan: impl Fn(&PodView) -> bool,
    asked: &mut Deletions,
    now: Instant,
) -> Vec<Doomed> {
    let orphans = pods.iter().filter(|(_, pod)| is_orphan(pod));
    let due = orphans.filter(|(_, pod)| {
        let is_due = asked.is_due(&pod.uid, true, now);
        if is_due {
            asked.ask(&pod.uid, true, now);
        }
        is_due
    });
    due.map(|(name, pod)| Doomed {
        name: name.clone(),
        uid: pod.uid.clone(),
        force: true,
        grace: Some(0),
    })
    .collect()
}
