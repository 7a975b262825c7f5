//! Steps before the first pod: preflight, a check of the claims, the namespace's quota, the
//! journal.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;
use trellis_api::Reason;
use trellis_api::pod_group::{Plan, PodGroupPhase};
use trellis_compiler::PodPlacement;
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::journal::open_plan_demand::OpenPlan;
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::{AuthorizedAttempt, journal};
use trellis_machine::clock;

use super::{Committer, claim_binding};
use crate::commands::WriteError;
use crate::task_outcome::TaskOutcome;

impl Committer {
    /// Runs preflight and writes the journal, which makes the plan durable. Also returns the
    /// requests that were counted for its pods.
    pub(super) async fn open_plan(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        place: &GangPlacement,
        planned: BTreeMap<String, AdmittedPod>,
        stop: &CancellationToken,
    ) -> Result<(Plan, BTreeMap<String, AdmittedPod>), TaskOutcome> {
        self.check_allowed(job, run)?;
        let mut plan = journal::build_plan(run, place, clock::now());
        if let Some(nominated) = self.nominated_plan(job) {
            plan = journal::reuse_plan_hash(plan, &nominated);
        }
        let actual = self.run_preflight(job, run, &plan, &planned).await?;
        if actual != planned {
            return Err(TaskOutcome::Replan(actual));
        }
        if stop.is_cancelled() {
            return Err(TaskOutcome::Done);
        }
        self.check_bindable(job, &claim_binding::plan_mounts(run, &plan, &actual))?;
        self.check_claim_names(job, run, &plan, &actual)?;
        self.check_children(job, &run.uid, run.job.compiled())?;
        self.await_current_policies(job, run, place.quota_version, stop)
            .await?;
        self.promise_quota(job, plan_quota(run, &plan, &actual))?;
        self.check_allowed(job, run)?;
        let opened = plan.clone();
        self.write_journal(job, &run.uid, move |before| {
            journal::open_plan(before, opened)
        })
        .await?;
        Ok((plan, actual))
    }

    /// Promises room in the ResourceQuotas of the namespace to the pods of a gang.
    pub(super) fn promise_quota(&self, job: &Key, open: OpenPlan) -> Result<(), TaskOutcome> {
        let whole = open.total_demand();
        self.open_plans
            .try_insert(
                job,
                open,
                |other, plan| self.remaining_request(other, plan),
                |promised| self.exceeded_quota_with(job, &whole, promised),
            )
            .map_err(|message| TaskOutcome::OverQuota(whole.clone(), message))
    }

    /// Checks that the names of the pods' ephemeral claims are free.
    pub(super) fn check_claim_names(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        counted: &BTreeMap<String, AdmittedPod>,
    ) -> Result<(), TaskOutcome> {
        for group in run.job.compiled().groups() {
            let volumes = counted.get(group.name()).map(|pod| &pod.ephemeral_claims);
            let Some(volumes) = volumes.filter(|volumes| !volumes.is_empty()) else {
                continue;
            };
            let members = journal::members(plan).filter(|(name, ..)| *name == group.name());
            let pods = members.map(|(_, index, _)| group.pod_name(index));
            for (pod, volume) in pods.flat_map(|pod| volumes.keys().map(move |v| (pod.clone(), v)))
            {
                let claim = format!("{pod}-{volume}");
                let there = self
                    .context
                    .cache
                    .claims
                    .get(&Key::new(&job.namespace, &claim));
                // A claim of the previous pod disappears with that pod.
                let is_strange = there.is_some_and(|c| c.pod().is_none_or(|p| p.name != pod));
                if is_strange {
                    let message = format!(
                        "PersistentVolumeClaim {claim:?} is there and is not pod {pod:?}'s, whose ephemeral volume bears that name: delete it, or rename the volume"
                    );
                    return Err(TaskOutcome::PutOff(Reason::NameConflict, message));
                }
            }
        }
        Ok(())
    }

    /// Checks that the current policies allow the job. If they have changed since the decision, the
    /// controller judges the job again.
    pub(super) fn check_allowed(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
    ) -> Result<(), TaskOutcome> {
        if self.context.cache.policies.still_allows(&run.job) {
            return Ok(());
        }
        self.context.work_queue.add(job.clone());
        let message = "the policies have changed since it was decided that it may run";
        Err(TaskOutcome::Retry(message.to_owned()))
    }

    /// Returns the plan of the gang's nomination.
    fn nominated_plan(&self, job: &Key) -> Option<Plan> {
        let group = self.context.cache.pod_groups.get(job)?;
        let journal = group.status.as_ref()?;
        let nominated = journal.phase == Some(PodGroupPhase::Nominated);
        journal.plan.clone().filter(|_| nominated)
    }

    /// Returns the pods as admission leaves them, by group, without the additions of their flavors.
    /// Tries one pod of each group with a dry run.
    pub(super) async fn run_preflight(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        planned: &BTreeMap<String, AdmittedPod>,
    ) -> Result<BTreeMap<String, AdmittedPod>, TaskOutcome> {
        let mut actual = planned.clone();
        for group in run.job.compiled().groups() {
            let Some(first) = plan.assignments.iter().find(|a| a.group == group.name()) else {
                continue;
            };
            let brought = flavors::group_tolerations(&plan.groups, group.name());
            let at = PodPlacement {
                attempt: run.attempt.number,
                plan: &plan.hash,
                node: &first.node,
                tolerations: brought,
                ..PodPlacement::UNPLACED
            };
            let answer = self
                .preflight
                .dry_run(&self.commands, &job.namespace, group, &at)
                .await;
            if let Err(WriteError::Refused { message, .. }) = answer {
                let node = self
                    .find_faulty_node(job, plan, (&group.pod_builder(), 0), &at)
                    .await;
                return Err(TaskOutcome::PutOff(Reason::PodRefused, message).with_faulty_node(node));
            }
            let admitted = answer.map_err(|error| match error {
                WriteError::Webhook(message) => TaskOutcome::PutOff(Reason::PodRefused, message),
                WriteError::Unanswered(message) => TaskOutcome::PutOff(
                    Reason::BackingOff,
                    format!("a dry run of a pod: {message}; an admission webhook may hang"),
                ),
                // A dry run counts quota, too. The operator's own count shows when there is room
                // again.
                WriteError::Exhausted(message) => {
                    let whole = plan_quota(run, plan, planned).total_demand();
                    match self.exceeded_quota(job, &whole) {
                        Some(counted) => TaskOutcome::OverQuota(whole, counted),
                        None => TaskOutcome::PutOff(Reason::ResourceQuotaExceeded, message),
                    }
                }
                // A pod of this name exists, of an older job or of another controller.
                WriteError::AlreadyExists(message) => {
                    TaskOutcome::PutOff(Reason::NameConflict, message)
                }
                other => other.into(),
            })?;
            let sent = AdmittedPod::from_group(group);
            let known = |claim: &str| run.volumes.claims.contains_key(claim);
            if let Some(refusal) = admitted.refusal(&sent, known) {
                return Err(TaskOutcome::PutOff(refusal.reason, refusal.message));
            }
            actual.insert(
                group.name().to_owned(),
                admitted.strip_flavor_tolerations(brought, group),
            );
        }
        Ok(actual)
    }
}

/// Returns the quota of the namespace that a plan needs.
pub(super) fn plan_quota(
    run: &AuthorizedAttempt,
    plan: &Plan,
    admitted: &BTreeMap<String, AdmittedPod>,
) -> OpenPlan {
    OpenPlan::new(&plan.hash, run.job.compiled(), admitted)
}
