//! Creates pods of a gang that is placed: surplus pods, and replacements of lost pods.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::info;
use trellis_api::pod_group::Plan;
use trellis_compiler::CompiledGroup;
use trellis_gang::AuthorizedAttempt;
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::engine::SurplusUnit;
use trellis_gang::gang_step::MissingPod;
use trellis_gang::key::Key;
use trellis_gang::quota::namespace_quota::QuotaDemand;
use trellis_gang::requirements::binding::ClaimMounts;
use trellis_machine::clock;

use super::pod_creation::PlannedMember;
use super::{Committer, claim_binding};
use crate::commands::WriteError;
use crate::task_outcome::TaskOutcome;

/// Longest time to bind the claims of a surplus pod while other work for the gang waits. The next
/// try finds the claims bound.
const CLAIM_BINDING_TIMEOUT: SignedDuration = SignedDuration::from_secs(15);

impl Committer {
    /// Creates pods of a closed plan. A refused pod is tried again later; the gang's other pods
    /// continue.
    pub(crate) async fn create_missing_pods(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        vacancies: &[MissingPod],
        counted: &BTreeMap<String, AdmittedPod>,
        stop: &CancellationToken,
    ) -> TaskOutcome {
        let groups = run.job.compiled().groups();
        let templates: Vec<_> = groups.iter().map(CompiledGroup::pod_builder).collect();
        let template_of = |vacancy: &MissingPod| {
            let mut pods = templates.iter();
            pods.find(|pods| pods.group().name() == vacancy.group)
        };
        if let Err(outcome) = self.check_allowed(job, run) {
            return outcome;
        }
        let epoch = match self.commands.epoch() {
            Ok(epoch) => epoch.0,
            Err(error) => return WriteError::from(error).into(),
        };
        let missing = vacancies.iter().filter_map(|vacancy| {
            Some(PlannedMember {
                template: template_of(vacancy)?,
                index: vacancy.index,
                node: &vacancy.node,
                round: vacancy.round,
                surplus: vacancy
                    .flavor_tolerations
                    .as_deref()
                    .map(|brought| (brought, epoch)),
            })
        });
        let _promise = self.claim_promises.guard_for(job);
        let (missing, unbound) = self.split_by_bound_claims(job, run, counted, missing);
        let missing = match (missing.is_empty(), unbound) {
            (true, Some((first, mounts))) => {
                let until = clock::now().saturating_add(CLAIM_BINDING_TIMEOUT);
                let until = until.unwrap_or(Timestamp::MAX);
                if let Err(outcome) = self.bind_claims(job, plan, &mounts, until, stop).await {
                    return without_rollback(outcome);
                }
                vec![first]
            }
            _ => missing,
        };
        let mut first_failure = None;
        for unit in split_in_units(run, missing) {
            let pods = unit.len();
            // A failure concerns only its own unit.
            let stop = stop.child_token();
            let failure = match self.exceeded_quota_of_slice(job, &unit, counted) {
                Some(message) => Some(TaskOutcome::Retry(message)),
                None => self.create_pods(job, run, plan, unit, counted, &stop).await,
            };
            match failure {
                None => info!(%job, attempt = plan.attempt, pods, "filled up"),
                Some(outcome) => {
                    first_failure.get_or_insert(without_rollback(outcome));
                }
            }
        }
        first_failure.unwrap_or(TaskOutcome::Done)
    }

    /// Describes the ResourceQuota that has no room for a whole slice. A part of a slice would start
    /// only to be deleted again. None: the slice has room, or the pods are no slice.
    fn exceeded_quota_of_slice(
        &self,
        job: &Key,
        unit: &[PlannedMember<'_>],
        counted: &BTreeMap<String, AdmittedPod>,
    ) -> Option<String> {
        let first = unit.first().filter(|first| first.surplus.is_some())?;
        let group = first.template.group();
        let admitted = counted.get(group.name()).cloned();
        let admitted = admitted.unwrap_or_else(|| AdmittedPod::from_group(group));
        let pods = i64::try_from(unit.len()).ok().filter(|pods| *pods > 1)?;
        let mut demand = QuotaDemand::default();
        demand.add(pods, &admitted.request, &admitted.quota_fields);
        self.exceeded_quota(job, &demand)
    }
}

/// Splits pods in units that are created one after the other: the pods of the gang and the single
/// surplus pods together, and each slice outside the gang.
fn split_in_units<'a>(
    run: &AuthorizedAttempt,
    pods: Vec<PlannedMember<'a>>,
) -> Vec<Vec<PlannedMember<'a>>> {
    let spec = run.job.compiled().job().spec();
    let mut units: BTreeMap<Option<SurplusUnit>, Vec<PlannedMember<'a>>> = BTreeMap::new();
    for pod in pods {
        let group = spec.group(pod.template.group().name());
        let split = group.filter(|group| pod.surplus.is_some() && group.has_slices());
        let unit = split.map(|group| SurplusUnit::of_pod(group, pod.index));
        units.entry(unit).or_default().push(pod);
    }
    units.into_values().collect()
}

/// The pods whose claims are bound and reachable, and the first other pod with its claims. A
/// surplus pod that waits for its claims must not delay the replacement of a member.
type PodsByClaims<'a> = (
    Vec<PlannedMember<'a>>,
    Option<(PlannedMember<'a>, ClaimMounts)>,
);

impl Committer {
    fn split_by_bound_claims<'a>(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        counted: &BTreeMap<String, AdmittedPod>,
        pods: impl Iterator<Item = PlannedMember<'a>>,
    ) -> PodsByClaims<'a> {
        let mut ready = Vec::new();
        let mut unbound = None;
        for pod in pods {
            let mounts =
                claim_binding::pod_mounts(run, counted, pod.template.group().name(), pod.node);
            // The plan has bound the claims of members already.
            if pod.surplus.is_none() || mounts.is_empty() || self.are_claims_bound(job, &mounts) {
                ready.push(pod);
            } else if unbound.is_none() {
                unbound = Some((pod, mounts));
            }
        }
        (ready, unbound)
    }
}

/// Turns a rollback into a retry, because a pod of a closed plan never rolls the plan back.
fn without_rollback(outcome: TaskOutcome) -> TaskOutcome {
    match outcome {
        TaskOutcome::RollBack(_, message) | TaskOutcome::PutOff(_, message) => {
            TaskOutcome::Retry(message)
        }
        TaskOutcome::Avoid(nodes, outcome) => {
            TaskOutcome::Avoid(nodes, Box::new(without_rollback(*outcome)))
        }
        outcome => outcome,
    }
}
