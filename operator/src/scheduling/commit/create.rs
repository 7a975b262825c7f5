//! The pods of a plan are created, and the plan is closed.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tokio_util::sync::CancellationToken;
use tracing::info;
use trellis_api::pod_group::Plan;
use trellis_api::{Reason, names};
use trellis_compiler::{CompiledGroup, PodPlacement};

use super::open::open_plan;
use super::{Committer, Outcome};
use crate::commands::WriteError;
use crate::key::Key;
use crate::scheduling::wish::Run;
use crate::scheduling::{Feed, flavors, journal};
use crate::watch::SlimPod;

/// Creates of one gang that are under way at once; the limiter bounds them all.
const CREATES: usize = 32;
/// Tries of one pod before its gang's plan is left to its deadline.
const TRIES: u32 = 6;

/// One pod of a plan.
#[derive(Clone, Copy)]
struct Member<'a> {
    group: &'a CompiledGroup,
    index: u32,
    node: &'a str,
}

impl Committer {
    /// Goes on with a plan that is in the journal already.
    pub async fn resume(
        &self,
        job: Key,
        run: &Run,
        plan: &Plan,
        stop: CancellationToken,
    ) -> Outcome {
        let open = open_plan(run, plan, &BTreeMap::new());
        self.open_plans.resume(&job, open);
        self.create(&job, run, plan, &stop).await
    }

    /// Creates what the plan names and is not there yet, then closes the plan.
    pub(super) async fn create(
        &self,
        job: &Key,
        run: &Run,
        plan: &Plan,
        stop: &CancellationToken,
    ) -> Outcome {
        let there = self.world.pods.of(job);
        let mut missing = members(run.job.compiled().groups(), plan);
        missing.retain(|pod| {
            there
                .get(&pod.group.pod_name(pod.index))
                .is_none_or(|p| p.plan != plan.hash)
        });
        let total = missing.len();
        // The futures are made before the stream: a closure in it would have to
        // be general over the lifetimes that they borrow for.
        let mut futures = Vec::with_capacity(total);
        for pod in missing {
            futures.push(self.create_one(job, run, plan, pod, stop));
        }
        let mut creates = stream::iter(futures).buffer_unordered(CREATES);
        let mut failure: Option<Outcome> = None;
        while let Some(result) = creates.next().await {
            if let Err(outcome) = result {
                // What is under way is waited for: nothing may appear after the undoing.
                stop.cancel();
                let worse = matches!(outcome, Outcome::Undo(..));
                if worse || failure.is_none() {
                    failure = Some(outcome);
                }
            }
        }
        drop(creates);
        if let Some(failure) = failure {
            return failure;
        }
        if stop.is_cancelled() {
            return Outcome::Done;
        }
        let hash = plan.hash.clone();
        // The gang has its pods: those of others come first.
        let closed = self
            .after_others()
            .journal(job, &run.uid, move |before| journal::closed(before, &hash))
            .await;
        match closed {
            Ok(()) => {
                info!(%job, attempt = plan.attempt, pods = total, reason = %Reason::Placed, "placed");
                Outcome::Done
            }
            Err(outcome) => outcome,
        }
    }

    async fn create_one(
        &self,
        job: &Key,
        run: &Run,
        plan: &Plan,
        member: Member<'_>,
        stop: &CancellationToken,
    ) -> Result<(), Outcome> {
        let Member { group, index, node } = member;
        let at = PodPlacement {
            attempt: run.attempt,
            plan: &plan.hash,
            node,
            tolerations: flavors::tolerations(&plan.groups, group.name()),
        };
        let pod = group.pod(index, &at);
        let name = group.pod_name(index);
        let mut tries: u32 = 0;
        loop {
            if stop.is_cancelled() {
                return Ok(());
            }
            let created: Result<SlimPod, WriteError> = self
                .commands
                .create(&job.namespace, names::SCHEDULER_MANAGER, &pod, false)
                .await;
            let last = match created {
                Ok(stored) => {
                    self.seen(job, &stored);
                    return Ok(());
                }
                // Ours, from a try whose answer was lost? Then that try succeeded.
                Err(WriteError::Conflict(message)) => {
                    let there: Option<SlimPod> = self.commands.get(&job.namespace, &name).await?;
                    match there {
                        Some(stored) if is_planned(&stored, run, plan, node) => {
                            self.seen(job, &stored);
                            return Ok(());
                        }
                        Some(_) => return Err(Outcome::Undo(Reason::NameConflict, message)),
                        None => Outcome::Again(message),
                    }
                }
                // `NotFound`: the namespace is going, and nothing more will be created in it.
                Err(WriteError::Refused { message, .. } | WriteError::NotFound(message)) => {
                    return Err(Outcome::Undo(Reason::PodRefused, message));
                }
                Err(WriteError::NotLeading(error)) => {
                    return Err(Outcome::Again(error.to_string()));
                }
                // The numbers may change before the last try.
                Err(WriteError::Exhausted(message)) => {
                    Outcome::Undo(Reason::ResourceQuotaExceeded, message)
                }
                // A webhook may be back before the plan's deadline.
                Err(
                    WriteError::Transient(message)
                    | WriteError::Unanswered(message)
                    | WriteError::Webhook(message)
                    | WriteError::Unauthorized(message),
                ) => Outcome::Again(message),
            };
            tries = tries.saturating_add(1);
            if tries >= TRIES {
                return Err(last);
            }
            let pause = 50_u64.saturating_mul(1_u64.checked_shl(tries).unwrap_or(u64::MAX));
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            }
        }
    }

    /// A pod is there, whether or not the watch has shown it yet.
    fn seen(&self, job: &Key, pod: &SlimPod) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let key = Key::new(&job.namespace, name);
        if self.world.pods.created(&key, pod) {
            self.world.tell(Feed::pod(key.clone(), pod));
            // It may have ended between the two: whatever is told last counts.
            if !self.world.pods.holds(&key) {
                self.world.tell(Feed::PodGone(key));
            }
        }
    }
}

/// The pods of a plan.
fn members<'a>(groups: &'a [CompiledGroup], plan: &'a Plan) -> Vec<Member<'a>> {
    let mut members = Vec::new();
    for group in groups {
        let mut index: u32 = 0;
        for assignment in plan.assignments.iter().filter(|a| a.group == group.name()) {
            for _ in 0..assignment.count {
                members.push(Member {
                    group,
                    index,
                    node: assignment.node.as_str(),
                });
                index = index.saturating_add(1);
            }
        }
    }
    members
}

/// True if a pod that is there already is the very one that the plan names.
fn is_planned(pod: &SlimPod, run: &Run, plan: &Plan, node: &str) -> bool {
    let owned = pod
        .metadata
        .owner_references
        .iter()
        .flatten()
        .any(|o| o.controller == Some(true) && o.uid == run.uid);
    let annotation = pod.metadata.annotations.as_ref();
    owned
        && annotation.is_some_and(|a| a.get(names::PLAN) == Some(&plan.hash))
        && pod.spec.node_name.as_deref() == Some(node)
        && pod.metadata.deletion_timestamp.is_none()
}
