//! One QuotaPolicy, read.

use trellis_api::names;
use trellis_api::quantity::Amount;
use trellis_api::queue::ResourceGroup;
use trellis_api::quota_policy::{
    QuotaEach, QuotaEnforcement, QuotaPolicySpec, QuotaSubject, ResourceLimit,
};

use super::limit_id::{LimitHolder, LimitId, LimitedQuantity};
use super::queue_quotas::QueueQuotas;
use super::quota_request::QuotaRequest;
use super::quota_verdict::{QuotaDraw, QuotaVerdict};
use crate::selects;

/// A QuotaPolicy that takes effect.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ActiveQuotaPolicy {
    pub(super) name: String,
    pub(super) spec: QuotaPolicySpec,
}

impl ActiveQuotaPolicy {
    pub(super) fn enforcement(&self) -> QuotaEnforcement {
        self.spec.enforcement.unwrap_or_default()
    }

    /// Adds the policy's verdict on the job. `path` has the job's queue and those above it.
    pub(super) fn evaluate(
        &self,
        job: &QuotaRequest<'_>,
        (queues, path): (&QueueQuotas, &[&str]),
        verdict: &mut QuotaVerdict,
    ) {
        if !matches_subject(&self.spec.subject, job, path) {
            return;
        }
        self.check_job_limits(job, verdict);
        let limits = &self.spec.limits;
        let holder = match (self.spec.each.unwrap_or_default(), job.requester) {
            (QuotaEach::Subject, _) => LimitHolder::Subject,
            (QuotaEach::Requester, Some(user)) => LimitHolder::Requester(user.to_owned()),
            (QuotaEach::Requester, None) => LimitHolder::Unknown,
        };
        let mut draw = |what: LimitedQuantity, max: Amount| {
            verdict.draws.push(QuotaDraw {
                limit: LimitId {
                    policy: self.name.clone(),
                    holder: holder.clone(),
                    quantity: what,
                },
                max,
                enforcement: self.enforcement(),
            });
        };
        let counts = [
            (LimitedQuantity::RunningJobs, limits.running_jobs),
            (LimitedQuantity::QueuedJobs, limits.queued_jobs),
            (
                LimitedQuantity::GpuHours,
                limits.gpu_hours.as_ref().map(|h| h.limit),
            ),
        ];
        for (what, max) in counts {
            if let Some(max) = max {
                draw(what, Amount::from_units(max));
            }
        }
        // A part of a queue is of the one that the policy names, or of the job's own.
        let whole = self.spec.subject.queue_name.as_deref().unwrap_or(job.queue);
        let bound = |limit: &ResourceLimit| match whole == job.queue {
            true => limit_amount(limit, job.queue_spec.resource_groups.iter()),
            false => limit_amount(limit, queues.groups_in_and_below(whole)),
        };
        for limit in &limits.resources {
            if let Some(max) = bound(limit) {
                let queue = limit.percent_of_queue.map(|_| whole.to_owned());
                let what = LimitedQuantity::Resource {
                    flavor: limit.flavor.clone(),
                    resource: limit.resource.clone(),
                    queue,
                };
                draw(what, max);
            }
        }
        // The job alone asks for more than the limit.
        for limit in &limits.resources {
            let (None, Some(max)) = (&limit.flavor, bound(limit)) else {
                continue;
            };
            let Some(amount) = job.total.get(&limit.resource) else {
                continue;
            };
            if amount.is_none_or(|amount| amount > max) {
                let resource = &limit.resource;
                self.deny(
                    verdict,
                    format!(
                        "the job asks for {} {resource}, of which {} may be held",
                        format_amount(*amount, resource),
                        format_amount(Some(max), resource)
                    ),
                    format!("ask for less {resource}"),
                );
            }
        }
    }

    /// Checks the limits on a single job.
    fn check_job_limits(&self, job: &QuotaRequest<'_>, verdict: &mut QuotaVerdict) {
        let limits = &self.spec.limits;
        let counts = [
            ("podsPerJob", limits.pods_per_job, job.pods, "pods"),
            ("gpusPerJob", limits.gpus_per_job, job.gpus, "GPUs"),
        ];
        for (limit, max, amount, words) in counts {
            if let Some(max) = max.filter(|max| amount > *max) {
                self.deny(
                    verdict,
                    format!("the job has {amount} {words}, and {limit} is {max}"),
                    format!("ask for at most {max} {words}"),
                );
            }
        }
        if let Some(max) = limits.runtime_seconds_per_job
            && job.runtime_seconds.is_none_or(|amount| amount > max)
        {
            let runtime = match job.runtime_seconds {
                Some(seconds) => format!("the job may run for {seconds} s"),
                None => "the job may run for ever".to_owned(),
            };
            self.deny(
                verdict,
                format!("{runtime}, and runtimeSecondsPerJob is {max}"),
                format!("set deadlines.activeSeconds to at most {max}"),
            );
        }
    }

    /// Records a denial, or a warning if the policy is enforced as Warn.
    fn deny(&self, verdict: &mut QuotaVerdict, demand: String, remedy: String) {
        let list = match self.enforcement() {
            QuotaEnforcement::Queue | QuotaEnforcement::Deny => &mut verdict.refusals,
            QuotaEnforcement::Warn => &mut verdict.warnings,
        };
        list.push(crate::Refusal {
            source: crate::DenialSource::Quota(self.name.clone()),
            demand,
            remedy,
        });
    }
}

/// True if the subject is the job's: all that it names must hold.
fn matches_subject(subject: &QuotaSubject, job: &QuotaRequest<'_>, queues: &[&str]) -> bool {
    let QuotaSubject {
        namespace_selector,
        team,
        queue_name,
        service_account_name,
        requester,
    } = subject;
    let selector = namespace_selector.as_ref();
    let its_team = job.namespace_labels.get(names::TEAM);
    selector.is_none_or(|s| selects(Some(s), job.namespace_labels))
        && team.as_ref().is_none_or(|team| its_team == Some(team))
        && queue_name.as_deref().is_none_or(|queue| queues.contains(&queue))
        && service_account_name.as_deref().is_none_or(|account| {
            // Kubernetes' own name for the account of pods that name none.
            job.service_account.unwrap_or("default") == account
        })
        // A job whose requester is not known may be this user's, so it counts.
        && requester
            .as_deref()
            .is_none_or(|user| job.requester.is_none_or(|known| known == user))
}

/// The value of the limit. None: unlimited.
fn limit_amount<'a>(
    limit: &ResourceLimit,
    groups: impl Iterator<Item = &'a ResourceGroup>,
) -> Option<Amount> {
    if let Some(max) = &limit.max {
        // One that does not read is refused when it is loaded: nothing here.
        return Some(max.amount().unwrap_or(Amount::ZERO));
    }
    let percent = limit.percent_of_queue?;
    let mut all = groups
        .flat_map(|group| &group.flavors)
        .filter(|flavor| {
            limit
                .flavor
                .as_ref()
                .is_none_or(|name| *name == flavor.name)
        })
        .flat_map(|flavor| &flavor.resources)
        .filter(|quota| quota.name == limit.resource)
        .map(|quota| quota.nominal_amount().ok())
        .peekable();
    all.peek()?;
    let sum = all.try_fold(Amount::ZERO, |sum, nominal| sum.checked_add(nominal?));
    Some(
        sum.and_then(|sum| sum.checked_percent(percent))
            .unwrap_or(Amount::ZERO),
    )
}

/// An amount in words.
fn format_amount(amount: Option<Amount>, resource: &str) -> String {
    let units = match amount {
        Some(amount) if amount.is_whole() || resource != "cpu" => amount.ceil_units(),
        Some(amount) => {
            return amount
                .ceil_millis()
                .map_or_else(|| "too much".to_owned(), |m| format!("{m}m"));
        }
        None => None,
    };
    units.map_or_else(|| "too much".to_owned(), |units| units.to_string())
}
