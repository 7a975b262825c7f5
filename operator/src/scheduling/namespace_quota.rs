//! The namespace's core ResourceQuotas, counted for the whole gang at once:
//! the API server counts pod by pod and would stop us in the middle.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceQuota;
use trellis_api::Quantity;
use trellis_api::quantity::Amount;
use trellis_compiler::CompiledJob;
use trellis_scheduler::Resources;

use super::gang;

/// What a gang asks for: pods, and base units by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Pods.
    pub pods: i64,
    /// Thousandths of a core, bytes or counts, by resource.
    pub requests: BTreeMap<String, i64>,
    /// Name of the priority class of the pods.
    pub priority_class: Option<String>,
}

impl Ask {
    /// What the whole gang of a job asks for, before admission has had its say.
    #[must_use]
    pub fn of_job(job: &CompiledJob) -> Self {
        let mut ask = Self {
            priority_class: job.job().spec().priority_class_name.clone(),
            ..Self::default()
        };
        for group in job.groups() {
            ask.add(i64::from(group.replicas()), &gang::request_of(group));
        }
        ask
    }

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

/// The first quota by name that the gang would exceed, in words. None if all
/// allow it. `promised` is what others that are on their way have still to create.
#[must_use]
pub fn exceeded<'a>(
    quotas: impl IntoIterator<Item = &'a ResourceQuota>,
    ask: &Ask,
    promised: &[Ask],
) -> Option<String> {
    let mut quotas: Vec<_> = quotas.into_iter().filter(|q| applies(q, ask)).collect();
    // Of two that have no room the same one is always named.
    quotas.sort_by_key(|q| q.metadata.name.as_deref());
    quotas
        .into_iter()
        .find_map(|quota| {
            let name = quota.metadata.name.as_deref().unwrap_or_default();
            let hard = quota.spec.as_ref().and_then(|s| s.hard.as_ref())?;
            let used = quota.status.as_ref().and_then(|s| s.used.as_ref());
            let others: Vec<&Ask> = promised.iter().filter(|ask| applies(quota, ask)).collect();
            hard.iter().find_map(|(key, limit)| {
                let asked = ask.of(key)?;
                let used_text = used.and_then(|u| u.get(key)).map_or("0", |q| q.0.as_str());
                let limit_amount = Quantity::new(limit.0.clone()).amount().ok()?;
                let used_amount = Quantity::new(used_text).amount().ok()?;
                let coming = others
                    .iter()
                    .filter_map(|ask| ask.of(key))
                    .try_fold(Amount::ZERO, Amount::checked_add);
                let fits = coming
                    .and_then(|coming| used_amount.checked_add(coming))
                    .and_then(|sum| sum.checked_add(asked))
                    .is_some_and(|sum| sum <= limit_amount);
                if fits {
                    return None;
                }
                let coming = coming
                    .filter(|coming| *coming > Amount::ZERO)
                    .map_or_else(String::new, |coming| {
                        format!(" and {coming} are promised to gangs that are starting")
                    });
                Some(format!(
                    "ResourceQuota {name:?} of the namespace allows {} {key}, of which {used_text} are used{coming}; the whole gang needs {asked}",
                    limit.0
                ))
            })
        })
}

/// The quota as it is without what these hold of it.
#[must_use]
pub fn given_back(quota: &ResourceQuota, held: &[Ask]) -> ResourceQuota {
    let mut quota = quota.clone();
    let held: Vec<&Ask> = held.iter().filter(|ask| applies(&quota, ask)).collect();
    let used = quota.status.as_mut().and_then(|s| s.used.as_mut());
    for (key, used) in used.into_iter().flatten() {
        let given = held
            .iter()
            .filter_map(|ask| ask.of(key))
            .try_fold(Amount::ZERO, Amount::checked_add);
        if let (Some(given), Ok(before)) = (given, Quantity::new(used.0.clone()).amount())
            && given > Amount::ZERO
        {
            used.0 = before.saturating_less(given).to_string();
        }
    }
    quota
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(name: &str, hard: serde_json::Value, used: serde_json::Value) -> ResourceQuota {
        let quota = json!({
            "metadata": {"name": name}, "spec": {"hard": hard}, "status": {"used": used},
        });
        serde_json::from_value(quota).unwrap()
    }

    fn quota(hard: serde_json::Value, used: serde_json::Value) -> [ResourceQuota; 1] {
        [named("q", hard, used)]
    }

    fn pods(pods: i64) -> Ask {
        let mut ask = Ask::default();
        ask.add(pods, &Resources::new().with("cpu", 500));
        ask
    }

    #[test]
    fn what_others_have_still_to_create_counts() {
        let four = quota(json!({"pods": "4"}), json!({"pods": "1"}));
        assert_eq!(exceeded(&four, &pods(3), &[]), None);
        let message = exceeded(&four, &pods(2), &[pods(1), pods(1)]).unwrap();
        assert_eq!(
            message,
            "ResourceQuota \"q\" of the namespace allows 4 pods, of which 1 are used and 2 are promised to gangs that are starting; the whole gang needs 2"
        );
        let cores = quota(json!({"requests.cpu": "2"}), json!({"requests.cpu": "1"}));
        assert_eq!(exceeded(&cores, &pods(1), &[pods(1)]), None);
        assert!(exceeded(&cores, &pods(1), &[pods(2)]).is_some());
    }

    #[test]
    fn what_others_create_outside_the_quotas_scope_does_not_count() {
        let mut scoped = quota(json!({"pods": "2"}), json!({}));
        let selector = json!({"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
        scoped[0].spec.as_mut().unwrap().scope_selector = serde_json::from_value(selector).unwrap();
        let high = |count| Ask {
            priority_class: Some("high".to_owned()),
            ..pods(count)
        };
        assert_eq!(exceeded(&scoped, &pods(3), &[]), None);
        assert_eq!(exceeded(&scoped, &high(2), &[pods(9)]), None);
        assert!(exceeded(&scoped, &high(2), &[high(1)]).is_some());
        let mut used = scoped[0].clone();
        used.status = serde_json::from_value(json!({"used": {"pods": "2"}})).unwrap();
        assert_eq!(given_back(&used, &[pods(9)]), used);
        assert!(exceeded([&given_back(&used, &[high(1)])], &high(2), &[]).is_some());
        assert_eq!(
            exceeded([&given_back(&used, &[high(2)])], &high(2), &[]),
            None
        );
    }

    #[test]
    fn the_same_quota_is_named_whoever_is_listed_first() {
        let small = |name| named(name, json!({"pods": "1"}), json!({}));
        let (a, b) = (small("a"), small("b"));
        let one = exceeded([&a, &b], &pods(2), &[]).unwrap();
        assert!(one.starts_with("ResourceQuota \"a\""), "{one}");
        assert_eq!(exceeded([&b, &a], &pods(2), &[]).unwrap(), one);
    }

    #[test]
    fn what_is_given_back_is_free_again_and_no_more_than_that() {
        let used = json!({"pods": "3", "requests.cpu": "1500m", "services": "2"});
        let full = named("q", json!({"pods": "3"}), used);
        let free = given_back(&full, &[pods(1), pods(1)]);
        let used = free.status.unwrap().used.unwrap();
        let of = |key: &str| used[key].0.as_str();
        assert_eq!(
            (of("pods"), of("requests.cpu"), of("services")),
            ("1", "0.5", "2")
        );
        let none = given_back(&full, &[pods(9)]).status.unwrap().used.unwrap();
        assert_eq!(none["pods"].0, "0");
    }
}
