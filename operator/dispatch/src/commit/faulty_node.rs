//! Finds out whether a refused pod or its node is the cause.

use std::collections::BTreeSet;

use trellis_api::names;
use trellis_api::pod_group::Plan;
use trellis_compiler::{PodBuilder, PodPlacement};
use trellis_gang::key::Key;

use super::Committer;

/// Number of other nodes to try.
const MAX_TRIED_NODES: usize = 3;

impl Committer {
    /// Returns the node, if a dry run of the same pod on another node passes.
    pub(super) async fn find_faulty_node(
        &self,
        job: &Key,
        plan: &Plan,
        (pods, index): (&PodBuilder<'_>, u32),
        refused: &PodPlacement<'_>,
    ) -> Option<String> {
        for node in self.other_nodes(plan, refused.node) {
            let at = PodPlacement {
                node: &node,
                ..*refused
            };
            let pod = pods.pod(index, &at);
            let tried = self.commands.create::<_, serde::de::IgnoredAny>(
                &job.namespace,
                names::SCHEDULER_MANAGER,
                &pod,
                true,
            );
            if tried.await.is_ok() {
                return Some(refused.node.to_owned());
            }
        }
        None
    }

    /// Returns some other nodes: those of the plan first, then any.
    fn other_nodes(&self, plan: &Plan, node: &str) -> Vec<String> {
        let planned = plan.assignments.iter().map(|a| a.node.clone());
        let nodes = self.context.cache.nodes.all();
        let all = nodes.iter().filter_map(|n| n.metadata.name.clone());
        let (planned, all): (BTreeSet<_>, BTreeSet<_>) = (planned.collect(), all.collect());
        let others = planned.iter().chain(all.difference(&planned));
        let others = others.filter(|other| *other != node);
        others.take(MAX_TRIED_NODES).cloned().collect()
    }
}
