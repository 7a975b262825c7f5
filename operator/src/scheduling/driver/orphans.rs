//! Pods of jobs that are gone. The garbage collector deletes them; on a node that is lost nobody
//! stops them then, and the quota of their gang would be held until somebody mends the node.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::Driver;
use crate::key::Key;
use crate::scheduling::deletions::Deletions;
use crate::scheduling::keeper::Doomed;
use crate::watch::PodView;

impl Driver {
    /// Deletes by force the pods under a job's name that are of a job that is gone, being deleted,
    /// and on a node that is given up.
    pub(super) fn reap(&mut self, job: &Key) {
        let world = self.committer.world().clone();
        let pods = world.pods.of(job);
        if pods.is_empty() {
            self.orphans.remove(job);
            return;
        }
        let uid = self.any_uid(job);
        let is_orphan = |pod: &PodView| {
            let given_up = |node: &String| world.is_given_up(node);
            pod.deleting
                && uid.as_deref() != Some(&*pod.job_uid)
                && pod.node.as_ref().is_some_and(given_up)
        };
        let now = Instant::now();
        let asked = self.orphans.entry(job.clone()).or_default();
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
