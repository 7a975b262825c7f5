//! Finds out whether a refused pod or its node is the cause.

use std::collections::BTreeSet;

use trellis_api::names;
use trellis_api::pod_group::Plan;
use trellis_compiler::{PodPlacement, PodTemplate};
use trellis_gang::key::Key;

use super::Committer;

/// Other nodes that are tried.
const TRIED: usize = 3;

impl Committer {
    /// The node, if a dry run of the same pod on another node passes.
    pub(super) async fn node_at_fault(
        &self,
        job: &Key,
        plan: &Plan,
        (pods, index): (&PodTemplate<'_>, u32),
        refused: &PodPlacement<'_>,
    ) -> Option<String> {
        for node in self.others(plan, refused.node) {
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

    /// Some other nodes: those of the plan, then any.
    fn others(&self, plan: &Plan, node: &str) -> Vec<String> {
        let planned = plan.assignments.iter().map(|a| a.node.clone());
        let nodes = self.context.cache.nodes.all();
        let all = nodes.iter().filter_map(|n| n.metadata.name.clone());
        let (planned, all): (BTreeSet<_>, BTreeSet<_>) = (planned.collect(), all.collect());
        let others = planned.iter().chain(all.difference(&planned));
        let others = others.filter(|other| *other != node);
        others.take(TRIED).cloned().collect()
    }
}
