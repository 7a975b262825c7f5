//! Resources that Trellis's own nodes keep free for DaemonSet pods that do not exist yet. Pure.
//!
//! On a node that other schedulers use, too, Trellis detects a lost race and rolls back. On
//! Trellis's own nodes, only DaemonSets add pods, so Trellis knows their demand and reserves it.

use trellis_api::names;
use trellis_scheduler::{Node, ResourceName, Resources, TaintEffect};

use super::{constraints, resource_request};
use crate::observed::{SlimDaemonSet, SlimPod};

/// Returns true if the node is Trellis's own: it has the label, and the taint that keeps other pods
/// off.
#[must_use]
pub fn is_own(node: &Node) -> bool {
    let labelled = node.labels.get(names::DEDICATED_NODE);
    labelled.is_some_and(|value| value == names::DEDICATED_NODE_VALUE)
        && node.taints.iter().any(|taint| {
            taint.key == names::DEDICATED_NODE && taint.effect != TaintEffect::PreferNoSchedule
        })
}

/// Subtracts the demand of missing DaemonSet pods from an own node's resources. `has` tells whether
/// the DaemonSet with a uid has a pod there. In that case, the pod itself counts.
pub fn reserve_for_daemon_sets<'a>(
    node: &mut Node,
    sets: impl IntoIterator<Item = &'a SlimDaemonSet>,
    has: impl Fn(&str) -> bool,
) {
    if !is_own(node) {
        return;
    }
    let awaited = sets
        .into_iter()
        .filter(|set| will_run_daemon_pod(set, node, &has));
    let awaited: Vec<Resources> = awaited.map(daemon_pod_request).collect();
    for request in awaited {
        for (resource, amount) in request.iter() {
            let offered = node.allocatable.get(resource);
            if offered > 0 {
                let remaining = offered.saturating_sub(amount);
                node.allocatable.set(resource.clone(), remaining);
            }
        }
    }
}

/// Returns true if the DaemonSet controller will create a pod for the node
/// (`NodeShouldRunDaemonPod`).
fn will_run_daemon_pod(set: &SlimDaemonSet, node: &Node, has: impl Fn(&str) -> bool) -> bool {
    let spec = &set.spec.template.spec;
    let named = spec.pod.node_name.as_deref().filter(|n| !n.is_empty());
    set.metadata.deletion_timestamp.is_none()
        && named.is_none_or(|name| name == node.name.as_str())
        && constraints::from_daemon_pod(spec).are_met_by(node)
        && !has(set.metadata.uid.as_deref().unwrap_or_default())
}

/// Returns the resources that one pod takes of a node, including one of its pod slots. Changes by
/// admission are not known.
fn daemon_pod_request(set: &SlimDaemonSet) -> Resources {
    let mut needs = resource_request::pod_request(&SlimPod {
        spec: set.spec.template.spec.pod.clone(),
        ..SlimPod::default()
    });
    needs.set(ResourceName::new("pods"), 1);
    needs
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trellis_scheduler::{NodeName, Taint};

    use super::*;

    fn own_node() -> Node {
        let allocatable = Resources::new()
            .with("cpu", 96_000)
            .with("memory", 1 << 30)
            .with("pods", 110);
        let mut node = Node::new(NodeName::new("n"), allocatable);
        node.labels
            .insert(names::DEDICATED_NODE.into(), "true".into());
        node.labels.insert("pool".into(), "gpu".into());
        node.taints
            .push(taint(names::DEDICATED_NODE, TaintEffect::NoSchedule));
        node
    }

    fn taint(key: &str, effect: TaintEffect) -> Taint {
        Taint {
            key: key.to_owned(),
            value: "true".to_owned(),
            effect,
        }
    }

    fn daemon_set(more: Value) -> SlimDaemonSet {
        let mut spec = json!({
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Mi"}}}],
            "tolerations": [{"key": names::DEDICATED_NODE, "operator": "Exists"}],
        });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "metadata": {"name": "d", "uid": "d"}, "spec": {"template": {"spec": spec}},
        }))
        .unwrap()
    }

    /// Returns the cores and pod slots that are left.
    fn remaining_capacity(node: Node, sets: &[SlimDaemonSet]) -> (i64, i64) {
        let mut node = node;
        reserve_for_daemon_sets(&mut node, sets, |uid| uid == "present");
        let get = |name: &str| node.allocatable.get(&ResourceName::new(name));
        (get("cpu") / 1000, get("pods"))
    }

    #[test]
    fn own_node_reserves_the_demand_of_matching_daemon_sets() {
        let affinity = |operator: &str| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "pool", "operator": operator, "values": ["gpu"]}]},
                ]},
            }}})
        };
        for (more, cores) in [
            (json!({}), 94),
            (json!({"nodeSelector": {"pool": "gpu"}}), 94),
            (json!({"nodeSelector": {"pool": "cpu"}}), 96),
            (affinity("In"), 94),
            (affinity("NotIn"), 96),
            (json!({"nodeName": "n"}), 94),
            (json!({"nodeName": "another"}), 96),
            (json!({"tolerations": []}), 96),
            (json!({"tolerations": [{"operator": "Exists"}]}), 94),
            (json!({"overhead": {"cpu": "1"}}), 93),
        ] {
            let pods = if cores == 96 { 110 } else { 109 };
            assert_eq!(
                remaining_capacity(own_node(), &[daemon_set(more.clone())]),
                (cores, pods),
                "{more}"
            );
        }
        assert_eq!(
            remaining_capacity(own_node(), &[daemon_set(json!({})), daemon_set(json!({}))]),
            (92, 108)
        );
    }

    #[test]
    fn present_or_deleted_daemon_set_reserves_nothing() {
        let mut present = daemon_set(json!({}));
        present.metadata.uid = Some("present".to_owned());
        assert_eq!(remaining_capacity(own_node(), &[present]), (96, 110));
        let mut deleted = daemon_set(json!({}));
        deleted.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(remaining_capacity(own_node(), &[deleted]), (96, 110));
    }

    #[test]
    fn daemon_set_controller_tolerations_count() {
        for (key, effect, host_network, cores) in [
            ("not-ready", TaintEffect::NoExecute, false, 94),
            ("not-ready", TaintEffect::NoSchedule, false, 96),
            ("unreachable", TaintEffect::NoExecute, false, 94),
            ("disk-pressure", TaintEffect::NoSchedule, false, 94),
            ("memory-pressure", TaintEffect::NoSchedule, false, 94),
            ("pid-pressure", TaintEffect::NoSchedule, false, 94),
            ("unschedulable", TaintEffect::NoSchedule, false, 94),
            ("network-unavailable", TaintEffect::NoSchedule, false, 96),
            ("network-unavailable", TaintEffect::NoSchedule, true, 94),
            ("something-else", TaintEffect::PreferNoSchedule, false, 94),
        ] {
            let mut node = own_node();
            node.taints
                .push(taint(&format!("node.kubernetes.io/{key}"), effect));
            let set = daemon_set(json!({"hostNetwork": host_network}));
            assert_eq!(
                remaining_capacity(node, &[set]).0,
                cores,
                "{key} {effect:?} {host_network}"
            );
        }
    }

    #[test]
    fn node_is_own_only_with_label_and_taint() {
        let mut untainted = own_node();
        untainted.taints.clear();
        let mut softly_tainted = own_node();
        softly_tainted.taints[0].effect = TaintEffect::PreferNoSchedule;
        let mut unlabelled = own_node();
        unlabelled
            .labels
            .insert(names::DEDICATED_NODE.into(), "false".into());
        for shared in [untainted, softly_tainted, unlabelled] {
            assert!(!is_own(&shared), "{shared:?}");
            assert_eq!(
                remaining_capacity(shared, &[daemon_set(json!({}))]),
                (96, 110)
            );
        }
        assert!(is_own(&own_node()));
    }

    #[test]
    fn demand_above_node_capacity_leaves_nothing() {
        let large_demand =
            json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "500"}}}]});
        assert_eq!(
            remaining_capacity(own_node(), &[daemon_set(large_demand)]).0,
            0
        );
    }
}
