//! Taints that new nodes had when they joined.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::ResourceFlavorSpec;
use trellis_api::resource_flavor::FlavorProvisioning;
use trellis_scheduler::Taint;

use super::flavor_taints::is_tolerated;
use super::node_pool::NODE_POOL_LABEL;
use crate::engine::convert_taint;
use crate::observed::SlimNode;

/// Karpenter sets this label once a node is ready and has lost its startup taints.
const INITIALIZED_LABEL: &str = "karpenter.sh/initialized";
/// How long a node that Karpenter has not added counts as new.
const NEW_NODE_AGE: SignedDuration = SignedDuration::from_mins(5);

/// Starts of the keys of taints that autoscalers expect on new nodes (`KnownEphemeralTaints` in
/// Karpenter's `pkg/scheduling`, and `utils/taints` of Cluster Autoscaler), or set themselves.
const EXPECTED_KEYS: &[&str] = &[
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "readiness.k8s.io/",
    "karpenter.sh/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
];

/// Time after which the check forgets a taint that no new node has had.
const MEMORY: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Taints of one flavor's new nodes when they joined, each with the first node that had it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaintsOfNewNodes(BTreeMap<Taint, Sighting>);

/// The first new node that had a taint, and when a new node last had it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sighting {
    node: String,
    last: Timestamp,
}

impl TaintsOfNewNodes {
    /// Adds the taints of the flavor's nodes that are new now, and forgets taints that no new node has
    /// had for a week.
    pub fn observe<'a>(
        &mut self,
        flavor: &ResourceFlavorSpec,
        nodes: impl IntoIterator<Item = &'a SlimNode>,
        now: Timestamp,
    ) {
        self.0
            .retain(|_, seen| now.duration_since(seen.last) < MEMORY);
        for node in nodes {
            if !is_new(node, now) || !has_labels(node, &flavor.node_labels) {
                continue;
            }
            for taint in &node.spec.taints {
                let taint = convert_taint(taint);
                if !EXPECTED_KEYS.iter().any(|key| taint.key.starts_with(key)) {
                    let node = node.metadata.name.clone().unwrap_or_default();
                    let first = Sighting { node, last: now };
                    self.0.entry(taint).or_insert(first).last = now;
                }
            }
        }
    }

    /// Returns the taints that jobs of the flavor do not tolerate and the autoscaler does not list,
    /// each with a node.
    pub(super) fn unlisted(
        &self,
        flavor: &ResourceFlavorSpec,
        provisioning: &FlavorProvisioning,
        is_listed: impl Fn(&Taint) -> bool,
    ) -> impl Iterator<Item = (&Taint, &str)> {
        let taints = self
            .0
            .iter()
            .map(|(taint, seen)| (taint, seen.node.as_str()));
        taints.filter(move |(taint, _)| {
            !is_listed(taint) && !is_tolerated(taint, flavor, provisioning)
        })
    }
}

fn is_new(node: &SlimNode, now: Timestamp) -> bool {
    let labels = node.metadata.labels.as_ref();
    let has_label = |key| labels.is_some_and(|labels| labels.contains_key(key));
    if has_label(NODE_POOL_LABEL) {
        return !has_label(INITIALIZED_LABEL);
    }
    let created = node.metadata.creation_timestamp.as_ref();
    node.is_ready() && created.is_some_and(|at| now.duration_since(at.0) < NEW_NODE_AGE)
}

fn has_labels(node: &SlimNode, wanted: &BTreeMap<String, String>) -> bool {
    let labels = node.metadata.labels.as_ref();
    let label = |key| labels.and_then(|labels| labels.get(key));
    wanted.iter().all(|(key, value)| label(key) == Some(value))
}
