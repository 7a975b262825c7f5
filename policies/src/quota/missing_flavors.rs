//! Limits of QuotaPolicies that name flavors which do not exist.

use trellis_api::QuotaPolicy;

/// The limits of a policy that name a flavor that does not exist: their places in
/// `spec.limits.resources`, and the flavors.
pub fn missing_flavors(
    policy: &QuotaPolicy,
    exists: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (usize, &str)> {
    let limits = policy.spec.limits.resources.iter().enumerate();
    let named = limits.filter_map(|(at, limit)| Some((at, limit.flavor.as_deref()?)));
    named.filter(move |(_, flavor)| !exists(flavor))
}
