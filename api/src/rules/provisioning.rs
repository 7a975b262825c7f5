//! Rules on orders of new nodes.

use std::collections::BTreeMap;

use super::names::syntax::is_label;
use crate::resource_flavor::{FlavorProvisioning, ProvisioningMethod, ProvisioningRequestSettings};
use crate::rules::rule::Rule;

/// The method of an order and its fields belong together.
pub const PROVISIONING_METHOD: Rule = Rule::new(
    "has(self.provisioningRequest) == (self.by == 'ProvisioningRequest')",
    "by ProvisioningRequest needs provisioningRequest, and Placeholders must not have it: set it, or leave it out",
);
/// An open order has objects of one method. Those of another method would buy its nodes again.
pub const PROVISIONING_METHOD_FIXED: Rule = Rule::new(
    "self.by == oldSelf.by",
    "by cannot change: create another flavor, and use it in the queues",
);
/// Classes of ProvisioningRequests, as in the CRD of Cluster Autoscaler.
pub const PROVISIONING_CLASS: Rule = Rule::new(
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
    "must be the name of a class, such as best-effort-atomic-scale-up.autoscaling.x-k8s.io",
);
/// Parameters of ProvisioningRequests, as in the CRD of Cluster Autoscaler.
pub const PROVISIONING_PARAMETERS: Rule = Rule::new(
    "self.all(k, size(self[k]) <= 255)",
    "every value must have at most 255 characters",
);

/// [`PROVISIONING_METHOD`].
pub fn provisioning_method(
    provisioning: &FlavorProvisioning,
) -> impl FnOnce(&Option<ProvisioningRequestSettings>, &()) -> garde::Result {
    let is_needed = provisioning.by == ProvisioningMethod::ProvisioningRequest;
    move |request, ()| PROVISIONING_METHOD.check(request.is_some() == is_needed)
}

/// [`PROVISIONING_CLASS`].
pub fn provisioning_class(class: &str, _: &()) -> garde::Result {
    PROVISIONING_CLASS.check(class.split('.').all(|part| is_label(part, 253)))
}

/// [`PROVISIONING_PARAMETERS`].
pub fn provisioning_parameters(map: &BTreeMap<String, String>, _: &()) -> garde::Result {
    PROVISIONING_PARAMETERS.check(map.values().all(|value| value.chars().count() <= 255))
}
