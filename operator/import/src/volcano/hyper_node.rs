//! HyperNodes, which give the tiers of network topologies their names.
//!
//! Source of the fields: volcano-sh/apis, `topology/v1alpha1/hypernode_types.go`.

use crate::context::ImportContext;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::metadata;

/// Reads a HyperNode. It becomes no object: jobs of the same input use the name of its tier.
pub(crate) fn convert_hyper_node(root: &Fields<'_>, _: &ImportContext) -> Vec<ImportedObject> {
    let Some(node) = metadata::object_name(root) else {
        return Vec::new();
    };
    let Some(spec) = root.object("spec") else {
        root.log()
            .add_problem("spec", "is required: add spec.tier and spec.tierName");
        return Vec::new();
    };
    if spec.integer("tier").is_none() && !root.log().has_problems() {
        root.log().add_problem("spec.tier", "is required: add it");
    }
    match spec.text("tierName") {
        Some(level) => spec.note_at(
            "members",
            "lists the nodes of a domain, and in Trellis a label of each node names its domain",
            &format!(
                "label the nodes of {node:?}, and create a Topology with the level {level:?} (docs/topology.md)"
            ),
        ),
        None => {
            for key in ["tier", "members"] {
                spec.note_at(
                    key,
                    &format!("is left out, because HyperNode {node:?} has no tierName, the name of a level in Trellis"),
                    "add tierName, and create a Topology with a level of this name (docs/topology.md)",
                );
            }
        }
    }
    Vec::new()
}
