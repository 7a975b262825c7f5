//! Rules on the keys and values of labels, annotations and taints.

use std::collections::{BTreeMap, BTreeSet};

use super::names::syntax::{is_label_value, is_qualified_name};
use super::rule::Rule;
use crate::names::is_reserved_key;
use crate::topology::TopologyLevel;

/// A qualified name in Kubernetes: the key of a label.
const QUALIFIED_NAME: &str = "self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')";

/// Name of a topology level.
pub const TOPOLOGY_LEVEL: Rule = Rule::new(
    QUALIFIED_NAME,
    "must name a level of a Topology, such as rack or topology.kubernetes.io/zone: an optional domain and /, then at most 63 letters, digits, -, _ and .",
);
/// Label of a topology level.
pub const LEVEL_LABEL: Rule = Rule::new(
    QUALIFIED_NAME,
    "must be the key of a node label, such as topology.kubernetes.io/zone: an optional domain and /, then at most 63 letters, digits, -, _ and .",
);
/// Topology levels have different names.
pub const UNIQUE_LEVEL_NAMES: Rule = Rule::new(
    "self.all(k, self.exists_one(o, (has(o.name) ? o.name : o.nodeLabel) == (has(k.name) ? k.name : k.nodeLabel)))",
    "two levels must not have the same name (nodeLabel where name is absent): rename or remove one",
);
/// Topology levels have different labels.
pub const UNIQUE_LEVEL_LABELS: Rule = Rule::new(
    "self.all(k, self.exists_one(o, o.nodeLabel == k.nodeLabel))",
    "two levels must not have the same nodeLabel: remove one",
);
/// Keys of labels and annotations.
pub const METADATA_KEYS: Rule = Rule::new(
    "self.all(k, size(k) <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
    "every key must be a qualified name: an optional domain and /, then at most 63 letters, digits, -, _ and .",
);
/// Keys that are reserved for Trellis and Kubernetes.
pub const RESERVED_KEYS: Rule = Rule::new(
    "self.all(k, !k.contains('/') || (!(('.' + k.split('/')[0]).endsWith('.trellis.dev')) && k != 'app.kubernetes.io/managed-by' && (k.split('/')[0] == 'app.kubernetes.io' || (!(('.' + k.split('/')[0]).endsWith('.kubernetes.io')) && !(('.' + k.split('/')[0]).endsWith('.k8s.io'))))))",
    "keys of trellis.dev, kubernetes.io and k8s.io are reserved (but for app.kubernetes.io/*, managed-by excepted): use a domain of your own",
);
/// Key of an annotation that users write.
pub const ANNOTATION_KEY: Rule = Rule::new(
    "size(self) <= 317 && self.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && (!self.contains('/') || !('.' + self.split('/')[0]).matches('[.](trellis[.]dev|kubernetes[.]io|k8s[.]io)$'))",
    "must be the key of an annotation of your own: an optional domain and /, then at most 63 letters, digits, -, _ and .; trellis.dev, kubernetes.io and k8s.io are not yours",
);
/// Values of labels.
pub const LABEL_VALUES: Rule = Rule::new(
    "self.all(k, size(self[k]) <= 63 && self[k].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'))",
    "every label value must be at most 63 letters, digits, -, _ and ., starting and ending with a letter or digit",
);
/// Labels of nodes that pods require. CEL's budget has no room for this rule in a list of maps, so
/// only the library checks it.
pub const NODE_LABELS: Rule = Rule::new(
    "true",
    "must be labels that a node can have: keys with an optional domain and /, then at most 63 letters, digits, -, _ and .; values the same or empty",
);
/// Key of a taint.
pub const TAINT_KEY: Rule = Rule::new(
    "true",
    "must be the key of a taint: an optional domain and /, then at most 63 letters, digits, -, _ and .",
);

/// [`NODE_LABELS`].
pub fn node_labels(map: &BTreeMap<String, String>, _: &()) -> garde::Result {
    let ok = |(key, value): (&String, &String)| is_qualified_name(key) && is_label_value(value);
    NODE_LABELS.check(map.iter().all(ok))
}

/// [`TAINT_KEY`].
pub fn taint_key(key: &str, _: &()) -> garde::Result {
    TAINT_KEY.check(is_qualified_name(key))
}

/// [`METADATA_KEYS`] and [`LABEL_VALUES`], for the job's own labels.
pub(crate) fn job_labels(map: &BTreeMap<String, String>) -> garde::Result {
    job_annotations(map)?;
    LABEL_VALUES.check(map.values().all(|v| is_label_value(v)))
}

/// [`METADATA_KEYS`], for the job's own annotations.
pub(crate) fn job_annotations(map: &BTreeMap<String, String>) -> garde::Result {
    METADATA_KEYS.check(map.keys().all(|k| is_qualified_name(k)))
}

/// [`TOPOLOGY_LEVEL`].
pub fn topology_level(key: &str, _: &()) -> garde::Result {
    TOPOLOGY_LEVEL.check(is_qualified_name(key))
}

/// [`LEVEL_LABEL`].
pub fn level_label(key: &str, _: &()) -> garde::Result {
    LEVEL_LABEL.check(is_qualified_name(key))
}

/// [`UNIQUE_LEVEL_LABELS`] and [`UNIQUE_LEVEL_NAMES`].
pub fn unique_levels(levels: &[TopologyLevel], _: &()) -> garde::Result {
    let labels: BTreeSet<_> = levels.iter().map(|level| &level.node_label).collect();
    UNIQUE_LEVEL_LABELS.check(labels.len() == levels.len())?;
    let names: BTreeSet<_> = levels.iter().map(TopologyLevel::name).collect();
    UNIQUE_LEVEL_NAMES.check(names.len() == levels.len())
}

/// [`METADATA_KEYS`], for labels that Kubernetes or a cloud provider may have set.
pub fn label_keys(map: &BTreeMap<String, String>, _: &()) -> garde::Result {
    METADATA_KEYS.check(map.keys().all(|k| is_qualified_name(k)))
}

/// [`METADATA_KEYS`] and [`RESERVED_KEYS`].
pub fn metadata_keys(map: &BTreeMap<String, String>, _: &()) -> garde::Result {
    label_keys(map, &())?;
    RESERVED_KEYS.check(!map.keys().any(|k| is_reserved_key(k)))
}

/// [`ANNOTATION_KEY`].
pub fn annotation_key(key: &str, _: &()) -> garde::Result {
    ANNOTATION_KEY.check(
        is_qualified_name(key)
            && !is_reserved_key(key)
            && key
                .split_once('/')
                .is_none_or(|(domain, _)| domain != "app.kubernetes.io"),
    )
}

/// [`LABEL_VALUES`].
pub fn label_values(map: &BTreeMap<String, String>, _: &()) -> garde::Result {
    LABEL_VALUES.check(map.values().all(|v| is_label_value(v)))
}
