//! Rules on the container of a pod: environment, volumes, ports, tolerations, peers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelectorTerm};

use super::quantities::number_ranges::PORT_RANGE;
use super::rule::Rule;
use super::secret::SECRET_SOURCE;
use super::slices::{SLICE_SIZE, SOME_CLOSENESS};
use crate::job::{
    ContainerPort, EnvFromReference, EnvFromSource, EnvVar, EnvVarSource, KeySelector, Mount,
    Toleration, TolerationOperator, TrafficRule,
};

/// Longest image name, in characters. It bounds the images of jobs in the CRD, and the images of
/// external pods in the operator.
pub const MAX_IMAGE: usize = 1024;

/// An image name is required.
pub const IMAGE: Rule = Rule::new(
    "size(self) > 0 && !self.matches('[[:space:]]')",
    "must be the name of an image, without spaces, such as registry.example/train:1.0",
);
/// A variable has a value or a source, not both.
pub const ENV_VALUE: Rule = Rule::new(
    "!has(self.value) || !has(self.valueFrom)",
    "must have at most one of value and valueFrom",
);
/// A variable's value has exactly one source.
pub const ENV_SOURCE: Rule = Rule::new(
    "(has(self.secretKeyRef) ? 1 : 0) + (has(self.configMapKeyRef) ? 1 : 0) + (has(self.fieldRef) ? 1 : 0) == 1",
    "must have exactly one of secretKeyRef, configMapKeyRef and fieldRef",
);
/// The fields of a pod have only one schema version.
pub const FIELD_VERSION: Rule = Rule::new("self == 'v1'", "must be v1: leave it out");
/// Variables from all keys of an object have exactly one source.
pub const ENV_FROM_SOURCE: Rule = Rule::new(
    "has(self.configMapRef) != has(self.secretRef)",
    "must have exactly one of configMapRef and secretRef",
);
/// A volume is of exactly one kind.
pub const MOUNT_SOURCE: Rule = Rule::new(
    "(has(self.claimName) ? 1 : 0) + (has(self.configMapName) ? 1 : 0) + (has(self.secretName) ? 1 : 0) + (has(self.emptyDir) ? 1 : 0) == 1",
    "must have exactly one of claimName, configMapName, secretName and emptyDir",
);
/// Volumes have different paths.
pub const UNIQUE_MOUNTS: Rule = Rule::new(
    "!has(self.mounts) || self.mounts.all(m, m.path != '/dev/shm' && self.mounts.exists_one(o, o.path == m.path))",
    "mounts must have different paths, and not /dev/shm: set sharedMemory for that",
);
/// Ports have different names and numbers.
pub const UNIQUE_PORTS: Rule = Rule::new(
    "!has(self.ports) || self.ports.all(p, self.ports.exists_one(o, o.name == p.name) && self.ports.exists_one(o, o.port == p.port))",
    "ports must have different names and different numbers",
);
/// Variables have different names. In the CRD the list is a map, so the API server checks this.
pub const UNIQUE_ENV: Rule = Rule::new("true", "variables must have different names");
/// A toleration is valid for Kubernetes.
pub const TOLERATION: Rule = Rule::new(
    "(has(self.key) || (has(self.operator) && self.operator == 'Exists')) && !(has(self.operator) && self.operator == 'Exists' && has(self.value)) && (!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute'))",
    "without key, operator must be Exists; with operator Exists there is no value; tolerationSeconds needs effect NoExecute",
);
/// A peer is of exactly one kind.
pub const PEER: Rule = Rule::new(
    "(has(self.cidr) ? 1 : 0) + (has(self.namespace) ? 1 : 0) + (has(self.service) ? 1 : 0) == 1",
    "must have exactly one of cidr, namespace and service",
);
/// Node affinity is valid for Kubernetes. The API server checks it only in pods.
pub const NODE_AFFINITY: Rule = Rule::new(
    "true",
    "must be a node affinity as Kubernetes takes it: every expression with a known operator; values for In and NotIn, none for Exists and DoesNotExist, one whole number for Gt and Lt; weights of 1 to 100; matchFields on metadata.name alone",
);

/// Rules on a whole object that garde attaches to one of its fields.
pub(crate) const WHOLE_OBJECT_RULES: [Rule; 10] = [
    ENV_VALUE,
    PORT_RANGE,
    ENV_SOURCE,
    ENV_FROM_SOURCE,
    MOUNT_SOURCE,
    TOLERATION,
    PEER,
    SECRET_SOURCE,
    SOME_CLOSENESS,
    SLICE_SIZE,
];

fn count(given: &[bool]) -> usize {
    given.iter().filter(|g| **g).count()
}

/// [`IMAGE`].
pub fn image(name: &str, _: &()) -> garde::Result {
    IMAGE.check(!name.is_empty() && !name.bytes().any(|b| b.is_ascii_whitespace() || b == 0x0b))
}

/// [`ENV_VALUE`].
pub fn env_value(var: &EnvVar) -> impl FnOnce(&str, &()) -> garde::Result {
    let ok = var.value.is_none() || var.value_from.is_none();
    move |_, ()| ENV_VALUE.check(ok)
}

/// [`FIELD_VERSION`].
pub fn field_version(version: &str, _: &()) -> garde::Result {
    FIELD_VERSION.check(version == "v1")
}

/// [`ENV_SOURCE`].
pub fn env_source(
    source: &EnvVarSource,
) -> impl FnOnce(&Option<KeySelector>, &()) -> garde::Result {
    let sources = count(&[
        source.secret_key_ref.is_some(),
        source.config_map_key_ref.is_some(),
        source.field_ref.is_some(),
    ]);
    move |_, ()| ENV_SOURCE.check(sources == 1)
}

/// [`ENV_FROM_SOURCE`].
pub fn env_from_source(
    from: &EnvFromSource,
) -> impl FnOnce(&Option<EnvFromReference>, &()) -> garde::Result {
    let ok = from.config_map_ref.is_some() != from.secret_ref.is_some();
    move |_, ()| ENV_FROM_SOURCE.check(ok)
}

/// [`UNIQUE_ENV`].
pub fn unique_env(vars: &[EnvVar], _: &()) -> garde::Result {
    let names: BTreeSet<_> = vars.iter().map(|v| v.name.as_str()).collect();
    UNIQUE_ENV.check(names.len() == vars.len())
}

/// [`MOUNT_SOURCE`].
pub fn mount_source(mount: &Mount) -> impl FnOnce(&str, &()) -> garde::Result {
    let sources = count(&[
        mount.claim_name.is_some(),
        mount.config_map_name.is_some(),
        mount.secret_name.is_some(),
        mount.empty_dir.is_some(),
    ]);
    move |_, ()| MOUNT_SOURCE.check(sources == 1)
}

/// [`UNIQUE_MOUNTS`].
pub fn unique_mounts(mounts: &[Mount], _: &()) -> garde::Result {
    let paths: BTreeSet<_> = mounts.iter().map(|m| m.path.as_str()).collect();
    UNIQUE_MOUNTS.check(paths.len() == mounts.len() && !paths.contains("/dev/shm"))
}

/// [`UNIQUE_PORTS`].
pub fn unique_ports(ports: &[ContainerPort], _: &()) -> garde::Result {
    let names: BTreeSet<_> = ports.iter().map(|p| p.name.as_str()).collect();
    let numbers: BTreeSet<_> = ports.iter().map(|p| p.port).collect();
    UNIQUE_PORTS.check(names.len() == ports.len() && numbers.len() == ports.len())
}

/// [`TOLERATION`].
pub fn toleration(t: &Toleration) -> impl FnOnce(&Option<String>, &()) -> garde::Result {
    let exists = t.operator == Some(TolerationOperator::Exists);
    let ok = (t.key.is_some() || exists)
        && !(exists && t.value.is_some())
        && (t.toleration_seconds.is_none()
            || t.effect == Some(crate::job::TolerationEffect::NoExecute));
    move |_, ()| TOLERATION.check(ok)
}

/// [`PEER`].
pub fn peer(rule: &TrafficRule) -> impl FnOnce(&Option<String>, &()) -> garde::Result {
    let kinds = count(&[
        rule.cidr.is_some(),
        rule.namespace.is_some(),
        rule.service.is_some(),
    ]);
    move |_, ()| PEER.check(kinds == 1)
}

/// [`NODE_AFFINITY`].
pub fn node_affinity(affinity: &NodeAffinity, _: &()) -> garde::Result {
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref();
    let preferred = affinity
        .preferred_during_scheduling_ignored_during_execution
        .iter()
        .flatten();
    NODE_AFFINITY.check(
        required.is_none_or(|r| {
            !r.node_selector_terms.is_empty() && r.node_selector_terms.iter().all(is_term)
        }) && preferred
            .into_iter()
            .all(|p| (1..=100).contains(&p.weight) && is_term(&p.preference)),
    )
}

/// True for a term that Kubernetes accepts (`ValidateNodeSelectorTerm`).
fn is_term(term: &NodeSelectorTerm) -> bool {
    let expressions = term.match_expressions.iter().flatten().all(|e| {
        let values = e.values.as_deref().unwrap_or_default();
        match e.operator.as_str() {
            "In" | "NotIn" => !values.is_empty(),
            "Exists" | "DoesNotExist" => values.is_empty(),
            "Gt" | "Lt" => matches!(values, [one] if one.parse::<i64>().is_ok()),
            _ => false,
        }
    });
    let fields = term.match_fields.iter().flatten().all(|f| {
        f.key == "metadata.name"
            && matches!(f.operator.as_str(), "In" | "NotIn")
            && matches!(f.values.as_deref(), Some([_]))
    });
    expressions && fields
}
