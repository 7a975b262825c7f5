//! Binds one external pod, and finds out the result of a failed binding.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::warn;
use trellis_api::Reason;
use trellis_api::pod_group::PlannedPod;
use trellis_gang::key::Key;
use trellis_gang::observed::{BindingAnnotations, ExternalPod, JudgedSpec, SlimPod};

use crate::SchedulerEvent;
use crate::commands::WriteError;
use crate::commit::Committer;
use crate::task_outcome::TaskOutcome;

/// Tries for one pod. After them, the plan's deadline decides.
const MAX_TRIES: u32 = 6;

impl Committer {
    pub(super) async fn bind_pod(
        &self,
        unit: &Key,
        (pod, judged): (&PlannedPod, Option<&JudgedSpec>),
        node: &str,
        by: BindingAnnotations<'_>,
        stop: &CancellationToken,
    ) -> Result<(), TaskOutcome> {
        let key = Key::new(&unit.namespace, &pod.name);
        let refused = |why: String| pod_refused(pod, &why);
        // Users may change a pod until it is bound, but policies judged the earlier spec.
        let mut version = match judged {
            None => None,
            Some(judged) => Some(self.cached_judged_version(&key, pod, judged)?),
        };
        let mut tries: u32 = 0;
        loop {
            if stop.is_cancelled() {
                return Ok(());
            }
            let incarnation = (pod.uid.as_str(), version.as_deref());
            let bound = self
                .commands
                .bind_pod(&key.namespace, &key.name, incarnation, node, by)
                .await;
            let last = match bound {
                Ok(()) => {
                    self.record_bound_pod(unit, &key, pod, node, by);
                    return Ok(());
                }
                // The pod may be bound by an earlier try whose answer was lost, bound by another
                // scheduler, or changed. Without any answer, the node may only be released once it
                // is certain that the pod is not bound to it.
                Err(
                    error @ (WriteError::Conflict(_)
                    | WriteError::AlreadyExists(_)
                    | WriteError::Unanswered(_)
                    | WriteError::Transient(_)),
                ) => match self.read_binding_state(&key, pod, node, by.plan).await? {
                    BindingState::AsPlanned => {
                        self.record_bound_pod(unit, &key, pod, node, by);
                        return Ok(());
                    }
                    BindingState::Unbound => error.to_string(),
                    BindingState::Impossible => return Err(refused(error.to_string())),
                },
                Err(WriteError::NotFound(message)) => return Err(refused(message)),
                Err(WriteError::Refused { message, .. }) => return Err(refused(message)),
                Err(error @ (WriteError::NotLeading(_) | WriteError::Withdrawn)) => {
                    return Err(error.into());
                }
                Err(error) => error.to_string(),
            };
            tries = tries.saturating_add(1);
            if tries >= MAX_TRIES {
                return Err(TaskOutcome::Retry(last));
            }
            let pause = Duration::from_millis(50 << tries.min(6));
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
            if let Some(judged) = judged {
                version = self
                    .read_judged_version(&key, pod, judged)
                    .await?
                    .or(version);
            }
        }
    }

    /// Returns the `resourceVersion` at which the watch last showed the pod.
    ///
    /// # Errors
    /// If the pod is gone, or policies judged another spec.
    fn cached_judged_version(
        &self,
        key: &Key,
        pod: &PlannedPod,
        judged: &JudgedSpec,
    ) -> Result<String, TaskOutcome> {
        let version = self
            .context
            .cache
            .external_pods
            .version_if_unchanged(key, &pod.uid, judged);
        version.ok_or_else(|| {
            let there = self.context.cache.external_pods.get(key);
            match there.is_some_and(|there| there.uid == pod.uid) {
                true => pod_changed(pod),
                false => pod_refused(pod, "it is gone"),
            }
        })
    }

    /// Returns the current `resourceVersion` of the pod at the API server. None: the read failed.
    ///
    /// # Errors
    /// As for [`Self::cached_judged_version`].
    async fn read_judged_version(
        &self,
        key: &Key,
        pod: &PlannedPod,
        judged: &JudgedSpec,
    ) -> Result<Option<String>, TaskOutcome> {
        let there: Result<Option<SlimPod>, _> = self.commands.get(&key.namespace, &key.name).await;
        match there {
            Ok(Some(there)) if there.metadata.uid.as_ref() == Some(&pod.uid) => {
                match JudgedSpec::from_spec(&there.spec).is_like(judged) {
                    true => Ok(there.metadata.resource_version),
                    false => Err(pod_changed(pod)),
                }
            }
            Ok(_) => Err(pod_refused(pod, "it is gone")),
            Err(error) => {
                warn!(pod = %key, %error, "the pod was not read");
                Ok(None)
            }
        }
    }

    /// Reads from the API server whether the pod is bound. Repeats the read until it succeeds.
    async fn read_binding_state(
        &self,
        key: &Key,
        pod: &PlannedPod,
        node: &str,
        plan: &str,
    ) -> Result<BindingState, TaskOutcome> {
        let there: Option<SlimPod> = self
            .commands
            .get_until_answered(&key.namespace, &key.name)
            .await?;
        let Some(there) = there.filter(|there| there.metadata.uid.as_ref() == Some(&pod.uid))
        else {
            return Ok(BindingState::Impossible);
        };
        let annotations = there.metadata.annotations.as_ref();
        let by = annotations.and_then(|a| a.get(trellis_api::names::PLAN));
        let gated = there
            .spec
            .to_be_placed
            .as_ref()
            .is_some_and(|raw| raw.get().contains("\"schedulingGates\""));
        Ok(match there.spec.node_name.as_deref() {
            Some(there) if there == node && by.is_some_and(|by| by == plan) => {
                BindingState::AsPlanned
            }
            Some(_) => BindingState::Impossible,
            None if there.metadata.deletion_timestamp.is_some() || gated => {
                BindingState::Impossible
            }
            None => BindingState::Unbound,
        })
    }

    /// Records a bound pod, even if the watch has not shown it yet.
    ///
    /// The engine learns of the binding at once: if the gang is rolled back before the watch shows
    /// the pod, the node must not count as free.
    pub(crate) fn record_bound_pod(
        &self,
        unit: &Key,
        key: &Key,
        pod: &PlannedPod,
        node: &str,
        by: BindingAnnotations<'_>,
    ) {
        let tell = |bound: &ExternalPod| {
            self.context.send_event(SchedulerEvent::Pod {
                pod: key.clone(),
                uid: pod.uid.as_str().into(),
                node: node.into(),
                request: bound.request.clone(),
                leaves: None,
            });
        };
        self.context
            .cache
            .external_pods
            .record_binding(key, &pod.uid, node, by, tell);
        self.context
            .send_event(SchedulerEvent::Recheck(unit.clone()));
    }
}

/// Rolls the plan back, because a pod of it cannot be bound.
fn pod_refused(pod: &PlannedPod, why: &str) -> TaskOutcome {
    let message = format!("pod {:?} was not bound: {why}", pod.name);
    TaskOutcome::RollBack(Reason::PodRefused, message)
}

fn pod_changed(pod: &PlannedPod) -> TaskOutcome {
    pod_refused(pod, "its spec has changed since policies judged it")
}

/// State of a pod after a failed binding.
enum BindingState {
    /// Bound by this plan.
    AsPlanned,
    /// Not bound, but it may still be.
    Unbound,
    /// Another scheduler has bound it, or it is gone, terminating or gated.
    Impossible,
}
