//! Binds the claims that a plan's pods mount before the first pod is created. A pod with a node
//! skips kube-scheduler, so no other component would bind its claims.
//!
//! Each step reads the current state and does only what is missing. So a leader that resumes the
//! plan after a crash does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Resource;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;
use trellis_api::pod_group::Plan;
use trellis_api::{Reason, names};
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::key::Key;
use trellis_gang::observed::{BOUND_BY_CONTROLLER, SELECTED_NODE, SlimClaim, SlimVolume};
use trellis_gang::requirements::binding::{
    BindingCandidates, BindingFailure, BindingStep, ClaimMounts, choose_volumes, collect_mounts,
};
use trellis_gang::{AuthorizedAttempt, GangExplanation};
use trellis_machine::clock;

use super::Committer;
use crate::commands::WriteError;
use crate::task_outcome::TaskOutcome;

/// Longest sleep without an event. Correctness does not depend on it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Claims that running commits are about to bind, with the job and the chosen volume. Two commits
/// that chose the same volume would both open a plan, and one would have to undo it.
#[derive(Debug, Default)]
pub(super) struct ClaimPromises(Mutex<BTreeMap<Key, (Key, Option<String>)>>);

impl ClaimPromises {
    /// Returns the promises of one job. They end when the guard is dropped.
    pub(super) fn guard_for<'a>(&'a self, job: &'a Key) -> ClaimPromiseGuard<'a> {
        ClaimPromiseGuard {
            promises: self,
            job,
        }
    }
}

/// Guard that ends the promises of one job.
pub(super) struct ClaimPromiseGuard<'a> {
    promises: &'a ClaimPromises,
    job: &'a Key,
}

impl Drop for ClaimPromiseGuard<'_> {
    fn drop(&mut self) {
        let mut all = self.promises.0.lock();
        all.retain(|_, (job, _)| job != self.job);
    }
}

impl From<BindingFailure> for TaskOutcome {
    /// Converts the failure for a plan that is not open yet.
    fn from(stuck: BindingFailure) -> Self {
        with_avoided_nodes(stuck.nodes, Self::PutOff(stuck.reason, stuck.message))
    }
}

fn with_avoided_nodes(nodes: BTreeSet<String>, outcome: TaskOutcome) -> TaskOutcome {
    match nodes.is_empty() {
        true => outcome,
        false => TaskOutcome::Avoid(nodes.into_iter().collect(), Box::new(outcome)),
    }
}

/// Returns the claims that the pods of a plan mount.
pub(super) fn plan_mounts(
    run: &AuthorizedAttempt,
    plan: &Plan,
    counted: &BTreeMap<String, AdmittedPod>,
) -> ClaimMounts {
    let pods = plan.assignments.iter().map(|a| {
        let count = u64::try_from(a.count).unwrap_or(0);
        (a.group.as_str(), a.node.as_str(), count)
    });
    collect_mounts(run.job.compiled(), counted, pods)
}

impl Committer {
    /// Chooses a step for each claim of the job, and promises it the chosen volumes. Waits for a
    /// claim that another commit is about to bind, because a claim has only one volume.
    fn choose_steps(
        &self,
        job: &Key,
        mounts: &ClaimMounts,
    ) -> Result<Vec<(String, BindingStep)>, BindingFailure> {
        let mut promises = self.claim_promises.0.lock();
        let is_anothers = |claim: &String| {
            let promised = promises.get(&Key::new(&job.namespace, claim));
            promised.is_some_and(|(other, _)| other != job)
        };
        let (awaited, own): (ClaimMounts, ClaimMounts) = mounts
            .clone()
            .into_iter()
            .partition(|(claim, _)| is_anothers(claim));
        let mut stock =
            BindingCandidates::from_storage(&self.context.cache.storage(&job.namespace), &own);
        let others = promises.values().filter(|(other, _)| other != job);
        stock.reserved_volumes = others.filter_map(|(_, volume)| volume.clone()).collect();
        let mut steps = choose_volumes(&own, &stock)?;
        for (claim, step) in &steps {
            let volume = match step {
                BindingStep::Bound | BindingStep::Wait => continue,
                BindingStep::BindVolume(volume) => Some(volume.clone()),
                BindingStep::Provision(_) => None,
            };
            let claim = Key::new(&job.namespace, claim);
            promises.insert(claim, (job.clone(), volume));
        }
        steps.extend(awaited.into_keys().map(|claim| (claim, BindingStep::Wait)));
        Ok(steps)
    }

    /// Checks that the claims of a plan that is not open yet can be bound on the plan's nodes.
    pub(super) fn check_bindable(
        &self,
        job: &Key,
        mounts: &ClaimMounts,
    ) -> Result<(), TaskOutcome> {
        self.choose_steps(job, mounts)?;
        let promises = self.claim_promises.0.lock();
        let is_anothers = |claim: &&String| {
            let promised = promises.get(&Key::new(&job.namespace, claim));
            promised.is_some_and(|(other, _)| other != job)
        };
        match mounts.keys().find(is_anothers) {
            None => Ok(()),
            Some(claim) => Err(TaskOutcome::Retry(format!(
                "PersistentVolumeClaim {claim:?} is being bound for another job"
            ))),
        }
    }

    /// Returns true if all claims are bound to volumes that their pods' nodes can reach.
    pub(super) fn are_claims_bound(&self, job: &Key, mounts: &ClaimMounts) -> bool {
        let stock =
            BindingCandidates::from_storage(&self.context.cache.storage(&job.namespace), mounts);
        let steps = choose_volumes(mounts, &stock);
        steps.is_ok_and(|steps| steps.iter().all(|(_, step)| *step == BindingStep::Bound))
    }

    /// Binds the claims of a plan's pods, until the deadline or until `stop` is cancelled.
    pub(super) async fn bind_claims(
        &self,
        job: &Key,
        plan: &Plan,
        mounts: &ClaimMounts,
        until: Timestamp,
        stop: &CancellationToken,
    ) -> Result<(), TaskOutcome> {
        let mut requested = BTreeSet::new();
        let mut failed = None;
        let mut is_explained = false;
        loop {
            let changed = self.context.cache.storage_changes();
            let undo = |stuck: BindingFailure| {
                with_avoided_nodes(
                    stuck.nodes,
                    TaskOutcome::RollBack(stuck.reason, stuck.message),
                )
            };
            let mut awaited = None;
            for (claim, step) in self.choose_steps(job, mounts).map_err(undo)? {
                let key = Key::new(&job.namespace, &claim);
                let written = match step {
                    BindingStep::Bound => continue,
                    BindingStep::Wait => Ok(()),
                    BindingStep::BindVolume(volume) => self.give_volume(&key, &volume, plan).await,
                    // The annotation that this commit wrote is gone: the provisioner rejected the
                    // node.
                    BindingStep::Provision(node) if requested.contains(&claim) => {
                        let message = format!(
                            "PersistentVolumeClaim {claim:?}: no volume could be provisioned for node {node:?}: the claim's events say why"
                        );
                        let undo = TaskOutcome::RollBack(Reason::ClaimNotBound, message);
                        return Err(with_avoided_nodes([node].into(), undo));
                    }
                    BindingStep::Provision(node) => {
                        let written = self.select_node(&key, &node, plan).await;
                        if written.is_ok() {
                            requested.insert(claim.clone());
                        }
                        written
                    }
                };
                match written {
                    Ok(()) => {}
                    Err(error @ (WriteError::NotLeading(_) | WriteError::Withdrawn)) => {
                        return Err(error.into());
                    }
                    Err(WriteError::Refused { message, .. }) => {
                        return Err(TaskOutcome::RollBack(Reason::ClaimNotBound, message));
                    }
                    // The next iteration reads the current state.
                    Err(error) => failed = Some(error.to_string()),
                }
                awaited.get_or_insert(claim);
            }
            let Some(claim) = awaited else {
                if is_explained {
                    self.context.explanations.write().remove(job);
                }
                return Ok(());
            };
            let remaining = until.duration_since(clock::now());
            if remaining <= SignedDuration::ZERO {
                let mut message = format!(
                    "PersistentVolumeClaim {claim:?} was not bound before the plan's deadline: its events say why"
                );
                if let Some(failed) = failed {
                    message.push_str(&format!("; the last try: {failed}"));
                }
                return Err(TaskOutcome::RollBack(Reason::ClaimNotBound, message));
            }
            is_explained = true;
            self.explain_unbound_claim(job, &claim);
            let pause = POLL_INTERVAL.min(remaining.unsigned_abs());
            tokio::select! {
                () = stop.cancelled() => return Err(TaskOutcome::Done),
                () = changed => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Gives the volume to the claim, if the volume has not changed since it was read. The
    /// controller manager does the rest, as after kube-scheduler (`GetBindVolumeToClaim`).
    async fn give_volume(&self, claim: &Key, volume: &str, plan: &Plan) -> Result<(), WriteError> {
        let key = Key::new("", volume);
        let (Some(bound_claim), Some(volume)) = (
            self.context.cache.claims.get(claim),
            self.context.cache.volumes.get(&key),
        ) else {
            return Ok(());
        };
        let patch = json!({
            "metadata": {
                "uid": volume.metadata.uid,
                "resourceVersion": volume.metadata.resource_version,
                "annotations": {BOUND_BY_CONTROLLER: "yes", names::PLAN: plan.hash},
            },
            "spec": {"claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": bound_claim.metadata.uid,
            }},
        });
        let path = SlimVolume::url_path(&(), None);
        let written: SlimVolume = self
            .commands
            .patch_as(&path, volume.name(), names::SCHEDULER_MANAGER, &patch)
            .await?;
        info!(%claim, volume = volume.name(), plan = plan.hash, "the volume is given to the claim");
        self.context.apply_written_volume(&key, written);
        Ok(())
    }

    /// Asks the provisioner for a volume that the node can reach.
    async fn select_node(&self, claim: &Key, node: &str, plan: &Plan) -> Result<(), WriteError> {
        let Some(cached) = self.context.cache.claims.get(claim) else {
            return Ok(());
        };
        let patch = json!({"metadata": {
            "uid": cached.metadata.uid,
            "resourceVersion": cached.metadata.resource_version,
            "annotations": {SELECTED_NODE: node, names::PLAN: plan.hash},
        }});
        let path = SlimClaim::url_path(&(), Some(&claim.namespace));
        let written: SlimClaim = self
            .commands
            .patch_as(&path, &claim.name, names::SCHEDULER_MANAGER, &patch)
            .await?;
        info!(%claim, node, plan = plan.hash, "requested a volume for the claim");
        self.context.apply_written_claim(claim, written);
        Ok(())
    }

    /// Reports in the job's status which claim the gang waits for.
    fn explain_unbound_claim(&self, job: &Key, claim: &str) {
        let message = format!("PersistentVolumeClaim {claim:?} is being bound");
        let explanation = GangExplanation::waiting(Reason::BackingOff, message);
        self.context
            .explanations
            .write()
            .insert(job.clone(), explanation);
    }
}

/// Returns the claims that one pod of a group mounts.
pub(super) fn pod_mounts(
    run: &AuthorizedAttempt,
    counted: &BTreeMap<String, AdmittedPod>,
    group: &str,
    node: &str,
) -> ClaimMounts {
    collect_mounts(run.job.compiled(), counted, [(group, node, 1)])
}
