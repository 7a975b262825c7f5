//! Applies QuotaPolicies to a compiled job, for the controller and for `trellis plan`.

use std::collections::BTreeMap;

use trellis_api::pod_group::Plan;
use trellis_api::quantity::Amount;
use trellis_api::{QueueSpec, TrainingJob};
use trellis_compiler::CompiledJob;
use trellis_policies::quota::{QuotaDraw, QuotaPolicies, QuotaRequest, QuotaVerdict};

/// Total demand of a job's gang. It does not include surplus pods, which wait while a limit has no
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
        let mut demand = Self::default();
        for group in job.groups() {
            let count = i64::from(group.gang_size());
            demand.pods = demand.pods.saturating_add(count);
            for (resource, each) in group.request() {
                let amount = each.checked_mul(count);
                let sum = demand.total.entry(resource).or_insert(Some(Amount::ZERO));
                *sum = sum.and_then(|sum| sum.checked_add(amount?));
            }
        }
        for group in &job.job().spec().task_groups {
            let amount = i64::from(group.gpus()).saturating_mul(i64::from(group.gang_size()));
            demand.gpus = demand.gpus.saturating_add(amount);
        }
        demand
    }
}

/// Applies the policies to a job. `namespace_labels` and `queue_spec` are those of the job, and
/// `requester` is the user who submitted it, if known.
#[must_use]
pub fn apply_policies(
    policies: &QuotaPolicies,
    job: &CompiledJob,
    namespace_labels: &BTreeMap<String, String>,
    queue_spec: &QueueSpec,
    requester: Option<&str>,
) -> QuotaVerdict {
    let demand = JobDemand::from_job(job);
    let spec = job.job().spec();
    let deadlines = spec.deadlines.as_ref();
    policies.evaluate(&QuotaRequest {
        namespace: job.job().namespace(),
        namespace_labels,
        queue: job.queue(),
        queue_spec,
        service_account: spec.service_account_name.as_deref(),
        requester,
        total: &demand.total,
        pods: demand.pods,
        gpus: demand.gpus,
        runtime_seconds: deadlines.and_then(|d| d.active_seconds),
    })
}

/// Returns the limits that a placed job counts against if it cannot be compiled any more.
/// `queue_spec` is the spec of its queue, if the queue exists, and `requester` the user who
/// submitted it, if known.
///
/// The demand of the job does not matter: it was checked at the placement, and the plan records
/// what the job holds.
#[must_use]
pub fn placed_job_limits(
    policies: &QuotaPolicies,
    job: &TrainingJob,
    plan: &Plan,
    namespace_labels: &BTreeMap<String, String>,
    queue_spec: Option<&QueueSpec>,
    requester: Option<&str>,
) -> Vec<QuotaDraw> {
    let queue_name = job.spec.queue_name.as_deref();
    let verdict = policies.evaluate(&QuotaRequest {
        namespace: job.metadata.namespace.as_deref().unwrap_or_default(),
        namespace_labels,
        queue: plan.queue.as_deref().or(queue_name).unwrap_or_default(),
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
