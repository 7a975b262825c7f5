//! Restores the state of the cluster in a new leader before its first decision.

pub(super) mod inheritance;

use kube::Resource;
use tracing::{info, warn};
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};
use trellis_cache::CachedJob;
use trellis_gang::journal::epoch::Epoch;
use trellis_gang::key::Key;
use trellis_gang::{external, journal};

use super::Driver;
use super::victims::holds_place;
use crate::commit::is_owned;

/// The highest epoch that a Lease can have: `leaseTransitions` is an i32.
const MAX_EPOCH: i64 = i32::MAX as i64;

impl Driver {
    /// Raises the epoch above those of all journals, and charges the places that they name. A
    /// placed gang holds its nodes and its quota, even if its queue or priority class has changed.
    pub(super) async fn take_over(&mut self) {
        let mut groups = self.committer.cache().pod_groups.all();
        // Journals of external gangs have an epoch, too.
        let of_external_pods = groups
            .iter()
            .filter(|group| external::is_user_created(group))
            .cloned();
        let of_external_pods: Vec<_> = of_external_pods.collect();
        groups.retain(|group| {
            let uid = self.current_job_uid(&Key::from_meta(group.meta()));
            uid.is_some_and(|uid| is_owned(group.as_ref(), &uid))
        });
        let journals = groups.iter().chain(&of_external_pods);
        let journals = journals.filter_map(|g| g.status.as_ref());
        if let Ok(epoch) = self.committer.commands().epoch()
            && let Some(highest) = highest_epoch(journals).filter(|highest| *highest >= epoch)
        {
            info!(
                epoch = epoch.0,
                highest_journaled = highest.0,
                "raises the epoch above those of the journals, because the lease was recreated"
            );
            self.committer.commands().raise_epoch_above(highest).await;
        }
        for group in &groups {
            let job = Key::from_meta(group.meta());
            let Some(journal) = &group.status else {
                continue;
            };
            if let Some(hash) = journal::intent_hash(journal) {
                self.inheritance.add_job(job.clone());
                self.inheritance.add_plan(job.clone(), hash.to_owned());
            }
            let Some(plan) = &journal.plan else { continue };
            let pods = self.committer.cache().pods.pods_of_job(&job);
            let beyond = pods.values().filter(|pod| pod.epoch.is_some());
            self.inheritance
                .add_surplus_pods(beyond.map(|pod| pod.uid.clone()));
            // A stopping gang holds its quota until its pods have ended.
            let stops = journal.phase == Some(PodGroupPhase::Unwinding)
                && pods.values().any(|pod| !pod.phase.is_over());
            if holds_place(journal) || stops {
                self.gangs.entry(job.clone()).or_default();
                self.restore_place(&job, group, plan);
            }
            if stops {
                self.withdraw(&job);
            }
        }
        self.learn_past_runs();
        self.take_over_external_pods();
        // Nominations come last, because they refer to places of other gangs.
        for group in &of_external_pods {
            self.restore_external_nomination(&external::pod_group_gang_key(&Key::from_meta(
                group.meta(),
            )));
        }
        for group in &groups {
            let nominated = group.status.as_ref();
            let nominated = nominated.filter(|s| s.phase == Some(PodGroupPhase::Nominated));
            if let Some(plan) = nominated.and_then(|s| s.plan.as_ref()) {
                self.restore_nomination(&Key::from_meta(group.meta()), group, plan);
            }
        }
    }

    /// Returns the uid of the job of that name, even if it does not decode. A PodGroup without a
    /// job is charged for nothing, even if it claims a place.
    fn current_job_uid(&self, job: &Key) -> Option<String> {
        match self.committer.cache().job(job)? {
            CachedJob::Job(job) => job.metadata.uid.clone(),
            CachedJob::Undecodable(job) => Some(job.uid),
        }
    }
}

/// Returns the highest epoch of the journals.
fn highest_epoch<'a>(journals: impl Iterator<Item = &'a PodGroupStatus>) -> Option<Epoch> {
    journals
        .filter_map(|journal| journal.epoch)
        .filter(|epoch| {
            // No real leader wrote this epoch, and no leader could overwrite it.
            let possible = *epoch <= MAX_EPOCH;
            if !possible {
                warn!(epoch, "a journal bears an epoch that no lease can have");
            }
            possible
        })
        .max()
        .map(Epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highest_epoch_ignores_epochs_that_no_lease_can_have() {
        let journal = |epoch: Option<i64>| PodGroupStatus {
            epoch,
            ..PodGroupStatus::default()
        };
        let highest = |epochs: &[Option<i64>]| {
            let journals: Vec<_> = epochs.iter().map(|e| journal(*e)).collect();
            highest_epoch(journals.iter())
        };
        assert_eq!(highest(&[None]), None);
        assert_eq!(highest(&[Some(3), None, Some(7), Some(5)]), Some(Epoch(7)));
        assert_eq!(highest(&[Some(3), Some(i64::MAX)]), Some(Epoch(3)));
    }
}
