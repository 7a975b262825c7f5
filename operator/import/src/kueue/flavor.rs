//! ResourceFlavor and Topology.

use trellis_api::resource_flavor::{NodeTaint, ResourceFlavor, ResourceFlavorSpec};
use trellis_api::topology::{Topology, TopologyLevel, TopologySpec};

use crate::context::ImportContext;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::metadata;
use crate::pod::placement;

/// Converts a ResourceFlavor.
pub(crate) fn convert_flavor(root: &Fields<'_>, _: &ImportContext) -> Vec<ImportedObject> {
    let Some(metadata) = metadata::read_metadata(root, false) else {
        return Vec::new();
    };
    let mut spec = ResourceFlavorSpec::default();
    if let Some(fields) = root.object("spec") {
        spec.node_labels = fields.map("nodeLabels");
        spec.tolerations = placement::read_tolerations(&fields);
        let taints = fields.objects("nodeTaints").into_iter();
        spec.node_taints = taints.filter_map(|taint| read_node_taint(&taint)).collect();
        fields.note_at(
            "topologyName",
            "binds the flavor to a topology, and in Trellis a Topology applies to all nodes",
            "import the Topology too; jobs request its levels with topology: {required: LEVEL}",
        );
        fields.note_at(
            "resourceWeights",
            "weighs resources for fair sharing, and Trellis counts each resource by its share of the total",
            "set the weight of the queues",
        );
    }
    let mut flavor = ResourceFlavor::new("", spec);
    flavor.metadata = metadata;
    vec![ImportedObject::ResourceFlavor(flavor)]
}

fn read_node_taint(taint: &Fields<'_>) -> Option<NodeTaint> {
    taint.ignore(&["timeAdded"]);
    let key = taint.text("key");
    if key.is_none() {
        let log = taint.log();
        log.add_problem(&taint.field_path("key"), "is required: add it");
    }
    let effect = placement::read_effect(taint, "effect");
    if effect.is_none() {
        let message = "is required: write NoSchedule, PreferNoSchedule or NoExecute";
        taint
            .log()
            .add_problem(&taint.field_path("effect"), message);
    }
    Some(NodeTaint {
        key: key?,
        value: taint.text("value"),
        effect: effect?,
    })
}

/// Converts a Topology.
pub(crate) fn convert_topology(root: &Fields<'_>, _: &ImportContext) -> Vec<ImportedObject> {
    let Some(metadata) = metadata::read_metadata(root, false) else {
        return Vec::new();
    };
    let levels = root.object("spec").map(|spec| spec.objects("levels"));
    let levels = levels.unwrap_or_default();
    let levels = levels.iter().filter_map(|level| {
        let node_label = level.text("nodeLabel")?;
        Some(TopologyLevel {
            name: None,
            node_label,
        })
    });
    let mut topology = Topology::new(
        "",
        TopologySpec {
            levels: levels.collect(),
        },
    );
    topology.metadata = metadata;
    vec![ImportedObject::Topology(topology)]
}
