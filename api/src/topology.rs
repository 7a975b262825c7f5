//! [`Topology`]: closeness of nodes.

use garde::Validate;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Closeness of nodes. Nodes with the same value of a label form one domain, and the domains of
/// each level lie within those of the previous level.
#[derive(
    CustomResource, KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq,
)]
#[expect(clippy::duplicated_attributes, reason = "each column has a type")]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "Topology",
    plural = "topologies",
    shortname = "ttopo",
    category = "trellis",
    derive = "PartialEq",
    doc = "Closeness of nodes.",
    printcolumn(
        name = "Coarsest",
        type_ = "string",
        json_path = ".spec.levels[0].nodeLabel"
    ),
    printcolumn(
        name = "Finest",
        type_ = "string",
        json_path = ".spec.levels[-1:].nodeLabel"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TopologySpec {
    /// Levels, coarse to fine: block, rack, host. Nodes with the same labels of a level and of all
    /// levels before it form one domain of that level. A node without one of these labels is in no
    /// domain of the level.
    #[schemars(length(min = 1, max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[garde(length(min = 1, max = 8), dive, custom(rules::unique_levels))]
    #[x_kube(validation = rules::UNIQUE_LEVEL_LABELS.to_cel_rule(), validation = rules::UNIQUE_LEVEL_NAMES.to_cel_rule())]
    pub levels: Vec<TopologyLevel>,
}

/// A level of a topology.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TopologyLevel {
    /// Name by which jobs request the level, such as `rack`. Jobs that use this name run in every
    /// cluster with a level of that name. Absent: `nodeLabel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    #[garde(inner(custom(rules::topology_level)))]
    #[x_kube(validation = rules::TOPOLOGY_LEVEL.to_cel_rule())]
    pub name: Option<String>,
    /// Key of the node label whose values are the domains of the level.
    #[schemars(length(min = 1, max = 317))]
    #[garde(custom(rules::level_label))]
    #[x_kube(validation = rules::LEVEL_LABEL.to_cel_rule())]
    pub node_label: String,
}

impl TopologyLevel {
    /// Returns the name by which jobs request the level.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.node_label)
    }
}

/// Closeness of the pods of a task group or of a job: `required`, `preferred`, `slices`, or several of
/// them.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::SOME_CLOSENESS.to_cel_rule())]
#[x_kube(validation = rules::BALANCED.to_cel_rule())]
#[x_kube(validation = rules::SLICE_POLICY.to_cel_rule())]
pub struct Closeness {
    /// Name of a level of a Topology: the gang waits until all pods fit into one domain of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    #[garde(
        inner(custom(rules::topology_level)),
        custom(rules::some_closeness(self))
    )]
    #[x_kube(validation = rules::TOPOLOGY_LEVEL.to_cel_rule())]
    pub required: Option<String>,
    /// Name of a level of a Topology: the scheduler uses as few domains of it as possible. With
    /// `required`, it must be a finer level of the same Topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    #[garde(inner(custom(rules::topology_level)))]
    #[x_kube(validation = rules::TOPOLOGY_LEVEL.to_cel_rule())]
    pub preferred: Option<String>,
    /// True: the domains of `preferred` get equal numbers of pods, or of slices, as far as their room
    /// allows. Absent: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(custom(rules::balanced(self)))]
    pub balanced: Option<bool>,
    /// Slices: consecutive pods that must be in one domain. Up to 3 layers, coarse to fine, with levels
    /// of one Topology. Absent: no slices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3), extend("x-kubernetes-list-type" = "atomic"))]
    #[garde(length(max = 3), dive, custom(rules::slice_layers))]
    #[x_kube(validation = rules::SLICE_LAYERS.to_cel_rule(), validation = rules::SLICE_LEVELS.to_cel_rule())]
    pub slices: Vec<SliceLayer>,
    /// Required: the gang waits until all slices have room; Preferred: the scheduler ignores a layer
    /// whose slices do not all have room. Absent: Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(custom(rules::slice_policy(self)))]
    pub slice_policy: Option<SlicePolicy>,
}

/// Required: the gang waits until all slices have room; Preferred: the scheduler
/// ignores a layer whose slices do not all have room. Absent: Required.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SlicePolicy {
    /// The gang waits until all slices have room.
    #[default]
    Required,
    /// The scheduler ignores a layer whose slices do not all have room, and all finer layers. If it
    /// ignores all layers, the pods are in as few domains of the first layer as possible.
    Preferred,
}

/// One layer of slices.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::SLICE_SIZE.to_cel_rule())]
pub struct SliceLayer {
    /// Name of a level of a Topology: the gang waits until the pods of each slice fit into one
    /// domain of it.
    #[schemars(length(min = 1, max = 317))]
    #[garde(custom(rules::topology_level), custom(rules::slice_size(self)))]
    #[x_kube(validation = rules::TOPOLOGY_LEVEL.to_cel_rule())]
    pub level: String,
    /// Number of pods in each slice: with 16, pods 0 to 15 are the first slice. `replicas`, or the world
    /// size of a job, must be a multiple of it. In later layers, `pods` of the layer before must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::slice_pods)))]
    #[x_kube(validation = rules::SLICE_PODS.to_cel_rule())]
    pub pods: Option<i64>,
    /// Upper limit for the size of a slice, instead of `pods`; only in the last layer. Trellis uses the
    /// largest size within the limit that divides the pods evenly.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::slice_pods)))]
    #[x_kube(validation = rules::SLICE_PODS.to_cel_rule())]
    pub at_most: Option<i64>,
}

impl Closeness {
    /// True if the pods are split evenly over the domains of the preferred level.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.balanced.unwrap_or_default()
    }

    /// True if the pods are split: in slices, or evenly over the domains of a level.
    #[must_use]
    pub fn splits(&self) -> bool {
        !self.slices.is_empty() || self.is_balanced()
    }

    /// Returns the number of pods in a slice of each layer, coarse to fine, for this many pods. Values
    /// that validation refuses give slices of at least 1 pod.
    #[must_use]
    pub fn slice_sizes(&self, pods: u32) -> Vec<u32> {
        let to_pods = |pods: i64| u32::try_from(pods).unwrap_or(u32::MAX).max(1);
        let mut outer = pods.max(1);
        let sizes = self.slices.iter().map(|layer| {
            let largest = || largest_divisor(outer, layer.at_most.map_or(1, to_pods));
            outer = layer.pods.map_or_else(largest, to_pods);
            outer
        });
        sizes.collect()
    }
}

/// Returns the largest divisor of a number of pods up to a bound.
pub(crate) fn largest_divisor(pods: u32, bound: u32) -> u32 {
    let divides = |size: &u32| pods.checked_rem(*size) == Some(0);
    (1..=bound.min(pods)).rev().find(divides).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::{Closeness, SliceLayer};
    use crate::TrainingJob;
    use crate::job::TaskGroup;
    use crate::validation::{Violations, check_rules};
    use garde::Validate as _;

    fn layer(pods: Option<i64>, at_most: Option<i64>) -> SliceLayer {
        SliceLayer {
            level: "rack".to_owned(),
            pods,
            at_most,
        }
    }

    fn topology(slices: Vec<SliceLayer>) -> Closeness {
        Closeness {
            slices,
            ..Closeness::default()
        }
    }

    #[test]
    fn bound_gives_the_largest_divisor() {
        let sizes = |replicas, slices| topology(slices).slice_sizes(replicas);
        assert_eq!(sizes(24, vec![layer(None, Some(16))]), [12]);
        assert_eq!(sizes(48, vec![layer(None, Some(16))]), [16]);
        assert_eq!(sizes(8, vec![layer(None, Some(16))]), [8]);
        let layers = vec![layer(Some(48), None), layer(None, Some(18))];
        assert_eq!(sizes(96, layers), [48, 16]);
        assert_eq!(sizes(17, vec![layer(None, Some(16))]), [1]);
    }

    #[test]
    fn bound_that_splits_off_single_pods_is_refused() {
        let violations = |replicas: i64, slices: Vec<SliceLayer>| {
            let group = TaskGroup {
                name: "worker".to_owned(),
                replicas: Some(replicas),
                topology: Some(topology(slices)),
                ..TaskGroup::default()
            };
            let report = group.validate().unwrap_err().to_string();
            let (_, details) = report.split_once("or change that number; ")?;
            Some(details.lines().next()?.to_owned())
        };
        assert_eq!(
            violations(17, vec![layer(None, Some(16))]).unwrap(),
            "replicas is 17: 16 gives slices of 16, and 18 gives slices of 9"
        );
        assert_eq!(
            violations(37, vec![layer(Some(37), None), layer(None, Some(16))]).unwrap(),
            "pods of the layer before is 37: 36 gives slices of 12, and 38 gives slices of 2"
        );
        assert_eq!(violations(16, vec![layer(None, Some(15))]), None);
        // The user asked for slices of one pod.
        assert_eq!(violations(17, vec![layer(None, Some(1))]), None);
        assert_eq!(violations(1, vec![layer(None, Some(16))]), None);
    }

    /// Returns the violations of a group with these fields, by path, without its missing image.
    fn violations_of(group: serde_json::Value) -> Vec<String> {
        let mut job = serde_json::json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"taskGroups": [{"name": "worker", "image": "i",
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]},
        });
        let fields = group.as_object().unwrap().clone();
        job["spec"]["taskGroups"][0]
            .as_object_mut()
            .unwrap()
            .extend(fields);
        let job: TrainingJob = serde_json::from_value(job).unwrap();
        let violations = check_rules(&job).err();
        let violations = violations.iter().flat_map(Violations::as_slice);
        violations
            .map(|v| format!("{}: {}", v.path, v.message))
            .collect()
    }

    #[test]
    fn violation_names_the_object_that_breaks_the_rule_and_the_numbers() {
        let topology = "spec.taskGroups[0].topology";
        let first = |group| violations_of(group).remove(0);
        let empty = first(serde_json::json!({"topology": {}}));
        assert!(
            empty.starts_with(&format!("{topology}: must have required")),
            "{empty}"
        );
        let layers = serde_json::json!([{"level": "rack"}]);
        let sizeless = first(serde_json::json!({"topology": {"slices": layers}}));
        assert!(
            sizeless.starts_with(&format!(
                "{topology}.slices[0]: must set either pods or atMost"
            )),
            "{sizeless}"
        );
        let sliced = |replicas: i64| {
            let layers = serde_json::json!([{"level": "rack", "pods": 16}]);
            first(serde_json::json!({"replicas": replicas, "topology": {"slices": layers}}))
        };
        assert!(
            sliced(50).ends_with("; replicas is 50 and pods is 16: change replicas to 48 or 64, or pods to a divisor of 50"),
            "{}",
            sliced(50)
        );
        assert!(sliced(5).ends_with(": change replicas to 16, or pods to a divisor of 5"));
    }

    #[test]
    fn layer_that_is_no_multiple_of_the_next_one_is_named_with_its_numbers() {
        let end = |outer: serde_json::Value, inner: i64| {
            let layers = serde_json::json!([outer, {"level": "rack", "pods": inner}]);
            let group = serde_json::json!({"replicas": 48, "topology": {"slices": layers}});
            let violation = violations_of(group).remove(0);
            violation.rsplit("; ").next().unwrap().to_owned()
        };
        let block = |pods: i64| serde_json::json!({"level": "block", "pods": pods});
        assert_eq!(
            end(block(16), 3),
            "slices[0].pods is 16 and slices[1].pods is 3: slices[0].pods must be a multiple of 3, such as 15 or 18"
        );
        assert_eq!(
            end(block(4), 16),
            "slices[0].pods is 4 and slices[1].pods is 16: slices of the coarser level, which comes first, must be larger"
        );
        assert_eq!(
            end(serde_json::json!({"level": "block", "atMost": 16}), 4),
            "slices[0] does not set pods, which only the last layer may leave out"
        );
    }

    #[test]
    fn min_replicas_of_a_group_with_slices_are_whole_slices_of_stated_size() {
        let group = |least: i64, layer: serde_json::Value| {
            violations_of(serde_json::json!({"replicas": 4, "minReplicas": least,
                "topology": {"slices": [layer]}}))
        };
        let pods = || serde_json::json!({"level": "rack", "pods": 2});
        let bound = || serde_json::json!({"level": "rack", "atMost": 2});
        for (least, layer) in [(4, pods()), (2, pods()), (4, bound())] {
            assert_eq!(group(least, layer), [""; 0], "{least}");
        }
        for (least, layer) in [(3, pods()), (1, pods()), (2, bound())] {
            let violations = group(least, layer);
            let start = "spec.taskGroups[0].minReplicas: minReplicas must be a multiple of";
            assert_eq!(violations.len(), 1, "{least}: {violations:?}");
            assert!(violations[0].starts_with(start), "{violations:?}");
        }
        // The other rule on minReplicas has one violation of its own.
        assert_eq!(group(6, pods()).len(), 1);
    }

    #[test]
    fn restart_of_slices_needs_a_group_with_slices() {
        let violations = |restart: serde_json::Value, slices: bool| {
            let mut job = serde_json::json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                "metadata": {"name": "a", "namespace": "default"},
                "spec": {"restart": restart, "taskGroups": [{"name": "worker", "image": "i",
                    "replicas": 2, "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]},
            });
            if slices {
                let topology = serde_json::json!({"slices": [{"level": "rack", "pods": 2}]});
                job["spec"]["taskGroups"][0]["topology"] = topology;
            }
            let job: TrainingJob = serde_json::from_value(job).unwrap();
            let violations = check_rules(&job).err();
            let violations = violations.iter().flat_map(Violations::as_slice);
            violations
                .map(|v| format!("{}: {}", v.path, v.message))
                .collect::<Vec<_>>()
        };
        let restarts = [
            serde_json::json!({"scope": "Slice"}),
            serde_json::json!({"rules": [{"action": "RestartSlice"}]}),
        ];
        for restart in restarts {
            assert_eq!(violations(restart.clone(), true), [""; 0], "{restart}");
            let refused = violations(restart.clone(), false);
            assert_eq!(refused.len(), 1, "{restart}");
            let start = "spec.restart: scope Slice and action RestartSlice need";
            assert!(refused[0].starts_with(start), "{refused:?}");
        }
    }
}
