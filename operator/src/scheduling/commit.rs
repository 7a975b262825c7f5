//! A placement becomes pods: preflight, journal, create, close. Everything
//! else in the operator decides; this writes.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use trellis_api::names;
use trellis_api::pod_group::{Plan, PodGroupStatus};
use trellis_api::{PodGroup, Reason};
use trellis_compiler::{CompiledGroup, PodPlacement};
use trellis_scheduler::{Placement, Resources};

use super::Feed;
use super::journal;
use super::keeper::Doomed;
use super::namespace_quota::{self, Ask};
use super::preflight::Preflight;
use super::wish::Run;
use crate::commands::{Commands, WriteError};
use crate::key::Key;
use crate::watch::SlimPod;
use crate::world::World;

/// Creates of one gang that are under way at once; the limiter bounds them all.
const CREATES: usize = 32;
/// Tries of one pod before its gang's plan is left to its deadline.
const TRIES: u32 = 6;

/// What came of a task.
#[derive(Debug)]
pub enum Outcome {
    /// Done: look at the journal again.
    Done,
    /// Admission makes the pods ask for something else, by group: find a place anew.
    Replan(Vec<(String, Resources)>),
    /// The gang cannot start, and nothing was promised yet.
    PutOff(Reason, String),
    /// The plan is to be undone.
    Undo(Reason, String),
    /// Try the same again in a moment.
    Again(String),
}

impl From<WriteError> for Outcome {
    fn from(error: WriteError) -> Self {
        Self::Again(error.to_string())
    }
}

/// What a task needs.
#[derive(Clone)]
pub struct Committer {
    /// The world, for the newest objects.
    pub world: Arc<World>,
    /// The door for writes.
    pub commands: Commands,
    /// Answers of admission.
    pub preflight: Arc<Preflight>,
}

impl Committer {
    /// Carries out a new placement.
    pub async fn commit(
        &self,
        job: Key,
        run: Arc<Run>,
        placement: Placement,
        planned: Vec<(String, Resources)>,
        stop: CancellationToken,
    ) -> Outcome {
        match self.open(&job, &run, &placement, &planned).await {
            Ok(plan) => self.create(&job, &run, &plan, &stop).await,
            Err(outcome) => outcome,
        }
    }

    /// Preflight and journal: after this the plan is durable.
    async fn open(
        &self,
        job: &Key,
        run: &Run,
        placement: &Placement,
        planned: &[(String, Resources)],
    ) -> Result<Plan, Outcome> {
        let compiled = run.job.compiled();
        let now = Timestamp::now();
        let plan = journal::plan(run, placement, now);
        let mut ask = Ask {
            priority_class: compiled.job().spec().priority_class_name.clone(),
            ..Ask::default()
        };
        let mut actual = Vec::new();
        for group in compiled.groups() {
            let Some(first) = plan.assignments.iter().find(|a| a.group == group.name()) else {
                continue;
            };
            let at = PodPlacement {
                attempt: run.attempt,
                plan: &plan.hash,
                node: &first.node,
            };
            let request = self
                .preflight
                .request(&self.commands, &job.namespace, group, &at)
                .await
                .map_err(|error| match error {
                    WriteError::Refused { message, .. } => {
                        Outcome::PutOff(Reason::PodRefused, message)
                    }
                    // A dry run counts quota too; the whole gang is counted below.
                    WriteError::Transient(message) if message.contains("exceeded quota") => {
                        Outcome::PutOff(Reason::ResourceQuotaExceeded, message)
                    }
                    // A pod of that name that is not ours: of an older job, or a foreign one.
                    WriteError::Conflict(message) => Outcome::PutOff(Reason::NameConflict, message),
                    other => other.into(),
                })?;
            ask.add(i64::from(group.replicas()), &request);
            actual.push((group.name().to_owned(), request));
        }
        if actual.as_slice() != planned {
            return Err(Outcome::Replan(actual));
        }
        let quotas: Vec<_> = self
            .world
            .resource_quotas
            .all()
            .into_iter()
            .filter(|q| q.metadata.namespace.as_deref() == Some(&*job.namespace))
            .collect();
        if let Some(message) = namespace_quota::exceeded(&quotas, &ask) {
            return Err(Outcome::PutOff(Reason::ResourceQuotaExceeded, message));
        }
        let opened = plan.clone();
        self.journal(job, move |before| journal::opened(before, opened))
            .await?;
        Ok(plan)
    }

    /// Creates what the plan names and is not there yet, then closes the plan.
    pub async fn create(
        &self,
        job: &Key,
        run: &Run,
        plan: &Plan,
        stop: &CancellationToken,
    ) -> Outcome {
        let there = self.world.pods.of(job);
        let compiled = run.job.compiled();
        let mut missing: Vec<(&CompiledGroup, u32, &str)> = members(compiled.groups(), plan);
        missing.retain(|(group, index, _)| {
            there
                .get(&group.pod_name(*index))
                .is_none_or(|p| p.plan != plan.hash)
        });
        let total = missing.len();
        // The futures are made before the stream: a closure in it would have to
        // be general over the lifetimes that they borrow for.
        let mut futures = Vec::with_capacity(total);
        for (group, index, node) in missing {
            futures.push(self.create_one(job, run, plan, group, index, node, stop));
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
        match self.journal(job, journal::closed).await {
            Ok(()) => {
                info!(%job, attempt = plan.attempt, pods = total, reason = %Reason::Placed, "placed");
                Outcome::Done
            }
            Err(outcome) => outcome,
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one pod of one group of one plan"
    )]
    async fn create_one(
        &self,
        job: &Key,
        run: &Run,
        plan: &Plan,
        group: &CompiledGroup,
        index: u32,
        node: &str,
        stop: &CancellationToken,
    ) -> Result<(), Outcome> {
        let at = PodPlacement {
            attempt: run.attempt,
            plan: &plan.hash,
            node,
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
            let error = match created {
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
                        None => message,
                    }
                }
                Err(WriteError::Refused { message, .. }) => {
                    return Err(Outcome::Undo(Reason::PodRefused, message));
                }
                // The namespace is going: nothing more will be created in it.
                Err(WriteError::NotFound(message)) => {
                    return Err(Outcome::Undo(Reason::PodRefused, message));
                }
                Err(WriteError::NotLeading(error)) => {
                    return Err(Outcome::Again(error.to_string()));
                }
                Err(WriteError::Transient(message)) => message,
            };
            tries = tries.saturating_add(1);
            if tries >= TRIES {
                let reason = if error.contains("exceeded quota") {
                    Reason::ResourceQuotaExceeded
                } else {
                    return Err(Outcome::Again(error));
                };
                return Err(Outcome::Undo(reason, error));
            }
            let pause = 50_u64.saturating_mul(1_u64.checked_shl(tries).unwrap_or(u64::MAX));
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(std::time::Duration::from_millis(pause)) => {}
            }
        }
    }

    /// A pod is there, whether or not the watch has shown it yet.
    fn seen(&self, job: &Key, pod: &SlimPod) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let key = Key::new(&job.namespace, name);
        if self.world.pods.created(&key, pod) {
            self.world.tell(Feed::pod(key, pod));
        }
    }

    /// Writes the journal on top of the newest state that we know.
    pub async fn journal(
        &self,
        job: &Key,
        change: impl FnOnce(&PodGroupStatus) -> PodGroupStatus,
    ) -> Result<(), Outcome> {
        let Some(before) = self.world.pod_groups.get(job) else {
            return Err(Outcome::Again("the PodGroup is not there yet".to_owned()));
        };
        let status = change(&before.status.clone().unwrap_or_default());
        match journal::write(&self.commands, &before, status).await {
            Ok(written) => {
                self.world.pod_groups.put(job.clone(), written);
                self.world.touch(job.clone());
                Ok(())
            }
            Err(WriteError::Conflict(message)) => {
                self.refresh(job).await;
                Err(Outcome::Again(message))
            }
            Err(WriteError::Transient(message)) => {
                // It may have been written: read before anything is decided on it.
                self.refresh(job).await;
                Err(Outcome::Again(message))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn refresh(&self, job: &Key) {
        match self
            .commands
            .get::<PodGroup>(&job.namespace, &job.name)
            .await
        {
            Ok(Some(now)) => {
                self.world.pod_groups.put(job.clone(), now);
            }
            Ok(None) => {
                self.world.pod_groups.remove(job);
            }
            Err(error) => warn!(%job, %error, "the journal was not read"),
        }
    }

    /// Deletes pods.
    pub async fn delete(&self, job: &Key, pods: Vec<Doomed>) -> Outcome {
        let mut futures = Vec::with_capacity(pods.len());
        for pod in &pods {
            let grace = pod.force.then_some(0);
            futures.push(self.commands.delete::<SlimPod>(
                &job.namespace,
                &pod.name,
                &pod.uid,
                grace,
            ));
        }
        let mut deletes = stream::iter(futures).buffer_unordered(CREATES);
        let mut failure = None;
        while let Some(result) = deletes.next().await {
            if let Err(error) = result {
                failure = Some(error);
            }
        }
        failure.map_or(Outcome::Done, Outcome::from)
    }
}

/// Group, index and node of each pod of a plan.
fn members<'a>(
    groups: &'a [CompiledGroup],
    plan: &'a Plan,
) -> Vec<(&'a CompiledGroup, u32, &'a str)> {
    let mut members = Vec::new();
    for group in groups {
        let mut index: u32 = 0;
        for assignment in plan.assignments.iter().filter(|a| a.group == group.name()) {
            for _ in 0..assignment.count {
                members.push((group, index, assignment.node.as_str()));
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
