//! Checks the core ResourceQuotas of a namespace for a whole gang. The API server checks pod by
//! pod, so it could admit some pods of a gang and reject the rest.

mod quota_fields;

pub use quota_fields::{EphemeralClaim, PodQuotaFields};

use k8s_openapi::api::core::v1::ResourceQuota;
use trellis_api::Quantity;
use trellis_api::quantity::Amount;
use trellis_scheduler::{ResourceName, Resources};

/// Demand of a gang on ResourceQuotas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaDemand {
    pods: Vec<PodBatch>,
}

/// A number of equal pods.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PodBatch {
    count: i64,
    /// Request of one pod: thousandths of a core, bytes or counts.
    request: Resources,
    quota_fields: PodQuotaFields,
}

/// The amount of a pod that a quota's key counts.
enum QuotaItem<'a> {
    Pods,
    Request(&'a str),
    Limit(&'a str),
    /// Claims, of one class or of any.
    Claims(Option<&'a str>),
    /// Bytes that claims request, of one class or of any.
    Storage(Option<&'a str>),
}

/// Separates a class from the resource that is counted
/// (`k8s.io/kubernetes/pkg/quota/v1/evaluator/core`).
const CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";

impl<'a> QuotaItem<'a> {
    /// None if the key does not count pods or their claims.
    fn from_key(key: &'a str) -> Option<Self> {
        match key {
            "pods" | "count/pods" => Some(Self::Pods),
            "persistentvolumeclaims" | "count/persistentvolumeclaims" => Some(Self::Claims(None)),
            "requests.storage" => Some(Self::Storage(None)),
            "cpu" | "memory" | "ephemeral-storage" => Some(Self::Request(key)),
            _ if key.starts_with("hugepages-") => Some(Self::Request(key)),
            _ if key.contains(CLASS_INFIX) => match key.split_once(CLASS_INFIX)? {
                (class, "persistentvolumeclaims") => Some(Self::Claims(Some(class))),
                (class, "requests.storage") => Some(Self::Storage(Some(class))),
                _ => None,
            },
            _ => match key.split_once('.')? {
                ("requests", resource) => Some(Self::Request(resource)),
                ("limits", resource) => Some(Self::Limit(resource)),
                _ => None,
            },
        }
    }

    fn amount(&self, units: i64) -> Amount {
        match self {
            Self::Request("cpu") | Self::Limit("cpu") => Amount::from_millis(units),
            _ => Amount::from_units(units),
        }
    }
}

impl PodBatch {
    fn units(&self, item: &QuotaItem<'_>) -> i64 {
        let per_pod = match item {
            QuotaItem::Pods => 1,
            QuotaItem::Request(resource) => self.request.get(&ResourceName::new(*resource)),
            QuotaItem::Limit(resource) => {
                self.quota_fields.limits.get(&ResourceName::new(*resource))
            }
            QuotaItem::Claims(class) => self.claims(*class, |_| 1),
            QuotaItem::Storage(class) => self.claims(*class, |claim| claim.bytes),
        };
        per_pod.saturating_mul(self.count)
    }

    fn claims(&self, class: Option<&str>, amount: impl Fn(&EphemeralClaim) -> i64) -> i64 {
        let claims = self.quota_fields.ephemeral_claims.iter();
        let claims = claims.filter(|claim| class.is_none_or(|c| claim.class.as_deref() == Some(c)));
        claims.map(amount).fold(0, i64::saturating_add)
    }
}

impl QuotaDemand {
    /// Adds equal pods.
    pub fn add(&mut self, count: i64, request: &Resources, quota_fields: &PodQuotaFields) {
        self.pods.push(PodBatch {
            count,
            request: request.clone(),
            quota_fields: quota_fields.clone(),
        });
    }

    /// Returns the number of pods.
    #[must_use]
    pub fn count(&self) -> i64 {
        let counts = self.pods.iter().map(|pods| pods.count);
        counts.fold(0, i64::saturating_add)
    }

    /// Returns the amount that the gang adds to a key of the quota. None if it adds nothing.
    fn amount_for_key(&self, quota: &ResourceQuota, key: &str) -> Option<Amount> {
        let item = QuotaItem::from_key(key)?;
        let pods = self
            .pods
            .iter()
            .filter(|pods| pods.quota_fields.is_in_scopes(quota));
        let units = pods
            .map(|pods| pods.units(&item))
            .fold(0, i64::saturating_add);
        (units > 0).then(|| item.amount(units))
    }
}

/// Returns the sum of what these demands add to a key of the quota. None on overflow.
fn sum_demands(demands: &[QuotaDemand], quota: &ResourceQuota, key: &str) -> Option<Amount> {
    let mut amounts = demands
        .iter()
        .filter_map(|demand| demand.amount_for_key(quota, key));
    amounts.try_fold(Amount::ZERO, Amount::checked_add)
}

/// Describes the first quota, by name, that the gang would exceed. None if all quotas have room.
/// `promised` has the demands of pods of other gangs that are still to be created.
#[must_use]
pub fn find_exceeded_quota<'a>(
    quotas: impl IntoIterator<Item = &'a ResourceQuota>,
    demand: &QuotaDemand,
    promised: &[QuotaDemand],
) -> Option<String> {
    let mut quotas: Vec<_> = quotas.into_iter().collect();
    // Sorted, so that the same quota is named every time.
    quotas.sort_by_key(|q| q.metadata.name.as_deref());
    quotas
        .into_iter()
        .find_map(|quota| {
            let name = quota.metadata.name.as_deref().unwrap_or_default();
            let hard = quota.spec.as_ref().and_then(|s| s.hard.as_ref())?;
            let used = quota.status.as_ref().and_then(|s| s.used.as_ref());
            hard.iter().find_map(|(key, limit)| {
                let needed = demand.amount_for_key(quota, key)?;
                let used_text = used.and_then(|u| u.get(key)).map_or("0", |q| q.0.as_str());
                let limit_amount = Quantity::new(limit.0.clone()).amount().ok()?;
                let used_amount = Quantity::new(used_text).amount().ok()?;
                let promised_amount = sum_demands(promised, quota, key);
                let fits = promised_amount
                    .and_then(|promised_amount| used_amount.checked_add(promised_amount))
                    .and_then(|sum| sum.checked_add(needed))
                    .is_some_and(|sum| sum <= limit_amount);
                if fits {
                    return None;
                }
                let promised_amount = promised_amount
                    .filter(|promised_amount| *promised_amount > Amount::ZERO)
                    .map_or_else(String::new, |promised_amount| {
                        format!(" and {promised_amount} are promised to other gangs")
                    });
                Some(format!(
                    "ResourceQuota {name:?} of the namespace allows {} {key}, of which {used_text} are used{promised_amount}; the whole gang needs {needed}",
                    limit.0
                ))
            })
        })
}

/// Returns the quota without the usage of these pods.
#[must_use]
pub fn release_usage(quota: &ResourceQuota, released: &[QuotaDemand]) -> ResourceQuota {
    let mut free = quota.clone();
    let used = free.status.as_mut().and_then(|s| s.used.as_mut());
    for (key, used) in used.into_iter().flatten() {
        if let (Some(amount), Ok(used_amount)) = (
            sum_demands(released, quota, key),
            Quantity::new(used.0.clone()).amount(),
        ) && amount > Amount::ZERO
        {
            used.0 = used_amount.saturating_sub(amount).to_string();
        }
    }
    free
}

#[cfg(test)]
mod tests;
