//! Steps before the first pod: preflight, a check of the claims, the namespace's quota, the
//! journal.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use trellis_api::Reason;
use trellis_api::pod_group::{Plan, PodGroupPhase};
use trellis_compiler::PodPlacement;
use trellis_gang::admitted::Admitted;
use trellis_gang::flavors::Place;
use trellis_gang::key::Key;
use trellis_gang::open_plans::OpenPlan;
use trellis_gang::{Run, flavors, journal};

use super::{Committer, Outcome, bind};
use crate::commands::WriteError;

impl Committer {
    /// Runs preflight and writes the journal: after this the plan is durable. Also returns what was
    /// counted for its pods.
    pub(super) async fn open(
        &self,
        job: &Key,
        run: &Run,
        place: &Place,
        planned: BTreeMap<String, Admitted>,
        stop: &CancellationToken,
    ) -> Result<(Plan, BTreeMap<String, Admitted>), Outcome> {
        self.is_allowed(job, run)?;
        let mut plan = journal::plan(run, place, Timestamp::now());
        if let Some(nominated) = self.nominated(job) {
            plan = journal::renewed(plan, &nominated);
        }
        let actual = self.preflight(job, run, &plan, &planned).await?;
        if actual != planned {
            return Err(Outcome::Replan(actual));
        }
        if stop.is_cancelled() {
            return Err(Outcome::Done);
        }
        self.can_bind(job, &bind::of_plan(run, &plan, &actual))?;
        self.has_names(job, run, &plan, &actual)?;
        self.has_children(job, &run.uid, run.job.compiled().has_hosts())?;
        self.policies_are_as_new(job, run, place.quotas, stop)
            .await?;
        let open = open_plan(run, &plan, &actual);
        let whole = open.whole();
        self.open_plans
            .enter(
                job,
                open,
                |other, plan| self.rest(other, plan),
                |promised| self.exceeded(job, &whole, promised),
            )
            .map_err(|message| Outcome::OverQuota(whole.clone(), message))?;
        self.is_allowed(job, run)?;
        let opened = plan.clone();
        self.journal(job, &run.uid, move |before| journal::opened(before, opened))
            .await?;
        Ok((plan, actual))
    }

    /// Checks that the names of the claims that come with the pods are free.
    pub(super) fn has_names(
        &self,
        job: &Key,
        run: &Run,
        plan: &Plan,
        counted: &BTreeMap<String, Admitted>,
    ) -> Result<(), Outcome> {
        for group in run.job.compiled().groups() {
            let volumes = counted.get(group.name()).map(|pod| &pod.ephemeral);
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
                // A claim of the previous pod goes with that pod.
                let is_strange = there.is_some_and(|c| c.pod().is_none_or(|p| p.name != pod));
                if is_strange {
                    let message = format!(
                        "PersistentVolumeClaim {claim:?} is there and is not pod {pod:?}'s, whose ephemeral volume bears that name: delete it, or rename the volume"
                    );
                    return Err(Outcome::PutOff(Reason::NameConflict, message));
                }
            }
        }
        Ok(())
    }

    /// Checks that the current policies allow the job. If they have changed since it was decided,
    /// the controller judges the job again.
    pub(super) fn is_allowed(&self, job: &Key, run: &Run) -> Result<(), Outcome> {
        if self.context.cache.policies.still_allow(&run.job) {
            return Ok(());
        }
        self.context.work.add(job.clone());
        let message = "the policies have changed since it was decided that it may run";
        Err(Outcome::Again(message.to_owned()))
    }

    /// The plan of the gang's nomination.
    fn nominated(&self, job: &Key) -> Option<Plan> {
        let group = self.context.cache.pod_groups.get(job)?;
        let journal = group.status.as_ref()?;
        let nominated = journal.phase == Some(PodGroupPhase::Nominated);
        journal.plan.clone().filter(|_| nominated)
    }

    /// The pods as admission leaves them, by group, without what their flavors add. One pod of each
    /// group is tried with a dry run.
    pub(super) async fn preflight(
        &self,
        job: &Key,
        run: &Run,
        plan: &Plan,
        planned: &BTreeMap<String, Admitted>,
    ) -> Result<BTreeMap<String, Admitted>, Outcome> {
        let mut actual = planned.clone();
        for group in run.job.compiled().groups() {
            let Some(first) = plan.assignments.iter().find(|a| a.group == group.name()) else {
                continue;
            };
            let brought = flavors::tolerations(&plan.groups, group.name());
            let at = PodPlacement {
                attempt: run.attempt,
                plan: &plan.hash,
                node: &first.node,
                tolerations: brought,
                ..PodPlacement::NOWHERE
            };
            let asked = self
                .preflight
                .ask(&self.commands, &job.namespace, group, &at)
                .await;
            if let Err(WriteError::Refused { message, .. }) = asked {
                let node = self
                    .node_at_fault(job, plan, (&group.template(), 0), &at)
                    .await;
                return Err(Outcome::PutOff(Reason::PodRefused, message).because_of(node));
            }
            let admitted = asked.map_err(|error| match error {
                WriteError::Webhook(message) => Outcome::PutOff(Reason::PodRefused, message),
                WriteError::Unanswered(message) => Outcome::PutOff(
                    Reason::BackingOff,
                    format!("a dry run of a pod: {message}; an admission webhook may hang"),
                ),
                // A dry run counts quota too. The operator's own count shows when there is room
                // again.
                WriteError::Exhausted(message) => {
                    let whole = open_plan(run, plan, planned).whole();
                    match self.over_quota(job, &whole) {
                        Some(counted) => Outcome::OverQuota(whole, counted),
                        None => Outcome::PutOff(Reason::ResourceQuotaExceeded, message),
                    }
                }
                // A pod of that name exists: of an older job, or a foreign one.
                WriteError::AlreadyExists(message) => {
                    Outcome::PutOff(Reason::NameConflict, message)
                }
                other => other.into(),
            })?;
            let sent = Admitted::unchanged(group);
            let known = |claim: &str| run.volumes.claims.contains_key(claim);
            if let Some(refusal) = admitted.refusal(&sent, known) {
                return Err(Outcome::PutOff(refusal.reason, refusal.message));
            }
            actual.insert(group.name().to_owned(), admitted.without(brought, group));
        }
        Ok(actual)
    }
}

/// Quota of the namespace that a plan needs.
pub(super) fn open_plan(run: &Run, plan: &Plan, admitted: &BTreeMap<String, Admitted>) -> OpenPlan {
    OpenPlan::new(&plan.hash, run.job.compiled(), admitted)
}
