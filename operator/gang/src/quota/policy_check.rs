//! Applies QuotaPolicies to a compiled job. Pure: for the controller and for plans.

use std::collections::BTreeMap;

use trellis_api::pod_group::Plan;
use trellis_api::quantity::Amount;
use trellis_api::{QueueSpec, TrainingJob};
use trellis_compiler::CompiledJob;
use trellis_policies::quota::{QuotaDraw, QuotaPolicies, QuotaRequest, QuotaVerdict};

/// Total demand of a job's gang. Surplus pods are not included: they wait while a limit has no
/// room.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobDemand {
    /// Amounts by resource: CPU in cores, memory and disk in bytes, devices in pieces. None for a
    /// sum that overflows.
    pub total: BTreeMap<String, Option<Amount>>,
    /// Number of pods.
    pub pods: i64,
    /// Number of GPUs.
    pub gpus: i64,
}

impl JobDemand {
    /// Returns the demand of this job.
    #[must_use]
    pub fn from_job(job: &CompiledJob) -> Self {
        let mut asked = Self::default();
        for group in job.groups() {
            let count = i64::from(group.gang_size());
            asked.pods = asked.pods.saturating_add(count);
            for (resource, each) in group.request() {
                let all = each.checked_mul(count);
                let sum = asked.total.entry(resource).or_insert(Some(Amount::ZERO));
                *sum = sum.and_then(|sum| sum.checked_add(all?));
            }
        }
        for group in &job.job().spec().task_groups {
            let all = i64::from(group.gpus()).saturating_mul(i64::from(group.gang_size()));
            asked.gpus = asked.gpus.saturating_add(all);
        }
        asked
    }
}

/// Applies the policies to a job in a namespace with these labels, in a queue with that spec,
/// submitted by that user, if known.
#[must_use]
pub fn apply_policies(
    policies: &QuotaPolicies,
    job: &CompiledJob,
    namespace_labels: &BTreeMap<String, String>,
    queue_spec: &QueueSpec,
    requester: Option<&str>,
) -> QuotaVerdict {
    let asked = JobDemand::from_job(job);
    let spec = job.job().spec();
    let deadlines = spec.deadlines.as_ref();
    policies.evaluate(&QuotaRequest {
        namespace: job.job().namespace(),
        namespace_labels,
        queue: job.queue(),
        queue_spec,
        service_account: spec.service_account_name.as_deref(),
        requester,
        total: &asked.total,
        pods: asked.pods,
        gpus: asked.gpus,
        runtime_seconds: deadlines.and_then(|d| d.active_seconds),
    })
}

/// Returns the limits that a placed job counts against if it cannot be compiled any more: in a
/// namespace with these labels, in a queue with that spec, if it exists, submitted by that user, if
/// known.
///
/// The job's owner determines the limits. Its demand was checked when it was placed, and its plan
/// records what it holds.
#[must_use]
pub fn placed_job_limits(
    policies: &QuotaPolicies,
    job: &TrainingJob,
    plan: &Plan,
    namespace_labels: &BTreeMap<String, String>,
    queue_spec: Option<&QueueSpec>,
    requester: Option<&str>,
) -> Vec<QuotaDraw> {
    let named = job.spec.queue_name.as_deref();
    let verdict = policies.evaluate(&QuotaRequest {
        namespace: job.metadata.namespace.as_deref().unwrap_or_default(),
        namespace_labels,
        queue: plan.queue.as_deref().or(named).unwrap_or_default(),
        queue_spec: queue_spec.unwrap_or(&QueueSpec::default()),
        service_account: job.spec.service_account_name.as_deref(),
        requester,
        total: &BTreeMap::new(),
        pods: 0,
        gpus: 0,
        runtime_seconds: Some(0),
    });
    verdict.draws
}
