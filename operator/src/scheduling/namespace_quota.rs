//! The namespace's core ResourceQuotas, counted for the whole gang at once:
//! the API server counts pod by pod and would stop us in the middle.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceQuota;
use trellis_api::Quantity;
use trellis_api::quantity::Amount;
use trellis_scheduler::Resources;

/// What a gang asks for: pods, and base units by resource.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// Pods.
    pub pods: i64,
    /// Thousandths of a core, bytes or counts, by resource.
    pub requests: BTreeMap<String, i64>,
    /// Name of the priority class of the pods.
    pub priority_class: Option<String>,
}

impl Ask {
    /// Adds so many pods of one request.
    pub fn add(&mut self, count: i64, request: &Resources) {
        self.pods = self.pods.saturating_add(count);
        for (resource, amount) in request.iter() {
            let sum = self
                .requests
                .entry(resource.as_str().to_owned())
                .or_default();
            *sum = sum.saturating_add(amount.saturating_mul(count));
        }
    }

    /// What the gang adds to a quota's key. None if the key counts nothing of ours.
    fn of(&self, key: &str) -> Option<Amount> {
        let counted = |resource: &str| {
            self.requests.get(resource).map(|n| {
                if resource == "cpu" {
                    Amount::from_millis(*n)
                } else {
                    Amount::from_units(*n)
                }
            })
        };
        match key {
            "pods" | "count/pods" => Some(Amount::from_units(self.pods)),
            "cpu" | "memory" | "ephemeral-storage" => counted(key),
            // Our pods' limits are their requests.
            _ => key
                .strip_prefix("requests.")
                .or_else(|| key.strip_prefix("limits."))
                .and_then(counted),
        }
    }
}

/// The first quota that the gang would exceed, in words. None if all allow it.
#[must_use]
pub fn exceeded(quotas: &[std::sync::Arc<ResourceQuota>], ask: &Ask) -> Option<String> {
    quotas
        .iter()
        .filter(|q| applies(q, ask))
        .find_map(|quota| {
            let name = quota.metadata.name.as_deref().unwrap_or_default();
            let hard = quota.spec.as_ref().and_then(|s| s.hard.as_ref())?;
            let used = quota.status.as_ref().and_then(|s| s.used.as_ref());
            hard.iter().find_map(|(key, limit)| {
                let asked = ask.of(key)?;
                let used_text = used.and_then(|u| u.get(key)).map_or("0", |q| q.0.as_str());
                let limit_amount = Quantity::new(limit.0.clone()).amount().ok()?;
                let used_amount = Quantity::new(used_text).amount().ok()?;
                let fits = used_amount
                    .checked_add(asked)
                    .is_some_and(|sum| sum <= limit_amount);
                (!fits).then(|| {
                    format!(
                        "ResourceQuota {name:?} of the namespace allows {} {key}, of which {used_text} are used; the whole gang needs {asked}",
                        limit.0
                    )
                })
            })
        })
}

/// Whether the quota's scopes take in the gang's pods: they end, they are not
/// best-effort, and they have no cross-namespace affinity
/// (`k8s.io/kubernetes/pkg/quota/v1/evaluator/core`).
fn applies(quota: &ResourceQuota, ask: &Ask) -> bool {
    let Some(spec) = &quota.spec else {
        return false;
    };
    let scopes = spec
        .scopes
        .iter()
        .flatten()
        .all(|scope| matches!(scope.as_str(), "NotTerminating" | "NotBestEffort"));
    let selectors = spec
        .scope_selector
        .iter()
        .filter_map(|s| s.match_expressions.as_ref())
        .flatten()
        .all(|e| {
            let class = ask.priority_class.as_deref();
            let listed = || e.values.iter().flatten().any(|v| Some(v.as_str()) == class);
            match (e.scope_name.as_str(), e.operator.as_str()) {
                ("PriorityClass", "In") => listed(),
                ("PriorityClass", "NotIn") => !listed(),
                ("PriorityClass", "Exists") => class.is_some(),
                ("PriorityClass", "DoesNotExist") => class.is_none(),
                (scope, _) => matches!(scope, "NotTerminating" | "NotBestEffort"),
            }
        });
    scopes && selectors
}
