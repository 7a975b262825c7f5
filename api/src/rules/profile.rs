//! Rules on pod templates and RuntimeProfiles.

use super::env::reserved_profile_env;
use super::rule::Rule;
use crate::PodTemplate;
use crate::job::{EnvVar, Network};

/// Name of a RuntimeProfile.
pub const PROFILE_NAME: Rule = Rule::new(
    "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
    "must be the name of a RuntimeProfile: at most 253 of a-z, 0-9, - and ., starting and ending with a letter or digit",
);
/// Name of a RuntimeClass.
pub const RUNTIME_CLASS: Rule = Rule::new(
    "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
    "must be the name of a RuntimeClass: at most 253 of a-z, 0-9, - and ., starting and ending with a letter or digit",
);
/// A job with many templates must fit into one object. CEL cannot read the template.
pub const POD_TEMPLATE_SIZE: Rule = Rule::new(
    "true",
    "must be at most 32768 bytes of JSON: move what is long into a ConfigMap",
);
/// A profile has no namespace, so it cannot name a Service.
pub const PROFILE_PEERS: Rule = Rule::new(
    "!has(self.network) || ((!has(self.network.egress) || self.network.egress.all(r, !has(r.service))) && (!has(self.network.ingress) || self.network.ingress.all(r, !has(r.service))))",
    "network must not name a service, which each job would look for in its own namespace: name a cidr or a namespace",
);

/// [`PROFILE_NAME`].
pub fn profile_name(name: &str, unit: &()) -> garde::Result {
    PROFILE_NAME.check(super::object_name(name, unit).is_ok())
}

/// [`RUNTIME_CLASS`].
pub fn runtime_class(name: &str, unit: &()) -> garde::Result {
    RUNTIME_CLASS.check(super::object_name(name, unit).is_ok())
}

/// Checks that a profile sets no variable that Trellis or any framework sets.
pub fn profile_env(env: &[EnvVar], _: &()) -> garde::Result {
    env.iter()
        .try_for_each(|var| reserved_profile_env(&var.name))
}

/// Checks the same for the main container in a profile's template.
pub fn profile_template(template: &Option<PodTemplate>, _: &()) -> garde::Result {
    let mut names = template.iter().flat_map(PodTemplate::main_env);
    names.try_for_each(|name| reserved_profile_env(&name))
}

/// [`PROFILE_PEERS`].
pub fn profile_peers(network: &Option<Network>, _: &()) -> garde::Result {
    let mut rules = network
        .iter()
        .flat_map(|n| n.egress.iter().chain(&n.ingress));
    PROFILE_PEERS.check(rules.all(|rule| rule.service.is_none()))
}
