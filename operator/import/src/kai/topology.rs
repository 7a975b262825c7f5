//! KAI's Topology, and the topology annotations of jobs and pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::context::ImportContext;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::kueue;

const TOPOLOGY: &str = "kai.scheduler/topology";
pub(super) const REQUIRED: &str = "kai.scheduler/topology-required-placement";
pub(super) const PREFERRED: &str = "kai.scheduler/topology-preferred-placement";

/// Converts a Topology. KAI derived it from the Topology of Kueue.
pub(crate) fn convert_topology(root: &Fields<'_>, context: &ImportContext) -> Vec<ImportedObject> {
    let levels = root.object("spec").map(|spec| spec.objects("levels"));
    for level in levels.iter().flatten() {
        level.note_at(
            "alias",
            "is a second name of the level, and in Trellis a level has one: jobs of the same input get the node label",
            "set name of the level to request it by this name only",
        );
    }
    kueue::convert_topology(root, context)
}

/// The Topologies of KAI in the input.
#[derive(Default)]
pub(crate) struct KaiTopologies {
    names: BTreeSet<String>,
    /// Node labels by alias. None: levels of several Topologies have the alias.
    aliases: BTreeMap<String, Option<String>>,
}

impl KaiTopologies {
    /// Adds a Topology of the input.
    pub(crate) fn insert(&mut self, name: &str, topology: &Value) {
        self.names.insert(name.to_owned());
        let levels = topology.pointer("/spec/levels").and_then(Value::as_array);
        for level in levels.into_iter().flatten() {
            let text = |key: &str| level.get(key).and_then(Value::as_str);
            let Some((alias, label)) = text("alias").zip(text("nodeLabel")) else {
                continue;
            };
            let entry = self.aliases.entry(alias.to_owned());
            let known = entry.or_insert_with(|| Some(label.to_owned()));
            if known.as_deref() != Some(label) {
                *known = None;
            }
        }
    }

    /// Returns the name of a level in Trellis: its node label.
    fn level_name(&self, level: String) -> String {
        let label = self.aliases.get(&level).cloned().flatten();
        label.unwrap_or(level)
    }
}

/// Reads the level in an annotation of a job or a pod.
pub(super) fn read_level(
    annotations: &Fields<'_>,
    key: &str,
    context: &ImportContext,
) -> Option<String> {
    let level = annotations.text(key)?;
    Some(context.kai_topologies.level_name(level))
}

/// Reads the annotation that names the Topology. In Trellis, the names of levels suffice.
pub(super) fn read_topology_name(annotations: &Fields<'_>, context: &ImportContext) {
    let Some(name) = annotations.text(TOPOLOGY) else {
        return;
    };
    if !context.kai_topologies.names.contains(&name) {
        annotations.note_at(
            TOPOLOGY,
            "names a Topology that is not in the input; the job waits until a Topology has its levels",
            "add its document to the input, unless the cluster has such a Topology",
        );
    }
}
