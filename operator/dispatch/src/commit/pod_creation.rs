//! Creates the pods of a plan, and closes the plan.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::info;
use trellis_api::job::TrainingJobStatus;
use trellis_api::pod_group::Plan;
use trellis_api::{Reason, names};
use trellis_compiler::{CompiledGroup, PodBuilder, PodPlacement};
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::key::Key;
use trellis_gang::observed::SlimPod;
use trellis_gang::requirements::{flavors, resource_request};
use trellis_gang::{AuthorizedAttempt, journal};
use trellis_machine::clock;
use trellis_scheduler::Resources;

use super::plan_opening::plan_quota;
use super::{Committer, claim_binding, is_owned};
use crate::SchedulerEvent;
use crate::commands::WriteError;
use crate::task_outcome::TaskOutcome;

/// Most creates of one gang in flight. The limiter bounds the creates of all gangs.
const MAX_CONCURRENT_CREATES: usize = 32;
/// Tries for one pod. After them, the plan's deadline decides.
const MAX_TRIES: u32 = 6;

/// One pod of a plan.
#[derive(Clone, Copy)]
pub(super) struct PlannedMember<'a> {
    pub(super) template: &'a PodBuilder<'a>,
    pub(super) index: u32,
    pub(super) node: &'a str,
    pub(super) round: i64,
    /// Only for a surplus pod: the tolerations of its flavors, and the epoch of the creating
    /// leader.
    pub(super) surplus: Option<(&'a [Toleration], i64)>,
}

impl<'a> PlannedMember<'a> {
    fn placement(self, run: &AuthorizedAttempt, plan: &'a Plan) -> PodPlacement<'a> {
        let group = self.template.group().name();
        PodPlacement {
            attempt: run.attempt.number,
            round: self.round,
            plan: &plan.hash,
            epoch: self.surplus.map(|(_, epoch)| epoch),
            node: self.node,
            tolerations: match self.surplus {
                Some((brought, _)) => brought,
                None => flavors::group_tolerations(&plan.groups, group),
            },
            annotations: flavors::group_annotations(&plan.groups, group),
        }
    }
}

/// Why a pod was not created.
struct CreateFailure<'a> {
    outcome: TaskOutcome,
    /// The pod, if its node may be the cause.
    refused_pod: Option<PlannedMember<'a>>,
}

impl From<TaskOutcome> for CreateFailure<'_> {
    fn from(outcome: TaskOutcome) -> Self {
        let refused = None;
        Self {
            outcome,
            refused_pod: refused,
        }
    }
}

impl Committer {
    /// Continues a plan that is already in the journal. `counted` is empty if an earlier leader
    /// wrote the plan.
    pub async fn resume(
        &self,
        job: Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        counted: &BTreeMap<String, AdmittedPod>,
        stop: CancellationToken,
    ) -> TaskOutcome {
        let compiled = run.job.compiled();
        if let Some(message) = self.find_missing_child(&job, &run.uid, compiled) {
            return TaskOutcome::Retry(message);
        }
        let open = plan_quota(run, plan, counted);
        self.open_plans.insert(&job, open);
        let _promise = self.claim_promises.guard_for(&job);
        self.carry_out_plan(&job, run, plan, counted, &stop).await
    }

    /// Binds the claims of the plan's pods, creates the pods that are missing, then closes the
    /// plan.
    pub(super) async fn carry_out_plan(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        counted: &BTreeMap<String, AdmittedPod>,
        stop: &CancellationToken,
    ) -> TaskOutcome {
        let mounts = claim_binding::plan_mounts(run, plan, counted);
        let until = plan.deadline.as_ref().map_or(Timestamp::MIN, |d| d.0);
        if let Err(outcome) = self.withdraw_order(job, run, until).await {
            return outcome;
        }
        if let Err(outcome) = self.bind_claims(job, plan, &mounts, until, stop).await {
            return outcome;
        }
        let there = self.context.cache.pods.pods_of_job(job);
        let groups = run.job.compiled().groups();
        let templates: Vec<_> = groups.iter().map(CompiledGroup::pod_builder).collect();
        let mut missing = planned_members(&templates, plan);
        let held_groups = &run.attempt.awaited.held_groups;
        missing.retain(|pod| {
            let group = pod.template.group();
            let is_held = held_groups.iter().any(|held| held == group.name());
            let there = there.get(&group.pod_name(pod.index));
            !is_held && there.is_none_or(|p| p.plan != plan.hash)
        });
        let total = missing.len();
        if let Some(outcome) = self
            .create_pods(job, run, plan, missing, counted, stop)
            .await
        {
            return outcome;
        }
        let hash = plan.hash.clone();
        // The gang has its pods, so writes of other gangs' pods come first. A gang that ends before
        // that needs no closed plan, and the release of its resources does not wait for it.
        let closed = self
            .with_low_priority(stop)
            .write_journal(job, &run.uid, move |before| {
                journal::close_plan(before, &hash)
            })
            .await;
        match closed {
            Ok(()) => {
                info!(%job, attempt = plan.attempt, pods = total, reason = %Reason::Placed, "placed");
                self.count_placed(job, run);
                TaskOutcome::Done
            }
            Err(outcome) => outcome,
        }
    }

    fn count_placed(&self, job: &Key, run: &AuthorizedAttempt) {
        let written = self.context.cache.jobs.get(job);
        let status = written.as_ref().and_then(|job| job.status.as_ref());
        let since = status.and_then(TrainingJobStatus::pending_since);
        let waited = clock::now().duration_since(since.unwrap_or(run.attempt.submitted));
        let waited = Duration::try_from(waited).unwrap_or_default();
        let queue = run.job.compiled().queue();
        self.context.metrics.count_placement(job, queue, waited);
    }

    /// Creates pods of a plan. None: all of them exist.
    pub(super) async fn create_pods(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        missing: Vec<PlannedMember<'_>>,
        counted: &BTreeMap<String, AdmittedPod>,
        stop: &CancellationToken,
    ) -> Option<TaskOutcome> {
        // The futures are created before the stream, because a closure in the stream would have to
        // be generic over the borrowed lifetimes.
        let mut futures = Vec::with_capacity(missing.len());
        for pod in missing {
            let counted = counted.get(pod.template.group().name());
            futures.push(self.create_pod(job, run, plan, pod, counted, stop));
        }
        let mut creates = stream::iter(futures).buffer_unordered(MAX_CONCURRENT_CREATES);
        let mut failure: Option<CreateFailure<'_>> = None;
        while let Some(result) = creates.next().await {
            if let Err(failed) = result {
                // Wait for the creates in flight: no pod may appear after the rollback.
                stop.cancel();
                let worse = matches!(failed.outcome, TaskOutcome::RollBack(..));
                if worse || failure.is_none() {
                    failure = Some(failed);
                }
            }
        }
        drop(creates);
        if let Some(CreateFailure {
            outcome,
            refused_pod: refused,
        }) = failure
        {
            let Some(pod) = refused else {
                return Some(outcome);
            };
            let (which, at) = ((pod.template, pod.index), pod.placement(run, plan));
            let node = self.find_faulty_node(job, plan, which, &at).await;
            return Some(outcome.with_faulty_node(node));
        }
        stop.is_cancelled().then_some(TaskOutcome::Done)
    }

    async fn create_pod<'a>(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        member: PlannedMember<'a>,
        counted: Option<&AdmittedPod>,
        stop: &CancellationToken,
    ) -> Result<(), CreateFailure<'a>> {
        let PlannedMember {
            template: pods,
            index,
            ..
        } = member;
        let pod = pods.pod(index, &member.placement(run, plan));
        let name = pods.group().pod_name(index);
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
                Ok(stored) => return Ok(self.accept_created_pod(job, &stored, counted)?),
                Err(error) => error,
            };
            // This or an earlier try may have created the pod, and the watch may show it late. Its
            // node must not be given away before that is known.
            if may_exist(&error) {
                let there: Result<Option<SlimPod>, _> = self
                    .commands
                    .get_until_answered(&job.namespace, &name)
                    .await;
                match there.map_err(TaskOutcome::from)? {
                    Some(stored) if is_planned(&stored, run, plan, member) => {
                        return Ok(self.accept_created_pod(job, &stored, counted)?);
                    }
                    Some(_) => {
                        let message = error.to_string();
                        return Err(TaskOutcome::RollBack(Reason::NameConflict, message).into());
                    }
                    None => {}
                }
            }
            tries = tries.saturating_add(1);
            // The gang does not wait for a surplus pod. The next step of the gang tries again.
            let is_last = tries >= MAX_TRIES || member.surplus.is_some();
            if let Some(failure) = create_failure(error, member, is_last) {
                return Err(failure);
            }
            let pause = 50_u64.saturating_mul(1_u64.checked_shl(tries).unwrap_or(u64::MAX));
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            }
        }
    }

    /// Records a created pod. If admission raised its request above the counted one, the plan would
    /// use resources promised to other gangs, so it is rolled back.
    fn accept_created_pod(
        &self,
        job: &Key,
        stored: &SlimPod,
        counted: Option<&AdmittedPod>,
    ) -> Result<(), TaskOutcome> {
        self.record_pod(job, stored);
        match counted.and_then(|counted| describe_excess_request(stored, &counted.request)) {
            None => Ok(()),
            Some(message) => Err(TaskOutcome::RollBack(Reason::PodRefused, message)),
        }
    }

    /// Records a pod that exists, even if the watch has not shown it yet.
    fn record_pod(&self, job: &Key, pod: &SlimPod) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let key = Key::new(&job.namespace, name);
        if self.context.cache.pods.insert_created(&key, pod) {
            self.context
                .send_event(SchedulerEvent::for_pod(key.clone(), pod));
            // The pod may have ended between the two calls. The engine keeps what it receives last.
            if !self.context.cache.pods.holds_resources(&key) {
                self.context.send_event(SchedulerEvent::PodGone(key));
            }
        }
    }
}

/// Returns true if a pod of that name may exist after the failed try.
fn may_exist(error: &WriteError) -> bool {
    matches!(
        error,
        WriteError::AlreadyExists(_)
            | WriteError::Conflict(_)
            | WriteError::Transient(_)
            | WriteError::Unanswered(_)
    )
}

/// Returns the failure of a pod that does not exist. None: another try may succeed.
fn create_failure(
    error: WriteError,
    member: PlannedMember<'_>,
    is_last_try: bool,
) -> Option<CreateFailure<'_>> {
    let outcome = match error {
        WriteError::Refused { message, .. } => {
            return Some(CreateFailure {
                outcome: TaskOutcome::RollBack(Reason::PodRefused, message),
                refused_pod: Some(member),
            });
        }
        // The namespace is terminating, and no object can be created in it.
        WriteError::NotFound(message) => {
            return Some(TaskOutcome::RollBack(Reason::PodRefused, message).into());
        }
        error @ (WriteError::NotLeading(_) | WriteError::Withdrawn) => {
            return Some(TaskOutcome::from(error).into());
        }
        // The quota's numbers may change before the last try.
        WriteError::Exhausted(message) => {
            TaskOutcome::RollBack(Reason::ResourceQuotaExceeded, message)
        }
        // A webhook may work again before the plan's deadline.
        error => TaskOutcome::Retry(error.to_string()),
    };
    is_last_try.then(|| outcome.into())
}

/// Describes the amounts by which a stored pod's request exceeds the counted request.
fn describe_excess_request(stored: &SlimPod, counted: &Resources) -> Option<String> {
    let request = resource_request::pod_request(stored);
    let more = request.iter().find(|(r, amount)| *amount > counted.get(r));
    let (resource, amount) = more?;
    // The amount is in thousandths of a core, in bytes, or a count.
    let unit = if resource.as_str() == "cpu" { "m" } else { "" };
    Some(format!(
        "admission makes pod {:?} ask for {amount}{unit} of {} where it had its group's other pods ask for {}{unit}: they are to be alike",
        stored.metadata.name.as_deref().unwrap_or_default(),
        resource.as_str(),
        counted.get(resource),
    ))
}

/// Returns the members that a plan names.
fn planned_members<'a>(templates: &'a [PodBuilder<'a>], plan: &'a Plan) -> Vec<PlannedMember<'a>> {
    let template_of = |group: &str| templates.iter().find(|pods| pods.group().name() == group);
    let members = journal::members(plan).filter_map(|(group, index, node)| {
        Some(PlannedMember {
            template: template_of(group)?,
            index,
            round: 0,
            surplus: None,
            node,
        })
    });
    members.collect()
}

/// Returns true if an existing pod is the pod that the plan names.
fn is_planned(
    pod: &SlimPod,
    run: &AuthorizedAttempt,
    plan: &Plan,
    member: PlannedMember<'_>,
) -> bool {
    let annotation = pod.metadata.annotations.as_ref();
    let round = annotation.and_then(|a| a.get(names::ROUND)?.parse().ok());
    is_owned(pod, &run.uid)
        && annotation.is_some_and(|a| a.get(names::PLAN) == Some(&plan.hash))
        && round.unwrap_or(0) == member.round
        && pod.spec.node_name.as_deref() == Some(member.node)
        && pod.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests;
