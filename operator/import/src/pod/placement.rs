//! Constraints on the nodes of pods: labels, taints, affinity and topology.

use k8s_openapi::api::core::v1::NodeAffinity;
use serde_json::Value;
use trellis_api::job::{Affinity, TaskGroup, Toleration, TolerationEffect, TolerationOperator};
use trellis_api::topology::{Closeness, SliceLayer};

use super::ValueWithPath;
use super::traced_value::TracedValue;
use crate::context::ImportContext;
use crate::fields::Fields;

/// Reads node selector, tolerations and affinity.
pub(super) fn read_placement(spec: &Fields<'_>, group: &mut TaskGroup, output: &mut TracedValue) {
    group.node_selector = spec.map("nodeSelector");
    group.tolerations = read_tolerations(spec);
    let Some(affinity) = spec.object("affinity") else {
        return;
    };
    let mut rest = TracedValue::empty_map(affinity.path());
    for key in affinity.keys() {
        let Some(field) = affinity.get(&key) else {
            continue;
        };
        match (key.as_str(), to_node_affinity(field.value())) {
            ("nodeAffinity", Some(of_nodes)) => {
                field.mark_read();
                group.affinity = Some(Affinity {
                    node_affinity: Some(of_nodes),
                });
            }
            _ => rest.insert(&key, TracedValue::from_fields(&field)),
        }
    }
    if !rest.is_empty() {
        output.insert("affinity", rest);
    }
}

/// Converts the value to the Kubernetes type, if that type contains all of its fields.
fn to_node_affinity(value: &Value) -> Option<NodeAffinity> {
    let read: NodeAffinity = serde_json::from_value(value.clone()).ok()?;
    let written = serde_json::to_value(&read).ok()?;
    (written == *value).then_some(read)
}

/// Reads the tolerations of a pod or a flavor.
pub(crate) fn read_tolerations(owner: &Fields<'_>) -> Vec<Toleration> {
    let tolerations = owner.objects("tolerations").into_iter();
    tolerations.filter_map(|t| read_toleration(&t)).collect()
}

fn read_toleration(fields: &Fields<'_>) -> Option<Toleration> {
    let operator = match fields.text("operator").as_deref() {
        None => None,
        Some("Exists") => Some(TolerationOperator::Exists),
        // Equal is the default, so it is left out.
        Some("Equal") => None,
        Some(_) => {
            fields.note(
                "has an operator that Trellis does not evaluate",
                "use Exists or Equal",
            );
            return None;
        }
    };
    Some(Toleration {
        key: fields.text("key"),
        operator,
        value: fields.text("value"),
        effect: read_effect(fields, "effect"),
        toleration_seconds: fields.integer("tolerationSeconds"),
    })
}

/// Reads the effect of a taint.
pub(crate) fn read_effect(fields: &Fields<'_>, key: &str) -> Option<TolerationEffect> {
    match fields.text(key)?.as_str() {
        "NoSchedule" => Some(TolerationEffect::NoSchedule),
        "PreferNoSchedule" => Some(TolerationEffect::PreferNoSchedule),
        "NoExecute" => Some(TolerationEffect::NoExecute),
        _ => {
            let message = "must be NoSchedule, PreferNoSchedule or NoExecute: write one of them";
            fields.log().add_problem(&fields.field_path(key), message);
            None
        }
    }
}

const SLICE_LAYERS: &str = "kueue.x-k8s.io/podset-slice-required-topology-constraints";

const SLICE_LEVEL: &str = "kueue.x-k8s.io/podset-slice-required-topology";
const SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
const REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
const POD_SET_GROUP: &str = "kueue.x-k8s.io/podset-group-name";
const PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";

/// The topology of a task group, and the paths of the annotations that its fields come from.
type TracedTopology = (Option<Closeness>, Vec<(&'static str, String)>);

/// Reads the topology request and the slices from Kueue's annotations of a pod.
pub(super) fn read_topology(metadata: &Fields<'_>, context: &ImportContext) -> TracedTopology {
    let Some(annotations) = metadata.object("annotations") else {
        return TracedTopology::default();
    };
    annotations.ignore(&["kueue.x-k8s.io/podset-unconstrained-topology"]);
    let one_layer = read_slice_layer(&annotations);
    let several_layers = read_slice_layers(&annotations);
    if one_layer.is_some() && !several_layers.is_empty() {
        let message = "excludes podset-slice-required-topology, as in Kueue: remove one of the two";
        let path = annotations.field_path(SLICE_LAYERS);
        annotations.log().add_problem(&path, message);
    }
    let (required, preferred) = (annotations.text(REQUIRED), annotations.text(PREFERRED));
    let is_balanced = context.is_balanced && required.is_none() && preferred.is_some();
    let topology = Closeness {
        required,
        preferred,
        balanced: is_balanced.then_some(true),
        slices: one_layer.into_iter().chain(several_layers).collect(),
        slice_policy: None,
    };
    let slices = match topology.slices.len() {
        1 if annotations.text(SLICE_SIZE).is_some() => SLICE_SIZE,
        _ => SLICE_LAYERS,
    };
    let origins = [
        // The rules on slices and replicas concern the whole topology.
        ("topology", slices, !topology.slices.is_empty()),
        ("topology.required", REQUIRED, topology.required.is_some()),
        (
            "topology.preferred",
            PREFERRED,
            topology.preferred.is_some(),
        ),
    ];
    let origins = origins.into_iter().filter(|(.., is_set)| *is_set);
    let origins = origins.map(|(field, key, _)| (field, annotations.field_path(key)));
    let topology = Some(topology).filter(|topology| *topology != Closeness::default());
    (topology, origins.collect())
}

/// Reads Kueue's annotation for pod sets that get the same flavor and one domain.
pub(super) fn read_pod_set_group(metadata: &Fields<'_>) -> Option<ValueWithPath<String>> {
    let annotations = metadata.object("annotations")?;
    let value = annotations.text(POD_SET_GROUP)?;
    let path = annotations.field_path(POD_SET_GROUP);
    Some(ValueWithPath { value, path })
}

fn read_slice_layer(annotations: &Fields<'_>) -> Option<SliceLayer> {
    let add_problem = |key: &str, message: &str| {
        let path = annotations.field_path(key);
        annotations.log().add_problem(&path, message);
    };
    let (level, size) = (annotations.text(SLICE_LEVEL), annotations.text(SLICE_SIZE));
    let Some(level) = level else {
        if size.is_some() {
            add_problem(
                SLICE_SIZE,
                "needs podset-slice-required-topology, as in Kueue: add it",
            );
        }
        return None;
    };
    let Some(Ok(pods)) = size.map(|size| size.parse::<i64>()) else {
        let message = "must be the number of pods of a slice: write one, such as \"16\"";
        add_problem(SLICE_SIZE, message);
        return None;
    };
    Some(SliceLayer {
        level,
        pods: Some(pods),
        at_most: None,
    })
}

/// A layer in Kueue's annotation for several layers (KEP-2724).
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SliceConstraint {
    topology: String,
    size: Option<SliceSize>,
    /// Sizes that differ from slice to slice.
    sizes: Option<serde::de::IgnoredAny>,
}

/// A number. Examples of Kueue put it in quotes.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum SliceSize {
    Number(i64),
    Text(String),
}

impl SliceConstraint {
    fn into_layer(self) -> Result<SliceLayer, String> {
        if self.sizes.is_some() {
            let message = "sizes has no counterpart, because all slices of a layer have the same \
                           size: write size";
            return Err(message.to_owned());
        }
        let pods = match self.size {
            Some(SliceSize::Number(pods)) => Some(pods),
            Some(SliceSize::Text(text)) => text.parse().ok(),
            None => None,
        };
        let Some(pods) = pods else {
            return Err("each layer must have size, the number of pods of a slice".to_owned());
        };
        Ok(SliceLayer {
            level: self.topology,
            pods: Some(pods),
            at_most: None,
        })
    }
}

fn read_slice_layers(annotations: &Fields<'_>) -> Vec<SliceLayer> {
    let Some(text) = annotations.text(SLICE_LAYERS) else {
        return Vec::new();
    };
    let layers = match serde_json::from_str::<Vec<SliceConstraint>>(&text) {
        Ok(layers) if layers.is_empty() => Err("must have a layer: add one, or remove it".into()),
        Ok(layers) => layers
            .into_iter()
            .map(SliceConstraint::into_layer)
            .collect::<Result<Vec<_>, String>>(),
        Err(error) => Err(format!(
            "must be a JSON list of layers, each with topology and size: {error}"
        )),
    };
    layers.unwrap_or_else(|message| {
        let path = annotations.field_path(SLICE_LAYERS);
        annotations.log().add_problem(&path, message);
        Vec::new()
    })
}
