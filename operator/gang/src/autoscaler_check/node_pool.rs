//! Karpenter's NodePools (`karpenter.sh/v1`), and the rules for them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::Duration;
use kube::{CustomResource, ResourceExt as _};
use serde::{Deserialize, Serialize};
use trellis_api::resource_flavor::{FlavorProvisioning, ProvisioningMethod};
use trellis_api::{Quantity, ResourceFlavorSpec};
use trellis_scheduler::Taint;

use super::flavor_taints::{is_tolerated, own_taints};
use super::new_nodes::TaintsOfNewNodes;
use crate::engine::convert_taint;

/// The label of Karpenter's nodes with the name of their NodePool.
pub const NODE_POOL_LABEL: &str = "karpenter.sh/nodepool";
/// Shortest safe time until Karpenter removes an empty node. Between the end of an order and the
/// first pods of its gang, the nodes look empty.
const SHORTEST_CONSOLIDATION: std::time::Duration = std::time::Duration::from_secs(30);
/// Word for a time that never comes.
const NEVER: &str = "Never";

/// The nodes that Karpenter may add. Only the fields that the rules read.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    schema = "disabled",
    status = "NodePoolStatus"
)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePoolSpec {
    template: NodeClaimTemplate,
    disruption: Disruption,
    /// The most that all its nodes may offer.
    limits: BTreeMap<String, Quantity>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct NodeClaimTemplate {
    metadata: TemplateMetadata,
    spec: TemplateSpec,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
struct TemplateMetadata {
    labels: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct TemplateSpec {
    taints: Vec<core::Taint>,
    startup_taints: Vec<core::Taint>,
    requirements: Vec<core::NodeSelectorRequirement>,
    expire_after: Option<String>,
    termination_grace_period: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct Disruption {
    consolidate_after: Option<String>,
}

/// Status that Karpenter writes to a NodePool.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct NodePoolStatus {
    conditions: Vec<Condition>,
}

impl NodePool {
    /// Returns true if nodes of the pool have the labels of the flavor.
    pub(super) fn can_add_nodes_of(&self, flavor: &ResourceFlavorSpec) -> bool {
        let mut labels = flavor.node_labels.iter();
        labels.all(|(key, value)| self.may_have_label(key, value))
    }

    fn may_have_label(&self, key: &str, value: &str) -> bool {
        let template = &self.spec.template;
        if key == NODE_POOL_LABEL {
            return self.name_any() == value;
        }
        if let Some(own) = template.metadata.labels.get(key) {
            return own == value;
        }
        let requirements = template.spec.requirements.iter();
        let mut requirements = requirements.filter(|r| r.key == key).peekable();
        if requirements.peek().is_none() {
            return is_instance_label(key);
        }
        requirements.all(|r| {
            let has_value = r.values.iter().flatten().any(|v| v == value);
            match r.operator.as_str() {
                "In" => has_value,
                "NotIn" => !has_value,
                operator => operator != "DoesNotExist",
            }
        })
    }

    /// Returns one sentence for each broken rule.
    pub(super) fn find_problems(
        &self,
        flavor: &ResourceFlavorSpec,
        provisioning: &FlavorProvisioning,
        new_nodes: &TaintsOfNewNodes,
    ) -> Vec<String> {
        let pool = format!("NodePool {:?}", self.name_any());
        let taints = self.check_taints(flavor, provisioning);
        let single = [
            check_method(provisioning),
            self.check_readiness(),
            self.check_removal(),
            self.check_consolidation(),
            self.check_limits(provisioning),
        ];
        let own = single.into_iter().flatten().chain(taints);
        let unlisted = new_nodes.unlisted(flavor, provisioning, |taint| self.is_listed(taint));
        own.map(|problem| format!("{pool} {problem}"))
            .chain(unlisted.map(|(taint, node)| {
                format!(
                    "{pool} does not list the taint \"{taint}\" of new node {node:?}: while the \
                     taint exists, Karpenter buys another node; add it to startupTaints"
                )
            }))
            .collect()
    }

    fn is_listed(&self, taint: &Taint) -> bool {
        let spec = &self.spec.template.spec;
        let mut listed = spec.taints.iter().chain(&spec.startup_taints);
        listed.any(|own| own.key == taint.key && own.effect == taint.effect.as_str())
    }

    fn check_readiness(&self) -> Option<String> {
        let status = self.status.as_ref()?;
        let mut conditions = status.conditions.iter();
        let ready = conditions.find(|c| c.type_ == "Ready")?;
        (ready.status == "False")
            .then(|| format!("is not ready, and gets no nodes: {}", ready.message))
    }

    /// With a terminationGracePeriod, Karpenter disregards the annotation
    /// `karpenter.sh/do-not-disrupt` (`EventualDisruptionClass` in its `pkg/controllers/disruption`,
    /// and the expiration of NodeClaims).
    fn check_removal(&self) -> Option<String> {
        let spec = &self.spec.template.spec;
        let grace = spec.termination_grace_period.as_deref()?;
        let expiry = spec.expire_after.as_deref().unwrap_or("720h");
        let cause = match expiry {
            NEVER => "that drift".to_owned(),
            _ => format!("that are {expiry} old (expireAfter) or drift"),
        };
        Some(format!(
            "has terminationGracePeriod {grace}: Karpenter removes nodes {cause} even if a gang \
             runs on them; unset terminationGracePeriod"
        ))
    }

    fn check_consolidation(&self) -> Option<String> {
        let after = self.spec.disruption.consolidate_after.as_deref();
        let after = after.unwrap_or("0s");
        let time: Duration = after.parse().ok()?;
        (time < SHORTEST_CONSOLIDATION).then(|| {
            format!(
                "has consolidateAfter {after}: Karpenter may remove new nodes just before the gang \
                 starts; set it to 1m or more"
            )
        })
    }

    /// Karpenter buys nodes up to the limit even if the gang needs more.
    fn check_limits(&self, provisioning: &FlavorProvisioning) -> Option<String> {
        let limits = self.spec.limits.iter().filter_map(|(resource, limit)| {
            let node = provisioning.node.allocatable.get(resource)?;
            let node = node.amount().ok()?.ceil_millis().filter(|n| *n > 0)?;
            let nodes = limit.amount().ok()?.ceil_millis()?.checked_div(node)?;
            Some((nodes, resource, limit))
        });
        let (nodes, resource, limit) = limits.min_by_key(|(nodes, ..)| *nodes)?;
        let max = provisioning.max_nodes;
        (nodes < max).then(|| {
            format!(
                "has limit {resource}={limit}, enough for {nodes} nodes: a larger gang gets only \
                 some of its nodes; lower maxNodes of the flavor from {max} to {nodes}"
            )
        })
    }

    fn check_taints(
        &self,
        flavor: &ResourceFlavorSpec,
        provisioning: &FlavorProvisioning,
    ) -> Vec<String> {
        let taints: Vec<Taint> = self
            .spec
            .template
            .spec
            .taints
            .iter()
            .map(convert_taint)
            .collect();
        let unknown = taints.iter();
        let unknown = unknown.filter(|taint| !is_tolerated(taint, flavor, provisioning));
        let unknown = unknown.map(|taint| {
            format!(
                "has the taint \"{taint}\": Karpenter adds no nodes for jobs that do not tolerate \
                 it; add it to nodeTaints of the flavor"
            )
        });
        let missing = own_taints(flavor).filter(|own| !taints.contains(own));
        let missing = missing.map(|taint| {
            format!(
                "lacks the taint \"{taint}\" of the flavor: other pods may take the new nodes; add \
                 it to the NodePool"
            )
        });
        unknown.chain(missing).collect()
    }
}

/// Returns true for labels that tell the kind and place of an instance. A NodePool that does not
/// require them has instances with any value.
fn is_instance_label(key: &str) -> bool {
    let (domain, _) = key.split_once('/').unwrap_or_default();
    ["kubernetes.io", "k8s.io"]
        .iter()
        .any(|end| domain.ends_with(end))
        || domain.starts_with("karpenter.")
}

fn check_method(provisioning: &FlavorProvisioning) -> Option<String> {
    (provisioning.by == ProvisioningMethod::ProvisioningRequest).then(|| {
        "gets no nodes: Karpenter reads no ProvisioningRequests; use by: Placeholders".to_owned()
    })
}
