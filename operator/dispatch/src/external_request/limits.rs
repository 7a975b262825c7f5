//! The limits of QuotaPolicies that external pods draw on.

use std::collections::BTreeMap;

use trellis_api::Reason;
use trellis_cache::Cache;
use trellis_gang::GangExplanation;
use trellis_gang::external::external_demand::{ExternalDemand, ServiceAccounts};
use trellis_gang::key::Key;
use trellis_gang::quota::JobLimits;
use trellis_policies::cedar::ExternalPodsFacts;
use trellis_policies::quota::QuotaRequest;

/// Returns the limits that placed pods draw on, by their namespace, queue and accounts. None: the
/// watch has not shown the namespace.
#[must_use]
pub(crate) fn find_placed_limits(
    cache: &Cache,
    namespace: &str,
    queue: &str,
    accounts: &ServiceAccounts,
) -> Option<JobLimits> {
    let namespace_labels = cache.namespace_labels(namespace)?;
    let found = cache.queues.get(&Key::new("", queue));
    let asking = QuotaRequest {
        namespace,
        namespace_labels: &namespace_labels,
        queue,
        queue_spec: &found.map(|queue| queue.spec.clone()).unwrap_or_default(),
        service_account: None,
        requester: None,
        total: &BTreeMap::new(),
        pods: 0,
        gpus: 0,
        runtime_seconds: Some(0),
    };
    Some(judge_accounts(cache, &asking, accounts).0)
}

/// Returns the limits of QuotaPolicies that the pods draw on.
///
/// # Errors
/// If a policy forbids the pods even if its limits were unused.
pub(super) fn find_limits(
    cache: &Cache,
    asking: &ExternalPodsFacts<'_>,
    total: &ExternalDemand,
) -> Result<JobLimits, GangExplanation> {
    let asking = QuotaRequest {
        namespace: asking.namespace,
        namespace_labels: asking.namespace_labels,
        queue: asking.queue,
        queue_spec: asking.queue_spec,
        service_account: None,
        requester: None,
        total: &total.resources,
        pods: asking.pods,
        gpus: asking.gpus,
        runtime_seconds: asking.runtime_seconds,
    };
    let (limits, denied) = judge_accounts(cache, &asking, &total.service_accounts);
    if let Some((name, why)) = cache.quotas.active().1.unusable().first() {
        let message = format!("quota policy {name:?} does not take effect: {why}");
        return Err(GangExplanation::waiting(
            Reason::PolicyNotEvaluated,
            message,
        ));
    }
    match denied.is_empty() {
        true => Ok(limits),
        false => Err(GangExplanation::refused(
            Reason::QuotaPolicyExceeded,
            denied.join("; "),
        )),
    }
}

/// Returns the limits of pods that run under these accounts, and the reasons that deny them. The
/// whole gang draws on the limits of each of its pods, so that another account for one pod does not
/// evade a limit.
fn judge_accounts(
    cache: &Cache,
    asking: &QuotaRequest<'_>,
    accounts: &ServiceAccounts,
) -> (JobLimits, Vec<String>) {
    let (version, quotas) = cache.quotas.active();
    let mut limits = JobLimits {
        version,
        ..JobLimits::default()
    };
    let mut denied = Vec::new();
    for account in accounts {
        let verdict = quotas.evaluate(&QuotaRequest {
            service_account: account.as_deref(),
            ..*asking
        });
        for draw in verdict.draws {
            if !limits.draws.contains(&draw) {
                limits.draws.push(draw);
            }
        }
        for why in verdict.refusals.iter().map(ToString::to_string) {
            if !denied.contains(&why) {
                denied.push(why);
            }
        }
    }
    (limits, denied)
}
