//! Translates objects of the cluster into the script.

use trellis_api::document::{Document, Problem};
use trellis_api::kinds;
use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_gang::observed::{SlimNode, SlimPod, UnhealthyRules};
use trellis_gang::requirements::pod_usage::PodUsage;
use trellis_scheduler::{NodeName, Time};
use trellis_simulate::ScriptChange;
use trellis_simulate::scenario::NodePattern;

use super::script_author::ScriptAuthor;
use crate::files::source_object::SourceObject;
use crate::plan::input::note_unread;
use crate::plan::snapshot::ClusterSnapshot;
use crate::simulate::node_patterns;

/// Kinds of a cluster that a simulation ignores.
/// A PodGroup shows running jobs with an unknown end. GPU hours start at 0, so a QuotaLedger has no
/// effect.
const IGNORED_KINDS: [&str; 5] = [
    "PodGroup",
    "ResourceQuota",
    "DaemonSet",
    "DeviceClass",
    "QuotaLedger",
];

impl ScriptAuthor {
    /// Adds the nodes of a pattern at the start.
    pub(super) fn add_pattern(
        &mut self,
        pattern: &NodePattern,
        source: &SourceObject,
        field: &str,
    ) {
        for value in node_patterns::expand_pattern(pattern) {
            let Ok(node) = serde_json::from_value::<SlimNode>(value) else {
                let message = "is not a node: see docs/simulate.md";
                self.problems.push(source.problem(field, message));
                return;
            };
            let name = node.metadata.name.clone().unwrap_or_default();
            if self.snapshot.nodes.contains_key(&name) {
                let message = format!("node {name:?} is defined twice: put {{i}} into the name");
                let field = format!("{field}.name");
                self.problems.push(source.problem(&field, message));
                return;
            }
            self.change_node(Time::default(), &node);
            self.snapshot.add(node);
        }
    }

    fn change_node(&mut self, at: Time, node: &SlimNode) {
        self.has_nodes = true;
        self.script.add(
            at,
            ScriptChange::Node(engine::to_engine_node(node, &UnhealthyRules::default())),
        );
    }

    /// Adds the initial objects: first the cluster, then the jobs.
    pub(super) fn add_initial_objects(&mut self, objects: &[SourceObject]) {
        let start = Time::default();
        let (jobs, cluster_objects): (Vec<_>, Vec<_>) = objects
            .iter()
            .partition(|source| source.is_kind("TrainingJob"));
        for source in cluster_objects {
            match self.apply_object(start, &source.document, source) {
                Ok(true) => {}
                Ok(false)
                    if kinds::has_our_group(&source.document)
                        && !IGNORED_KINDS.contains(&source.document.kind.as_str()) =>
                {
                    let kind = &source.document.kind;
                    let message = format!(
                        "{kind:?} of {:?} is an unknown kind",
                        source.document.api_version
                    );
                    self.problems.push(source.problem("kind", message));
                }
                Ok(false) => {
                    note_unread(&mut self.notes, &source.document, &source.file, true);
                }
                Err(problems) => self.problems.extend(problems),
            }
        }
        // Without any queues in the files, the queue of a fresh install applies.
        if self.snapshot.queues.is_none() {
            for (name, queue) in self.snapshot.queues_or_default() {
                let queue = engine::to_engine_queue(name, &queue.spec);
                self.script.add(start, ScriptChange::Queue(queue));
            }
        }
        for source in jobs {
            self.apply_job(start, &source.document, source, None);
        }
    }

    /// Applies an object of the cluster.
    /// Returns false if nothing depends on its kind.
    pub(super) fn apply_object(
        &mut self,
        at: Time,
        document: &Document,
        source: &SourceObject,
    ) -> Result<bool, Vec<Problem>> {
        if IGNORED_KINDS.contains(&document.kind.as_str()) {
            return Ok(false);
        }
        let mut snapshot = ClusterSnapshot::default();
        let in_file = |problems| source.to_problems(problems).collect::<Vec<_>>();
        let Some(name) = snapshot.add_document(document).map_err(in_file)? else {
            return Ok(false);
        };
        if name.is_empty() {
            let problem = document.problem("metadata.name", "is required: add it");
            return Err(vec![problem.with_file(source.file.as_str())]);
        }
        for node in snapshot.nodes.values() {
            self.change_node(at, node);
        }
        for (key, pod) in &snapshot.pods {
            self.change_pod(at, key, pod);
        }
        for (name, queue) in snapshot.queues.iter().flatten() {
            let queue = engine::to_engine_queue(name, &queue.spec);
            self.script.add(at, ScriptChange::Queue(queue));
        }
        for (name, flavor) in &snapshot.flavors {
            let flavor = engine::to_engine_flavor(name, &flavor.spec);
            self.known_flavors.insert(name.clone());
            if flavor.growth.is_some() {
                self.growing_flavors.insert(name.clone());
                self.has_nodes = true;
            }
            self.script.add(at, ScriptChange::Flavor(flavor));
        }
        for (name, topology) in &snapshot.topologies {
            let topology = engine::to_engine_topology(name, &topology.spec);
            self.script.add(at, ScriptChange::Topology(topology));
        }
        let limits = !snapshot.quota_policies.is_empty();
        self.snapshot.overlay(snapshot);
        if limits {
            let quotas = self.snapshot.to_quota_policies();
            self.script.add(at, ScriptChange::Quotas(quotas));
        }
        Ok(true)
    }

    fn change_pod(&mut self, at: Time, key: &Key, pod: &SlimPod) {
        let change = match PodUsage::of(pod) {
            PodUsage::Holds { node, request, .. } => {
                ScriptChange::ExternalPod(engine::pod_key(key), NodeName::new(node), request)
            }
            _ => ScriptChange::ExternalPodDeleted(engine::pod_key(key)),
        };
        self.script.add(at, change);
    }
}
